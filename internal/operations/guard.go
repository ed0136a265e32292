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
	// Of is what is known of those of each operation. An error says why it is what this process
	// handled itself, and no more.
	Of(operations ...string) (map[string]outcomes.Tally, error)
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

// asked says that somebody knows what becomes of the messages of such a request.
func (c *Config) asked(request *Request) bool {
	return c.Outcomes != nil && (request.Action == Replay || request.Action == Edit)
}

// told adds to replays and edits what became of their messages, as far as that is known: also to
// those that are over, whose last messages were handled since. What they knew before stays where
// that is gone.
func (r *Runner) told(all []Operation) {
	var ids []string
	for i := range all {
		if r.cfg.asked(&all[i].Request) {
			ids = append(ids, all[i].ID)
		}
	}
	if ids == nil {
		return
	}
	known, _ := r.cfg.Outcomes.Of(ids...)
	for i := range all {
		if t := known[all[i].ID]; r.cfg.asked(&all[i].Request) && (t.Tried()+t.Bad() > 0 || all[i].Outcome == nil) {
			of := t.Outcome(all[i].Done)
			all[i].Outcome = &of
		}
	}
}

// inCanary says that the operation replays its first few messages, or waits for what becomes of
// them.
func (w *worker) inCanary(at *State) bool {
	return w.r.cfg.asked(&w.l.request) && w.l.request.Canary > 0 && !at.CanaryOver
}

// portion is how many messages the next turn may act on, and how long it is until the one after it.
func (w *worker) portion(at *State, canary bool) (most int, every time.Duration) {
	most, every = at.Rate.batch()
	if canary {
		most = min(most, w.l.request.Canary-max(at.Done, at.Begun))
	}
	if expected := w.l.request.Expect; expected != nil {
		most = min(most, *expected-max(at.Done, at.Begun))
	}
	if Sorts(w.l.request.Action) {
		most = min(most, at.Matched-at.Done) // what arrives meanwhile is none of it: else it might never end
	}
	if w.l.request.Action == Delete && !w.l.request.Forever {
		most = min(most, max(leastTrashed, at.Matched-at.Done)) // as much room is made in the trash as a turn may fill
	}
	return most, every
}

// leastTrashed is how many messages a turn may delete that were not counted.
const leastTrashed = 2000

// outcome is what became of the operation's messages; alone says why what other processes handled
// is not in it.
func (w *worker) outcome() (t outcomes.Tally, alone error) {
	known, alone := w.r.cfg.Outcomes.Of(w.l.request.ID)
	return known[w.l.request.ID], alone
}

// held says that there is to be no turn now, since a replay waits for its canary, or goes wrong.
func (w *worker) held(ctx context.Context, at *State) (every time.Duration, goesOn, held bool) {
	switch {
	case w.goesWrong(ctx, at):
		return 0, false, true
	case w.inCanary(at) && max(at.Done, at.Begun) >= w.l.request.Canary:
		every, goesOn = w.awaitCanary(ctx, at)
		return every, goesOn, true
	}
	return 0, false, false
}

// goesWrong pauses a replay of which too many messages fail, and says so.
func (w *worker) goesWrong(ctx context.Context, at *State) bool {
	if !w.r.cfg.asked(&w.l.request) {
		return false
	}
	t, _ := w.outcome()
	_, _ = w.tell(ctx, func(s *State) {
		of := t.Outcome(s.Done)
		s.Outcome = &of
	})
	limit, failed, tried := w.l.request.StopAt, t.Failed-at.Accepted.Failed, t.Tried()-at.Accepted.Tried
	switch {
	case w.inCanary(at) && t.Bad() > 0:
		w.pauseGuarded(ctx, t, fmt.Sprintf("of the %d messages of the canary %d failed a try or died: %s", at.Done, t.Bad(), thenMend))
	case limit.reached(failed, tried):
		w.pauseGuarded(ctx, t, fmt.Sprintf("of %d messages %d failed a try, and stop_at is %s: %s", tried, failed, limit, thenMend))
	default:
		return false
	}
	return true
}

// What a person is to do about a replay that paused because of what became of its messages.
const (
	thenMend = "look at why, mend that, then resume this operation to go on with the rest, or cancel it"
	thenLook = "they wait, or run, or ended the process that had them. See whether the stream is paused or behind, and whether a process died, then resume this operation to go on with the rest all the same, or cancel it"
)

// withoutAdvice is why a replay paused, for when nobody can do any more about it.
func withoutAdvice(why string) string {
	for _, advice := range []string{thenMend, thenLook} {
		why, _, _ = strings.Cut(why, ": "+advice)
	}
	return why
}

// What tell returns needs no look here: a run that is lost ends before its next step.

// pauseGuarded pauses because of what became of messages. Who lets it go on has seen that.
func (w *worker) pauseGuarded(ctx context.Context, t outcomes.Tally, why string) {
	_, _ = w.tell(ctx, func(s *State) {
		s.CanaryOver = s.CanaryOver || w.l.request.Canary > 0
		s.Accepted = Accepted{Failed: t.Failed, Tried: t.Tried()}
	})
	w.end(ctx, Paused, why)
}

// awaitCanary looks what became of the canary. It goes on once all of it is handled, and pauses
// where that takes too long: what nobody told is not handled.
func (w *worker) awaitCanary(ctx context.Context, at *State) (every time.Duration, goesOn bool) {
	if w.canarySince.IsZero() {
		w.canarySince = time.Now()
	}
	t, alone := w.outcome()
	handled, wait := len(t.Canary), time.Duration(w.l.request.CanaryWait)
	switch {
	case handled >= max(at.Done, at.Begun): // also those that a killed process may have replayed
		_, _ = w.tell(ctx, func(s *State) { s.CanaryOver, s.Why = true, "" })
		return 0, true
	case time.Since(w.canarySince) >= wait:
		why := fmt.Sprintf("of the %d messages of the canary %d were handled within %s, and nobody told of the others: %s", at.Done, handled, wait, thenLook)
		if alone != nil {
			why += "; " + alone.Error()
		}
		w.pauseGuarded(ctx, t, why)
		return 0, false
	}
	_, _ = w.tell(ctx, func(s *State) {
		s.Why = fmt.Sprintf("it waits for the canary: of %d messages %d are handled", at.Done, handled)
	})
	return canaryLook, true
}
