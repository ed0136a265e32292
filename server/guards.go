package server

import (
	"encoding/json"
	"time"

	"github.com/stepwell/stepwell/internal/operations"
)

// readGuards reads what holds a replay back of which messages fail again: a canary, and a limit.
func readGuards(m *members, r *operations.Request) {
	canary, wait := m.number("canary", 1, operations.MaxCanary), m.text("canary_wait")
	limited := readStopAt(m, r)
	if canary != nil {
		r.Canary = *canary
	}
	if wait != "" {
		d, err := time.ParseDuration(wait)
		if r.CanaryWait = operations.Wait(d); err != nil || d <= 0 || d > operations.MaxCanaryWait {
			m.mistake("canary_wait must be a duration of at most %s, such as 2m, not %q", operations.MaxCanaryWait, clip(wait))
		}
		if canary == nil && !limited {
			m.mistake("canary_wait is for a canary or a stop_at: say how many messages that is")
		}
	}
	if r.Action != operations.Replay && (canary != nil || wait != "" || limited) {
		m.mistake("canary, canary_wait and stop_at are for replay: nothing else has messages handled")
	}
}

// readStopAt reads a limit, which is a number or a text, and says whether there is one.
func readStopAt(m *members, r *operations.Request) bool {
	given, there := m.has("stop_at")
	if !there {
		return false
	}
	text := ""
	switch v := given.(type) {
	case json.Number:
		text = v.String()
	case string:
		text = v
	}
	var err error
	if r.StopAt, err = operations.ParseStopAt(text); err != nil {
		m.mistake("stop_at %s", err)
	}
	return true
}
