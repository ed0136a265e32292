package retry

import (
	"slices"
	"time"

	"github.com/stepwell/stepwell/internal/envelope"
)

// A wait that a handler asks for has no queue of its own: there would be one for each. It goes down
// a ladder instead, through queues of a few waits, the longest first, and what is left of it
// travels with the message.

// rungs are the waits of the ladder, ascending.
func rungs() []time.Duration {
	return []time.Duration{
		time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute,
		time.Hour, 6 * time.Hour, 24 * time.Hour,
	}
}

// rungFor is which of the waits that there are comes next: the shortest that is not shorter than
// what remains, where it is too long by at most a second or a tenth of the whole; else the longest
// that is shorter; else the shortest of all. have is ascending and not empty.
func rungFor(w envelope.Wait, have []time.Duration) time.Duration {
	i, _ := slices.BinarySearch(have, w.Remaining)
	if i < len(have) && (i == 0 || have[i]-w.Remaining <= max(time.Second, w.Whole/10)) {
		return have[i]
	}
	return have[i-1]
}

// descent are the different rungs that a wait goes down, and so the queues that it needs.
func descent(w envelope.Wait) []time.Duration {
	var steps []time.Duration
	for w.Remaining > 0 {
		next := rungFor(w, rungs())
		if len(steps) == 0 || steps[len(steps)-1] != next {
			steps = append(steps, next)
		}
		w.Remaining -= next
	}
	return steps
}
