package config

import (
	"fmt"
	"io"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// setting is a value and where it came from.
type setting struct{ path, value, origin string }

const hidden = "******"

// came notes where a setting's value came from; a later note of the same setting replaces the earlier.
func (l *loader) came(path, value, origin string, secret bool) {
	if secret && !strings.Contains(value, "://") && value != "" {
		value = hidden
	}
	s := setting{path, value, origin}
	if i := slices.IndexFunc(l.cfg.settings, func(s setting) bool { return s.path == path }); i >= 0 {
		l.cfg.settings[i] = s
		return
	}
	l.cfg.settings = append(l.cfg.settings, s)
}

// show is the value as Print prints it, passwords in URLs hidden.
func show(f field) string {
	v := f.value
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch x := v.Interface().(type) {
	case time.Duration:
		return x.String()
	case []string:
		shown := slices.Clone(x)
		if f.secret() {
			for i, s := range shown {
				shown[i] = redact(s)
			}
		}
		return strings.Join(shown, ",")
	}
	return fmt.Sprint(v.Interface())
}

// redact hides the password of a URL, and all of what is none.
func redact(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" {
		return hidden + "://" + hidden
	}
	if u.User != nil {
		u.User = url.UserPassword(u.User.Username(), hidden)
	}
	u.RawQuery = ""
	return strings.ReplaceAll(u.String(), url.QueryEscape(hidden), hidden)
}

// Print writes every setting as its variable, its value (secrets hidden) and where it came from.
func (c *Config) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range c.settings {
		fmt.Fprintf(t, "%s\t%s\t%s\n", variable(s.path), s.value, s.origin)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print configuration: %w", err)
	}
	return nil
}
