package operations

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/stepwell/stepwell/internal/outcomes"
)

// What becomes of messages is known a second or two after it came to be, and a replay without a
// rate is over by then. So one with a stop_at has no more messages out of whose first try nobody
// has told yet than may still fail: if all of these do, the limit is reached, and not exceeded.

// fewUnknown is how many messages of a replay whose limit is a share may be out in any case.
const fewUnknown = 10

// mayFail is how many messages more may fail, after so many of so many did. A share says nothing of
// the first shareFrom; then, and later, it is exceeded by less than fewUnknown messages.
func (s StopAt) mayFail(failed, tried int) int {
	switch {
	case s.Percent > 0 && tried < shareFrom:
		return max(fewUnknown, shareFrom-tried)
	case s.Percent > 0:
		return max(fewUnknown, int(s.Percent*float64(tried)/100)-failed)
	case s.Count > 0:
		return max(1, s.Count-failed)
	}
	return noLimit
}

// unknown is of how many messages nobody has told how their first try ended. Those of which a
// person knows that are none of them.
func (s *State) unknown(t outcomes.Tally) int {
	return max(0, s.sent()-t.Tried()-s.Accepted.Unknown)
}

// heard forgets messages that a person accepted as unknown once somebody told of them: others would
// be out in their place. It reports whether there were any.
func (s *State) heard(t outcomes.Tally) (changed bool) {
	left := max(0, s.sent()-t.Tried())
	changed = s.Accepted.Unknown > left
	s.Accepted.Unknown = min(s.Accepted.Unknown, left)
	return changed
}

// limited says that so many messages of such a request may fail, and not more.
func (c *Config) limited(request *Request) bool {
	return c.asked(request) && request.StopAt != StopAt{}
}

// allowed is how many messages a turn may replay, beside so many that are unknown. It is 0 until
// half of those are known that may be out: a turn looks at as many dead messages for one as for
// all.
func (s StopAt) allowed(at *State, t outcomes.Tally) (n, unknown int) {
	if s == (StopAt{}) {
		return noLimit, 0
	}
	may := s.mayFail(t.Failed-at.Accepted.Failed, t.Tried()-at.Accepted.Tried)
	unknown = at.unknown(t)
	if n = may - unknown; 2*n < may {
		n = 0
	}
	return n, unknown
}

// quiet is since when nobody has told of more than so many messages; zero: nobody waits.
type quiet struct {
	since time.Time
	known int
}

// awaitFate waits until it is known of more messages how their first try ended. It pauses where
// nobody tells of any for as long as a canary has.
func (w *worker) awaitFate(ctx context.Context, t outcomes.Tally, unknown int, alone error) (every time.Duration, goesOn bool) {
	if known := t.Tried(); w.quiet.since.IsZero() || w.quiet.known != known {
		w.quiet = quiet{time.Now(), known}
	}
	wait := cmp.Or(time.Duration(w.l.request.CanaryWait), DefaultCanaryWait)
	if time.Since(w.quiet.since) >= wait {
		why := fmt.Sprintf("nobody told within %s how the first try of %d messages ended, and with stop_at %s no more may be out: %s", wait, unknown, w.l.request.StopAt, thenLook)
		w.pauseGuarded(ctx, t, unknown, andAlone(why, alone))
		return 0, false
	}
	_, _ = w.tell(ctx, func(s *State) {
		s.Why = fmt.Sprintf("it waits to know how the first try of %d messages ended: with stop_at %s no more may be out", unknown, w.l.request.StopAt)
	})
	return fateLook, true
}
