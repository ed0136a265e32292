package operations

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell/internal/outcomes"
)

const (
	// DefaultCanaryWait is how long a replay waits for what becomes of its canary.
	DefaultCanaryWait = 2 * time.Minute
	// MaxCanaryWait is how long it may be told to wait.
	MaxCanaryWait = time.Hour
	// MaxCanary is how many messages a canary has at most.
	MaxCanary = outcomes.MaxCanary
	// shareFrom is from how many messages on, of which it is known how their first try ended, a
	// share of them says something.
	shareFrom = 50
	// canaryLook is the time between two looks at what became of the canary.
	canaryLook = 250 * time.Millisecond
)

// Outcomes knows what became of messages that were replayed.
type Outcomes interface {
	// Of is what is known of an operation's.
	Of(operation string) outcomes.Tally
}

// StopAt is at how many messages of which a try failed a replay pauses: so many, or such a share of
// those of which it is known how their first try ended. The zero value is never.
type StopAt struct {
	Count   int
	Percent float64
}

var stopText = regexp.MustCompile(`^([1-9][0-9]{0,8}|(100|[1-9]?[0-9](\.[0-9]{1,2})?)%)$`)

// ParseStopAt reads 20 or 5%.
func ParseStopAt(text string) (StopAt, error) {
	of, share := strings.CutSuffix(text, "%")
	n, err := strconv.ParseFloat(of, 64)
	switch {
	case !stopText.MatchString(text) || err != nil || n <= 0:
		return StopAt{}, fmt.Errorf("must be a number of messages, such as 20, or a share, such as 5%%, not %q", clip(text))
	case share:
		return StopAt{Percent: n}, nil
	}
	return StopAt{Count: int(n)}, nil
}

// String is the limit as [ParseStopAt] reads it; empty: there is none.
func (s StopAt) String() string {
	switch {
	case s.Percent > 0:
		return strconv.FormatFloat(s.Percent, 'f', -1, 64) + "%"
	case s.Count > 0:
		return strconv.Itoa(s.Count)
	}
	return ""
}

// MarshalText makes a limit a text in JSON.
func (s StopAt) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is ParseStopAt.
func (s *StopAt) UnmarshalText(text []byte) (err error) {
	*s, err = ParseStopAt(string(text))
	return err
}

// reached says whether so many of so many are too many.
func (s StopAt) reached(failed, tried int) bool {
	if s.Percent > 0 {
		return tried >= shareFrom && float64(failed)*100 >= s.Percent*float64(tried)
	}
	return s.Count > 0 && failed >= s.Count
}

// Wait is a duration that is a text in JSON.
type Wait time.Duration

// MarshalText makes it a text.
func (w Wait) MarshalText() ([]byte, error) { return []byte(time.Duration(w).String()), nil }

// UnmarshalText reads one.
func (w *Wait) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*w = Wait(d)
	return err
}

// Accepted are messages that a person has seen fail when he let the operation go on.
type Accepted struct {
	Failed int `json:"failed"`
	Tried  int `json:"tried"`
}

// tally is what is known of this operation's messages; false: nobody asks what becomes of them.
func (r *Runner) tally(request *Request) (outcomes.Tally, bool) {
	if r.cfg.Outcomes == nil || request.Action != Replay {
		return outcomes.Tally{}, false
	}
	return r.cfg.Outcomes.Of(request.ID), true
}

// told adds to an operation what became of its messages, as far as that is known: also of one that
// is over, whose last messages were handled since. What it knew before stays where that is gone.
func (r *Runner) told(o Operation) Operation {
	t, known := r.tally(&o.Request)
	if !known || t.Tried()+t.Handled+t.Died == 0 && o.Outcome != nil {
		return o
	}
	of := t.Outcome(o.Done)
	o.Outcome = &of
	return o
}

// inCanary says that the operation replays its first few messages, or waits for what becomes of
// them.
func (w *worker) inCanary(at *State) bool { return w.l.request.Canary > 0 && !at.CanaryOver }

// goesWrong pauses a replay of which too many messages fail, and says so.
func (w *worker) goesWrong(ctx context.Context, at *State) bool {
	t, known := w.r.tally(&w.l.request)
	if !known {
		return false
	}
	w.tell(ctx, func(s *State) {
		of := t.Outcome(s.Done)
		s.Outcome = &of
	})
	limit := w.l.request.StopAt
	switch bad := t.Bad(); {
	case w.inCanary(at) && bad > 0:
		w.pauseGuarded(ctx, t, fmt.Sprintf("of the canary a try failed, of %d of %d messages, %d are dead again: look at what they died of, %s", bad, at.Done, t.Died, thenResume))
	case limit.reached(t.Failed-at.Accepted.Failed, t.Tried()-at.Accepted.Tried):
		w.pauseGuarded(ctx, t, fmt.Sprintf("of %d of %d messages a try failed, and stop_at is %s: look at what they died of, %s", t.Failed-at.Accepted.Failed, t.Tried()-at.Accepted.Tried, limit, thenResume))
	default:
		return false
	}
	return true
}

const thenResume = "then mend that and cancel this one, or resume it (running) to go on with the rest all the same"

// pauseGuarded pauses because of what became of messages. Who lets it go on has seen that.
func (w *worker) pauseGuarded(ctx context.Context, t outcomes.Tally, why string) {
	w.tell(ctx, func(s *State) {
		s.CanaryOver = s.CanaryOver || w.l.request.Canary > 0
		s.Accepted = Accepted{Failed: t.Failed, Tried: t.Tried()}
	})
	w.pause(ctx, why)
}

// awaitCanary looks what became of the canary. It goes on once all of it is handled, and pauses
// where that takes too long: what nobody told is not handled.
func (w *worker) awaitCanary(ctx context.Context, at *State) (every time.Duration, goesOn bool) {
	if w.canarySince.IsZero() {
		w.canarySince = time.Now()
	}
	t, _ := w.r.tally(&w.l.request)
	handled, wait := len(t.Canary), time.Duration(w.l.request.CanaryWait)
	switch {
	case handled >= at.Done:
		w.tell(ctx, func(s *State) { s.CanaryOver, s.Why = true, "" })
		return 0, true
	case time.Since(w.canarySince) >= wait:
		w.pauseGuarded(ctx, t, fmt.Sprintf("of the canary %d of %d messages were handled within %s, and nothing is known of the others: see whether they wait, or ended a process, %s", handled, at.Done, wait, thenResume))
		return 0, false
	}
	w.tell(ctx, func(s *State) {
		s.Why = fmt.Sprintf("it waits for the canary: %d of %d messages are handled", handled, at.Done)
	})
	return canaryLook, true
}
