package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"

	"github.com/stepwell/stepwell/internal/spelling"
)

// readFile reads the YAML file; an empty name means none.
func (l *loader) readFile(name string) layer {
	read := layer{map[string]any{}, map[string]string{}}
	if name == "" {
		return read
	}
	k := koanf.New(".")
	if err := k.Load(file.Provider(name), yaml.Parser()); err != nil {
		l.complain("%s%s %s: %s", l.names.prefix, fileVariable, name, explainYAML(err))
		return read
	}
	l.walk(k.Raw(), "", name, read)
	l.cfg.user = k.Cut("app")
	return read
}

// line finds where the parser stumbled, and twice the two lines that have the same key.
var (
	line  = regexp.MustCompile(`line [0-9]+`)
	twice = regexp.MustCompile(`(line [0-9]+): mapping key (?s:.*) already defined at (line [0-9]+)`)
)

// explainYAML says what is wrong without the parser's words, which repeat values and with them
// secrets.
func explainYAML(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return cause(err).Error()
	}
	if found := twice.FindStringSubmatch(err.Error()); found != nil {
		return found[1] + " has a key that " + found[2] + " has, too: keep one"
	}
	const wanted = "is not YAML of the form key: value, nested by indentation; values that begin with one of * & ! { [ @ ` % need quotes"
	if found := line.FindString(err.Error()); found != "" {
		return found + " " + wanted
	}
	return "it " + wanted
}

// walk takes over the settings below path and complains about keys that are none. It stops at a
// setting: what lies below may be a secret that was not quoted.
func (l *loader) walk(values map[string]any, path, name string, into layer) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		at, value := join(path, key), values[key]
		nested, isMap := value.(map[string]any)
		id, ofStream := strings.CutPrefix(at, "streams.")
		switch {
		case strings.HasPrefix(at, "app.") && at != "app.name":
		case l.names.known(at):
			if _, twice := into.values[at]; twice {
				l.complain("%s in %s is there twice: keep one", at, name)
			}
			// A key without a value says nothing, as an empty variable.
			if value != nil && value != "" {
				into.values[at], into.origins[at] = value, "file "+name
			}
		case l.names.sections[at] && (isMap || value == nil):
			l.walk(nested, at, name, into)
		case l.names.sections[at]:
			l.complain("%s in %s holds other settings, it has no value of its own", at, name)
		case l.ofChannels(at) != "":
			l.complain("%s in %s: %s", at, name, l.ofChannels(at))
		case path == "streams" && ofStream:
			l.complain("streams.%s in %s: no code registers stream %q%s", id, name, id, spelling.Meant(id, l.source.ids()))
		default:
			l.complain("%s in %s is no setting%s", at, name, l.didYouMean(at, value))
		}
	}
}

// didYouMean names the setting of whose variable the path, or one below it, is another spelling, as
// window.bytes is of window_bytes, or else the nearest.
func (l *loader) didYouMean(at string, value any) string {
	if meant := l.sameVariable(at, value); meant != "" {
		return "; did you mean " + meant + "?"
	}
	return spelling.Meant(at, l.names.settings())
}

func (l *loader) sameVariable(at string, value any) (meant string) {
	if meant = l.names.paths[l.names.variable(at)]; meant != "" {
		return meant
	}
	nested, _ := value.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(nested)) {
		if meant = l.sameVariable(join(at, key), nested[key]); meant != "" {
			return meant
		}
	}
	return ""
}

// ofChannels says what is wrong with a path that is that of channels, or of one, that no code
// registers; empty: it is none.
func (l *loader) ofChannels(at string) string {
	for _, id := range l.source.ids() {
		known := l.source.channelNames(id)
		rest, ok := strings.CutPrefix(at, "streams."+id+".channels")
		name, below := strings.CutPrefix(rest, ".")
		switch {
		case !ok || l.names.sections[at] || below && strings.Contains(name, "."):
		case rest == "":
			return fmt.Sprintf("no code registers channels of stream %q", id)
		case below:
			return fmt.Sprintf("no code registers channel %q of stream %q%s", name, id, spelling.Meant(name, known))
		}
	}
	return ""
}
