package config

import (
	"slices"
	"strings"

	"github.com/stepwell/stepwell/internal/spelling"
)

// The modes of MODES: which parts of the actor run in a process.
const (
	ModeStreams  = "streams"
	ModeRetries  = "retries"
	ModeChannels = "channels"
	ModeAPI      = "api"
)

// allModes are those that run where nobody chooses.
func allModes() []string { return []string{ModeStreams, ModeRetries, ModeChannels, ModeAPI} }

// Runs says whether this process runs a part, by its mode.
func (c *Config) Runs(mode string) bool { return slices.Contains(c.Modes, mode) }

// ModesLeftOut are the modes that this process does not run, in the order of the documentation.
func (c *Config) ModesLeftOut() []string {
	return slices.DeleteFunc(allModes(), c.Runs)
}

// Reads says whether this process reads the topics of the stream.
func (c *Config) Reads(id string) bool {
	return c.Runs(ModeStreams) && !c.Streams[id].Retired && c.HasTopics(id)
}

// readsAny says whether it reads any.
func (c *Config) readsAny() bool {
	for id := range c.Streams {
		if c.Reads(id) {
			return true
		}
	}
	return false
}

// modes checks the list, and that something runs.
func (v *checker) modes() {
	c := v.cfg
	known := strings.Join(allModes(), ", ")
	v.check(len(c.Modes) > 0, "modes", "is empty: a process without any mode does nothing; known: %s", known)
	// On with the modes that were probably meant, so that what is missing for these is told, too;
	// with all, where nobody knows.
	var meant []string
	for i, mode := range c.Modes {
		if !slices.Contains(allModes(), mode) {
			v.refuse("modes", "%s is not known; known: %s", quote(mode), known)
		}
		if slices.Contains(c.Modes[:i], mode) {
			v.refuse("modes", "%s is there twice", quote(mode))
		}
		if near := spelling.Nearest(mode, allModes()); near != "" {
			meant = append(meant, near)
		}
	}
	if len(meant) == 0 {
		meant = allModes()
	}
	allKnown := slices.Equal(c.Modes, meant)
	c.Modes = meant
	v.check(!allKnown || len(c.Streams) == 0 || v.busy(), "modes", "leaves nothing to run: no stream has such a part")
}

// busy says whether any part has something to do.
func (v *checker) busy() bool {
	c := v.cfg
	if c.Runs(ModeAPI) || c.readsAny() {
		return true
	}
	for id, s := range c.Streams {
		if c.Runs(ModeStreams) && c.enqueued[id] || c.Runs(ModeRetries) && *s.Retry.Enabled || c.Runs(ModeChannels) && len(s.Channels) > 0 {
			return true
		}
	}
	return false
}

// retired checks a stream that is to drain.
func (v *checker) retired(at string, s *Stream) {
	if !s.Retired {
		return
	}
	v.check(*s.Retry.Enabled || len(s.Channels) > 0, at+"retired", "is for streams with queues to drain, and with %s=false nothing is drained: set it to true where messages wait from before, or take the stream out of the code",
		v.shown(at, "retry.enabled"))
}
