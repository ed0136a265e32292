package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/knadh/koanf/v2"
)

// Source says where a configuration comes from. Later layers win: defaults, the code, what is
// shared by all streams in the file and then in the environment, a stream's own values in the file
// and then in the environment.
type Source struct {
	// AppName is the name in the code.
	AppName string
	// Streams are the registered streams, with what the code sets.
	Streams map[string]Stream
	// Batches are the streams of these that are handled in batches.
	Batches map[string]bool
	// Enqueued are the streams of these that read nothing from Kafka: their messages are enqueued.
	Enqueued map[string]bool
	// OnDead says whether a stream of these has an OnDead, or a channel of it, whose name is empty
	// for the stream's own. Nil: none has, and an actor with one does not take the configuration.
	OnDead func(stream, channel string) bool
	// EnvPrefix stands before every variable's name, say "SHIPPING_".
	EnvPrefix string
	// Environ is the environment as os.Environ gives it; nil means that.
	Environ []string
	// File names a YAML file; empty: the variable CONFIG_FILE does.
	File string
	// Check says what is wrong with the user's own settings; each line of its error is a mistake.
	// It is called last, also where there are other mistakes: a setting that cannot be read has its
	// default then. Nil: nothing is looked at.
	Check func(*Config) error
	// Embedded says that the brokers are not the configured ones, so that their addresses are not
	// required, and a warning names what is set to reach them.
	Embedded bool
}

// ids are those of the streams, sorted.
func (s Source) ids() []string { return slices.Sorted(maps.Keys(s.Streams)) }

// loader finds out which settings there are, reads what is said of them, and gives each its value.
// What is wrong with the values is said by a checker. It lives for one Load, on its goroutine.
type loader struct {
	*mistakes
	source Source
	names  names
	// readable are the variables that are looked for, to find what a mistyped one means.
	readable []string
	layers   layers
	cfg      *Config
}

// Load reads and checks a configuration. The error, an [Errors], has all mistakes at once, and each
// [Warning].
func Load(source Source) (*Config, error) {
	if source.Environ == nil {
		source.Environ = os.Environ()
	}
	l := &loader{mistakes: &mistakes{}, source: source, cfg: &Config{
		Streams: map[string]Stream{}, prefix: source.EnvPrefix, own: map[string]string{}, user: koanf.New("."), enqueued: source.Enqueued, onDead: source.OnDead,
	}}
	// In this order: what the names are decides what file and environment can say; and a value has
	// to be found before it can be checked against others.
	l.name()
	if source.File == "" {
		source.File = lookup(source.Environ, source.EnvPrefix+fileVariable)
	}
	l.layers = layers{l.readFile(source.File), l.readEnvironment(source.Environ)}
	l.fill()
	(&checker{l.mistakes, l.source, l.names, l.layers, l.cfg}).validate()
	if source.Embedded {
		l.warnings = append(l.warnings, l.cfg.setForBrokers()...)
	}
	l.askUser()
	if len(l.errs) > 0 {
		for _, w := range l.warnings {
			l.errs = append(l.errs, Warning(oneLine(w)))
		}
		return nil, Join(nil, l.errs...)
	}
	l.cfg.warnings = l.warnings
	return l.cfg, nil
}

// askUser has the user's own settings looked at.
func (l *loader) askUser() {
	if l.source.Check == nil {
		return
	}
	if err := l.source.Check(l.cfg); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			l.complain("%s", line)
		}
	}
}

// mistakes are what is wrong, and what is not but should be known.
type mistakes struct {
	errs     []error
	warnings []string
}

// complain notes a mistake, once however many streams share it.
func (m *mistakes) complain(format string, args ...any) {
	text := oneLine(fmt.Sprintf(format, args...))
	if !slices.ContainsFunc(m.errs, func(err error) bool { return err.Error() == text }) {
		m.errs = append(m.errs, errors.New(text))
	}
}

// oneLine keeps a mistake on its line of the list: a value may have line breaks.
func oneLine(text string) string { return strings.ReplaceAll(text, "\n", `\n`) }

// lookup is os.Getenv on a list: Load reads no environment but the one that it was given.
func lookup(environ []string, name string) string {
	for _, e := range environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

// fill gives every setting its value.
func (l *loader) fill() {
	for _, f := range fields(reflect.ValueOf(l.cfg).Elem(), "") {
		// The zero Value: the code has no say in most settings of the whole app.
		code := reflect.Value{}
		if f.path == "app.name" {
			code = reflect.ValueOf(l.source.AppName)
		}
		l.settle(f, code, f.path)
	}
	for _, f := range fields(reflect.ValueOf(&l.cfg.Defaults).Elem(), "") {
		if !f.onlyStreams() {
			l.settle(f, reflect.Value{}, f.path)
		}
	}
	for _, id := range l.source.ids() {
		s, code := Stream{}, l.source.Streams[id]
		inCode := fields(reflect.ValueOf(&code).Elem(), "")
		for i, f := range fields(reflect.ValueOf(&s).Elem(), "streams."+id) {
			paths := []string{f.path}
			if !f.onlyStreams() {
				paths = append(paths, inCode[i].path) // the shared one
			}
			l.settle(f, inCode[i].value, paths...)
		}
		for _, channel := range l.source.channelNames(id) {
			if s.Channels == nil {
				s.Channels = map[string]Channel{}
			}
			s.Channels[channel] = l.fillChannel(id, channel)
		}
		l.cfg.Streams[id] = s
	}
}

// settle finds the setting's value under the first of the paths that has one, the environment
// before the file, then in the code, then its default.
func (l *loader) settle(f field, code reflect.Value, paths ...string) {
	if path, raw, origin := l.layers.find(paths); path != "" {
		err := assign(f, raw)
		if err == nil {
			l.came(f, path, origin)
			return
		}
		shown := ""
		if value, single := text(raw); single == nil && !f.secret() {
			shown = quote(value) + " "
		}
		l.complain("%s: %s%v (from %s)", l.names.variable(path), shown, err, origin)
		// On with what lies below, so that nothing is said twice.
	}
	if code.IsValid() && !code.IsZero() {
		f.value.Set(code)
		l.came(f, f.path, "code")
		return
	}
	if text := f.tag.Get("default"); text != "" {
		if err := assign(f, text); err != nil {
			l.complain("default of %s: %v", f.path, err)
		}
	}
	l.came(f, f.path, "default")
}

// layers are the places that say something: the file, and the environment, which wins.
type layers []layer

// find returns the raw value under the first of the paths that has one, in the environment before
// the file; no path where none has.
func (l layers) find(paths []string) (path string, raw any, origin string) {
	for _, path := range paths {
		for _, layer := range slices.Backward(l) {
			if raw, found := layer.values[path]; found {
				return path, raw, layer.origins[path]
			}
		}
	}
	return "", nil, ""
}
