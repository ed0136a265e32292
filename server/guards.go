package server

import (
	"encoding/json"
	"time"

	"github.com/stepwell/stepwell/internal/operations"
)

// readGuards reads what holds a replay back of which messages fail again: a canary, and a limit.
func readGuards(m *members, r *operations.Request) {
	canary, wait, stop := m.number("canary"), m.text("canary_wait"), ""
	if given, there := m.has("stop_at"); there {
		switch v := given.(type) {
		case json.Number:
			stop = v.String()
		case string:
			stop = v
		}
		limit, err := operations.ParseStopAt(stop)
		if err != nil {
			m.mistake("stop_at %s", err)
		}
		r.StopAt = limit
	}
	if canary != nil {
		if r.Canary = *canary; *canary < 1 || *canary > operations.MaxCanary {
			m.mistake("canary must be a number of messages from 1 to %d", operations.MaxCanary)
		}
	}
	if wait != "" {
		d, err := time.ParseDuration(wait)
		if r.CanaryWait = operations.Wait(d); err != nil || d <= 0 || d > operations.MaxCanaryWait {
			m.mistake("canary_wait must be a duration of at most %s, such as 2m, not %q", operations.MaxCanaryWait, clip(wait))
		}
		if canary == nil {
			m.mistake("canary_wait is for a canary: say how many messages that is")
		}
	}
	if r.Action != operations.Replay && (canary != nil || wait != "" || stop != "") {
		m.mistake("canary, canary_wait and stop_at are for replay: what is deleted is not handled")
	}
}
