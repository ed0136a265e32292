package actor

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/config"
)

// Load reads the app's configuration from its code, its file and environ (as os.Environ gives it;
// nil means that). The error lists all mistakes, those of the code included.
func Load(app App, environ []string) (*config.Config, error) {
	var errs []error
	errs = append(errs, missing("App.Use", app.Use)...)
	for _, id := range slices.Sorted(maps.Keys(app.Streams)) {
		errs = append(errs, app.Streams[id].mistakes(app, id)...)
	}
	batches, enqueued := map[string]bool{}, map[string]bool{}
	streams := make(map[string]config.Stream, len(app.Streams))
	for id, s := range app.Streams {
		s.Config.Channels = make(map[string]config.Channel, len(s.Channels))
		for name, c := range s.Channels {
			s.Config.Channels[name] = c.Config
		}
		streams[id], batches[id], enqueued[id] = s.Config, s.Batch != nil, s.Enqueued
	}
	cfg, err := config.Load(config.Source{
		AppName: app.Name, Streams: streams, Batches: batches, Enqueued: enqueued, OnDead: app.hasOnDead, EnvPrefix: app.EnvPrefix, Environ: environ, File: app.ConfigFile,
		Embedded: app.Brokers != nil, Check: app.check,
	})
	if cfg != nil && len(errs) > 0 {
		for _, w := range cfg.Warnings() {
			errs = append(errs, config.Warning(w))
		}
	}
	if err := config.Join(err, errs...); err != nil {
		return nil, err
	}
	return cfg, nil
}

// hasOnDead says whether a stream, or a channel of it where that is named, has an OnDead.
func (app App) hasOnDead(stream, channel string) bool {
	if channel == "" {
		return app.Streams[stream].OnDead != nil
	}
	return app.Streams[stream].Channels[channel].OnDead != nil
}

// check says what can be wrong with the app only beside its configuration: what the user looks at,
// and where that is well the options for clients, which may be made of it.
func (app App) check(cfg *config.Config) error {
	if app.Check != nil {
		if err := app.Check(cfg); err != nil {
			return err
		}
	}
	return app.checkKafka(cfg)
}

// register is what helps where there is no handler: a typed one may seem to be there.
const register = "register a handler; a typed one is nil where its function is"

// mistakes are those in the code of a stream.
func (s Stream) mistakes(app App, id string) (errs []error) {
	at := fmt.Sprintf("stream %q: App.Streams[%q]", id, id)
	switch {
	case s.Handler == nil && s.Batch == nil:
		errs = append(errs, errors.New(at+".Handler is nil: "+register))
	case s.Handler != nil && s.Batch != nil:
		errs = append(errs, errors.New(at+" has a Handler beside a Batch: keep one"))
	}
	if s.Batch != nil && s.Enqueued {
		errs = append(errs, errors.New(at+" is Enqueued and has a Batch: what is enqueued comes one by one, so it needs a Handler"))
	}
	if s.Batch != nil && len(s.Use) > 0 {
		errs = append(errs, errors.New(at+".Use stands beside Batch, and is for handlers of one message: wrap the function instead"))
	}
	if s.Batch != nil && len(app.Use) > 0 {
		errs = append(errs, errors.New(at+
			".Batch is not wrapped by App.Use, which is for handlers of one message: put that into Use of the other streams, and wrap the function here"))
	}
	if s.Config.Channels != nil {
		errs = append(errs, fmt.Errorf("stream %q: App.Streams[%q].Config.Channels is set: a channel's settings are in App.Streams[%q].Channels", id, id, id))
	}
	errs = append(errs, missing(at+".Use", s.Use)...)
	for _, name := range slices.Sorted(maps.Keys(s.Channels)) {
		of := fmt.Sprintf("channel %q of stream %q: App.Streams[%q].Channels[%q]", name, id, id, name)
		if s.Channels[name].Handler == nil {
			errs = append(errs, errors.New(of+".Handler is nil: "+register))
		}
		errs = append(errs, missing(of+".Use", s.Channels[name].Use)...)
	}
	return errs
}

// missing are the mistakes of a list of middleware.
func missing(of string, use []stepwell.Middleware) (errs []error) {
	for i, one := range use {
		if one == nil {
			errs = append(errs, fmt.Errorf("%s[%d] is nil: leave it out", of, i))
		}
	}
	return errs
}
