package config

import (
	"fmt"
	"io"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/stepwell/stepwell/internal/backoff"
)

// setting is a value and where it came from.
type setting struct {
	path, value, origin string
	found               string // the path under which it was found: a stream's setting may be under the shared one's
	secret              bool
}

const hidden = "******"

// isOwn says that it was set for this stream alone.
func (s *setting) isOwn() bool {
	return s.origin == "code" || s.origin != "default" && s.found == s.path
}

// came notes where a setting's value came from.
func (l *loader) came(f field, found, origin string) {
	l.cfg.settings = append(l.cfg.settings, setting{f.path, show(f), origin, found, f.secret()})
}

// setting returns what was noted of a setting.
func (c *Config) setting(path string) *setting {
	i := slices.IndexFunc(c.settings, func(s setting) bool { return s.path == path })
	if i < 0 {
		return &setting{path: path, found: path}
	}
	return &c.settings[i]
}

// show is the value as Print prints it, without secrets.
func show(f field) string {
	v := f.value
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch {
	case f.secret() && v.IsZero():
		return ""
	case f.secret() && f.tag.Get("secret") != "url":
		return hidden
	}
	switch x := v.Interface().(type) {
	case time.Duration:
		return backoff.Text(x)
	case int:
		if f.tag.Get("unit") == "bytes" {
			return size(x)
		}
	case []time.Duration:
		shown := make([]string, len(x))
		for i, d := range x {
			shown[i] = backoff.Text(d)
		}
		return strings.Join(shown, ",")
	case []string:
		shown := slices.Clone(x)
		for i, s := range shown {
			if f.secret() {
				shown[i] = redact(s)
			}
		}
		return strings.Join(shown, ",")
	}
	return fmt.Sprint(v.Interface())
}

// size is a number of bytes in the largest unit that needs no fraction.
func size(n int) string {
	for _, u := range []string{"", "KiB", "MiB"} {
		if n == 0 || n%1024 != 0 {
			return strconv.Itoa(n) + u
		}
		n /= 1024
	}
	return strconv.Itoa(n) + "GiB"
}

// redact is a URL without its password and all that may hold a piece of one; of what is no URL it
// is nothing.
func redact(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || strings.Contains(u.Path, "@") {
		return hidden
	}
	who := ""
	if u.User != nil {
		who = u.User.Username() + "@"
		if _, set := u.User.Password(); set {
			who = u.User.Username() + ":" + hidden + "@"
		}
	}
	return u.Scheme + "://" + who + u.Host + u.EscapedPath()
}

// quote is a value as errors show it: on one line, not too long, and without what may be a user and
// a password.
func quote(s string) string {
	const longest = 100
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		s = hidden + s[i:]
	}
	if len(s) > longest {
		s = s[:longest] + "…"
	}
	return strconv.Quote(s)
}

// Print writes every setting as its variable, its value (secrets hidden) and where it came from.
// Last come the program's own that are set, without their values: which of them are secrets only
// the program knows.
func (c *Config) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range c.settings {
		fmt.Fprintf(t, "%s\t%s\t%s\n", c.prefix+variable(s.path), s.value, s.origin)
	}
	own := map[string]string{}
	for _, key := range c.user.Keys() {
		own[variable(below(key))] = "file"
	}
	for name := range c.own {
		own[name] = "environment"
	}
	delete(own, variable("app.name"))
	for _, name := range slices.Sorted(maps.Keys(own)) {
		fmt.Fprintf(t, "%s\t%s\t%s\n", c.prefix+name, hidden, own[name])
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print configuration: %w", err)
	}
	return nil
}
