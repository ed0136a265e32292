package actor

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/server"
)

// noSource is the source of a stream of which this process reads nothing: another one does, nobody
// does any more, or its messages are enqueued.
type noSource struct{ why string }

// Run waits until stop ends.
func (noSource) Run(stop, _ context.Context) error {
	<-stop.Done()
	return nil
}

// Pause holds nothing back.
func (noSource) Pause() {}

// Resume ends nothing.
func (noSource) Resume() {}

// Status says why nothing is read.
func (n noSource) Status() sourceStatus {
	return sourceStatus{Status: server.Status{Lag: new(int64)}, Says: n.why}
}

// modes say which parts of the actor run in this process.
type modes struct{ *config.Config }

// source is what a stream's messages come from here.
func (m modes) source(id string, s Stream, k *kafka, l *line) source {
	switch {
	case m.Consumes(id):
		return newIntake(l, m.SourceQueue(id))
	case m.Reads(id):
		return k
	case m.Stream(id).Retired:
		return noSource{"retired: " + m.ofRetired(id, s)}
	case s.Enqueued:
		return noSource{"its messages are enqueued"}
	case m.SourceQueue(id) != "":
		return noSource{"queue " + m.SourceQueue(id) + " is not consumed here (" + m.String() + ")"}
	}
	return noSource{"its topics are not read here (" + m.String() + ")"}
}

// ofRetired says what becomes of messages for a stream that is retired.
func (m modes) ofRetired(id string, s Stream) string {
	queue, exchange := m.SourceQueue(id), m.Stream(id).Exchange
	switch {
	case s.Enqueued:
		return "nothing is enqueued into it any more but by its own handlers"
	case exchange != "":
		return "queue " + queue + " is consumed no more, and fills for as long as it is bound to exchange " + exchange
	case queue != "":
		return "queue " + queue + " is consumed no more"
	}
	return "its topics are read no more"
}

// works says whether the instant queue of the line is worked off here. That of a stream that has
// no other source holds its first tries, too.
func (m modes) works(l *line) bool {
	if l.channel != "" {
		return m.Runs(config.ModeChannels)
	}
	return m.Runs(config.ModeRetries) || l.enqueued && m.Runs(config.ModeStreams)
}

// reads says whether any stream is read here.
func (m modes) reads() bool {
	for id := range m.Streams {
		if m.Reads(id) {
			return true
		}
	}
	return false
}

// retired are the streams that are read no more.
func (m modes) retired() []string {
	var all []string
	for _, id := range slices.Sorted(maps.Keys(m.Streams)) {
		if m.Stream(id).Retired {
			all = append(all, id)
		}
	}
	return all
}

// all says that nothing is left to other processes.
func (m modes) all() bool { return len(m.ModesLeftOut()) == 0 }

// String is the setting as it is.
func (m modes) String() string { return m.Variable("modes") + "=" + strings.Join(m.Modes, ",") }

// noAPI says why /v1 is not served here; empty: it is.
func (m modes) noAPI() string {
	if m.Runs(config.ModeAPI) {
		return ""
	}
	return "/v1 is not served by this process (" + m.String() + "): ask one whose modes have " + config.ModeAPI
}

// check is what a probe says of them.
func (m modes) check() server.Check {
	return server.Check{Name: "modes", Ready: true, Detail: strings.Join(m.Modes, ", ") + "; left to other processes: " + strings.Join(m.ModesLeftOut(), ", ")}
}
