package config

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/knadh/koanf/v2"
)

// Source says where a configuration comes from. Later layers win: defaults, the code, what is shared by all streams in the file and then in the
// environment, a stream's own values in the file and then in the environment.
type Source struct {
	// AppName is the name in the code.
	AppName string
	// Streams are the registered streams, with what the code sets.
	Streams map[string]Stream
	// EnvPrefix stands before every variable's name.
	EnvPrefix string
	// Environ is the environment as os.Environ gives it; nil means that.
	Environ []string
	// File names a YAML file; empty: the variable CONFIG_FILE does.
	File string
	// Embedded says that the brokers are not the configured ones, so that their addresses are not required.
	Embedded bool
}

type loader struct {
	source   Source
	ids      []string
	names    names
	cfg      *Config
	errs     []error
	warnings []string
	layers   []layer // file, environment
}

// Load reads and checks a configuration. The error, an [Errors], has all mistakes at once.
func Load(source Source) (*Config, error) {
	if source.Environ == nil {
		source.Environ = os.Environ()
	}
	l := &loader{source: source, ids: slices.Sorted(maps.Keys(source.Streams)), cfg: &Config{Streams: map[string]Stream{}}}
	l.name()
	if source.File == "" {
		source.File = lookup(source.Environ, source.EnvPrefix+"CONFIG_FILE")
	}
	l.layers = []layer{l.readFile(source.File), l.readEnvironment(source.Environ)}
	l.fill()
	l.cfg.user = koanf.New(".")
	for _, layer := range l.layers {
		if err := l.cfg.user.Merge(layer.values); err != nil {
			l.complain("merge layers: %v", err)
		}
	}
	l.validate()
	if err := Join(nil, l.errs...); err != nil {
		return nil, err
	}
	l.cfg.warnings = l.warnings
	return l.cfg, nil
}

func (l *loader) complain(format string, args ...any) {
	l.errs = append(l.errs, fmt.Errorf(format, args...))
}

func (l *loader) registered(id string) bool { return slices.Contains(l.ids, id) }

func lookup(environ []string, name string) string {
	for _, e := range environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

// name finds out the names of all variables. Two streams whose variables would be the same are a mistake.
func (l *loader) name() {
	l.names = names{prefix: l.source.EnvPrefix, paths: map[string]string{}, secrets: map[string]bool{}}
	add := func(f field) {
		v := l.names.variable(f.path)
		if other, taken := l.names.paths[v]; taken {
			l.complain("streams: %s and %s would both be set by %s: rename a stream", other, f.path, v)
		}
		l.names.paths[v], l.names.secrets[f.path] = f.path, f.secret()
	}
	for _, f := range fields(reflect.ValueOf(l.cfg).Elem(), "") {
		add(f)
	}
	for _, f := range fields(reflect.ValueOf(&l.cfg.Defaults).Elem(), "") {
		if !f.onlyStreams() {
			add(f)
		}
	}
	for _, id := range l.ids {
		for _, f := range fields(reflect.ValueOf(&Stream{}).Elem(), "streams."+id) {
			add(f)
		}
	}
	l.names.paths[l.source.EnvPrefix+"CONFIG_FILE"] = "config_file"
}

// fill gives every setting its value.
func (l *loader) fill() {
	for _, f := range fields(reflect.ValueOf(l.cfg).Elem(), "") {
		l.settle(f, reflect.Value{}, f.path)
	}
	if l.cfg.App.Name == "" && l.source.AppName != "" {
		l.cfg.App.Name = l.source.AppName
		l.came("app.name", l.source.AppName, "code", false)
	}
	for _, f := range fields(reflect.ValueOf(&l.cfg.Defaults).Elem(), "") {
		if !f.onlyStreams() {
			l.settle(f, reflect.Value{}, f.path)
		}
	}
	for _, id := range l.ids {
		s, code := Stream{}, l.source.Streams[id]
		inCode := fields(reflect.ValueOf(&code).Elem(), "")
		for i, f := range fields(reflect.ValueOf(&s).Elem(), "streams."+id) {
			paths := []string{f.path}
			if !f.onlyStreams() {
				paths = append(paths, inCode[i].path) // the shared one
			}
			l.settle(f, inCode[i].value, paths...)
		}
		l.cfg.Streams[id] = s
	}
}

// settle finds the setting's value under the first of the paths that has one, the environment before the file, then in the code, then its default.
func (l *loader) settle(f field, code reflect.Value, paths ...string) {
	if path, raw, origin, found := l.find(paths); found {
		err := assign(f, raw)
		if err == nil {
			l.came(f.path, show(f), origin, f.secret())
			return
		}
		shown := fmt.Sprintf("%q ", fmt.Sprint(raw))
		if f.secret() {
			shown = ""
		}
		l.mistake(fmt.Sprintf("%s: %s%v (from %s)", l.names.variable(path), shown, err, origin))
		// On with what lies below, so that nothing is said twice.
	}
	if code.IsValid() && !code.IsZero() {
		f.value.Set(code)
		l.came(f.path, show(f), "code", f.secret())
		return
	}
	if text := f.tag.Get("default"); text != "" {
		if err := assign(f, text); err != nil {
			l.complain("default of %s: %v", f.path, err)
		}
	}
	l.came(f.path, show(f), "default", f.secret())
}

// find returns the raw value under the first of the paths that has one, in the environment before the file.
func (l *loader) find(paths []string) (path string, raw any, origin string, found bool) {
	for _, path := range paths {
		for _, layer := range slices.Backward(l.layers) {
			if layer.values.Exists(path) {
				return path, layer.values.Get(path), layer.origin(path), true
			}
		}
	}
	return "", nil, "", false
}

// mistake complains once, however many streams share the setting.
func (l *loader) mistake(text string) {
	if !slices.ContainsFunc(l.errs, func(err error) bool { return err.Error() == text }) {
		l.complain("%s", text)
	}
}
