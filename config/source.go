package config

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
)

// layer is what one place says: raw values by path.
type layer struct {
	values *koanf.Koanf
	origin func(path string) string
}

// names are all variables there are, which follow from the stream-ids, with the path of each.
type names struct {
	prefix  string
	paths   map[string]string // by variable, prefix included
	secrets map[string]bool   // by path
}

func (n names) variable(path string) string { return n.prefix + variable(path) }

// readEnvironment reads the variables that are ours.
func (l *loader) readEnvironment(environ []string) layer {
	origins := map[string]string{}
	k := koanf.New(".")
	set := func(path, value, origin string) (string, any) {
		if other, twice := origins[path]; twice && other != origin {
			l.complain("%s and %s_FILE are both set: keep one", l.names.variable(path), l.names.variable(path))
			return "", nil
		}
		origins[path] = origin
		return path, value
	}
	provider := env.Provider(".", env.Opt{
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			short, ours := strings.CutPrefix(name, l.names.prefix)
			if !ours || value == "" {
				return "", nil
			}
			if path, known := l.names.paths[name]; known {
				return set(path, value, "environment "+name)
			}
			if path, secret := l.names.paths[strings.TrimSuffix(name, "_FILE")]; secret && strings.HasSuffix(name, "_FILE") && l.names.secrets[path] {
				content, err := os.ReadFile(value)
				if err != nil {
					l.complain("%s: %v", name, err)
					return "", nil
				}
				return set(path, strings.TrimSuffix(string(content), "\n"), "file of "+name)
			}
			if user, ok := strings.CutPrefix(short, "APP_"); ok {
				return "app." + strings.ToLower(strings.ReplaceAll(user, "_", ".")), value
			}
			l.stranger(name, short)
			return "", nil
		},
	})
	if err := k.Load(provider, nil); err != nil {
		l.complain("environment: %v", err)
	}
	return layer{k, func(path string) string { return origins[path] }}
}

// kubernetes matches what Kubernetes injects for services that are called like our keys.
var kubernetes = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT|PORT_[0-9]+_.*)$`)

// stranger says what is to be said of a variable that is not known but begins like ours.
func (l *loader) stranger(name, short string) {
	if kubernetes.MatchString(short) {
		return
	}
	known := make([]string, 0, len(l.names.paths))
	like := false
	word, _, _ := strings.Cut(short, "_")
	for v := range l.names.paths {
		known = append(known, v)
		first, _, _ := strings.Cut(strings.TrimPrefix(v, l.names.prefix), "_")
		like = like || first == word && strings.Contains(short, "_")
	}
	slices.Sort(known)
	switch {
	case strings.HasPrefix(short, "STREAMS_"):
		l.complain("%s: no registered stream has such a setting%s", name, didYouMean(name, known))
	case like:
		l.warnings = append(l.warnings, fmt.Sprintf("%s is not known and not read%s", name, didYouMean(name, known)))
	}
}

// readFile reads the YAML file; an empty name means none.
func (l *loader) readFile(name string) layer {
	k := koanf.New(".")
	if name != "" {
		if err := k.Load(file.Provider(name), yaml.Parser()); err != nil {
			l.complain("CONFIG_FILE %s: %v", name, err)
		}
	}
	known := make([]string, 0, len(l.names.paths))
	for _, path := range l.names.paths {
		known = append(known, path)
	}
	slices.Sort(known)
	for _, path := range k.Keys() {
		if strings.HasPrefix(path, "app.") || slices.Contains(known, path) {
			continue
		}
		if id, of := strings.CutPrefix(path, "streams."); of {
			if id, _, _ = strings.Cut(id, "."); !l.registered(id) {
				l.complain("%s in %s: no code registers stream %q%s", path, name, id, didYouMean(id, l.ids))
				continue
			}
		}
		l.complain("%s in %s is no setting%s", path, name, didYouMean(path, known))
	}
	return layer{k, func(string) string { return "file " + name }}
}
