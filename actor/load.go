package actor

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stepwell/stepwell/config"
)

// Load reads the app's configuration from its code, its file and environ (as os.Environ gives it;
// nil means that). The error lists all mistakes, those of the code included.
func Load(app App, environ []string) (*config.Config, error) {
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(app.Streams)) {
		if app.Streams[id].Handler == nil {
			errs = append(errs, fmt.Errorf("stream %q: App.Streams[%q].Handler is nil: register a handler", id, id))
		}
	}
	streams := make(map[string]config.Stream, len(app.Streams))
	for id, s := range app.Streams {
		streams[id] = s.Config
	}
	cfg, err := config.Load(config.Source{
		AppName: app.Name, Streams: streams, EnvPrefix: app.EnvPrefix, Environ: environ, File: app.ConfigFile,
		Embedded: app.Brokers != nil,
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
