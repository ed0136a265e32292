package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/v2"

	"github.com/stepwell/stepwell/internal/spelling"
)

// layer is what one place says: raw values, and where each came from, by the path of the setting. A
// path without a value is not in it: an empty variable says nothing.
type layer struct {
	values  map[string]any
	origins map[string]string
}

// readEnvironment reads the variables that are ours, and keeps those of the user apart.
func (l *loader) readEnvironment(environ []string) layer {
	origins := map[string]string{}
	l.readable = l.names.readable()
	provider := env.Provider("", env.Opt{
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			path, text, origin := l.readVariable(name, value)
			if path == "" {
				return "", nil
			}
			origins[path] = origin
			return path, text
		},
	})
	k := koanf.New("\x00") // no path has it: they stay flat
	if err := k.Load(provider, nil); err != nil {
		l.complain("environment: %v", err)
	}
	return layer{k.All(), origins}
}

// readVariable returns what a variable says about which setting, or no path where it says nothing.
func (l *loader) readVariable(name, value string) (path, text, origin string) {
	short, ours := strings.CutPrefix(name, l.names.prefix)
	if !ours || value == "" || short == fileVariable {
		return "", "", ""
	}
	if path, known := l.names.paths[name]; known {
		return path, value, "environment " + name
	}
	if setting, ok := strings.CutSuffix(name, "_FILE"); ok && l.names.secrets[l.names.paths[setting]] {
		// Which of the two was meant cannot be known, and a wrong secret shows only much later.
		if lookup(l.source.Environ, setting) != "" {
			l.complain("%s and %s are both set: keep one", setting, name)
			return "", "", ""
		}
		text, err := readSecret(value)
		if err != nil {
			l.complain("%s: %v", name, err)
			return "", "", ""
		}
		return l.names.paths[setting], text, "file of " + name
	}
	// The user's own settings: which there are is known only to Unmarshal.
	if strings.HasPrefix(short, "APP_") {
		if !injectedPort(short, value) {
			l.cfg.own[short] = value
		}
		return "", "", ""
	}
	l.stranger(name, short, value)
	return "", "", ""
}

// readSecret reads a secret's file without the line break at its end. Its errors do not repeat the
// name, in case somebody put the secret there.
func readSecret(name string) (string, error) {
	const limit = 64 << 10
	f, err := os.Open(name)
	var content []byte
	if err == nil {
		defer func() { _ = f.Close() }() // only read
		content, err = io.ReadAll(io.LimitReader(f, limit+1))
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("must name a file with the secret, which %w", cause(err))
	case len(content) > limit:
		return "", errors.New("names a file above 64KiB, which is no secret")
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	if text == "" {
		return "", errors.New("names an empty file")
	}
	return text, nil
}

// kubernetes matches what Kubernetes injects for services that are called like our sections.
var kubernetes = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_.*)?)$`)

// injectedPort tells a variable that Kubernetes made for a service's port from one that a person
// made.
func injectedPort(short, value string) bool {
	return strings.HasSuffix(short, "_PORT") && strings.Contains(value, "://") ||
		strings.Contains(short, "_PORT_") && kubernetes.MatchString(short)
}

// stranger says what is to be said of a variable that is not known, but belongs to a section of
// ours or looks like a slip.
func (l *loader) stranger(name, short, value string) {
	// Every pod has such variables for each service of its namespace: they are nobody's mistake.
	if kubernetes.MatchString(short) || injectedPort(short, value) {
		return
	}
	meant := spelling.Meant(name, l.readable)
	if what := l.unregistered(short); what != "" {
		l.complain("%s: %s%s", name, what, meant)
		return
	}
	// A variable whose first word is one of our sections is a slip, most likely. Any other belongs
	// to another program.
	word, _, more := strings.Cut(short, "_")
	ours := func(v string) bool { return strings.HasPrefix(v, l.names.prefix+word+"_") }
	if meant != "" || more && slices.ContainsFunc(l.names.variables(), ours) {
		l.warnings = append(l.warnings, name+" is not known and not read"+meant)
	}
}

// unregistered says what is wrong with a variable that sets a stream or channel that does not
// exist, or what a channel does not have; empty: it does none of these.
func (l *loader) unregistered(short string) string {
	rest, ok := strings.CutPrefix(short, "STREAMS_")
	if !ok {
		return ""
	}
	for _, key := range l.names.streams {
		of, ok := strings.CutSuffix(rest, "_"+key)
		if !ok || slices.ContainsFunc(l.source.ids(), func(id string) bool { return variable(id) == of }) {
			continue
		}
		for _, id := range l.source.ids() {
			name, ok := strings.CutPrefix(of, variable(id)+"_CHANNELS_")
			switch {
			case !ok:
			case slices.ContainsFunc(l.source.channelNames(id), func(known string) bool { return variable(known) == name }):
				return "a channel has no such setting: it is for the stream"
			default:
				return fmt.Sprintf("no code registers such a channel of stream %q", id)
			}
		}
		if key == variable("retired") {
			return "no code registers such a stream: one that is retired keeps its handlers until /v1/streams says that it may go, and then takes this along"
		}
		return "no code registers such a stream"
	}
	return ""
}
