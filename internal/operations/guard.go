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
	// fateLook is the time between two looks at what became of messages that are waited for.
	fateLook = 250 * time.Millisecond
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
	// Unknown are those of which nobody had told for too long.
	Unknown int `json:"unknown,omitempty"`
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
		t, before := known[all[i].ID], all[i].Outcome
		if r.cfg.asked(&all[i].Request) && (t.Tried()+t.Bad() > 0 || before == nil || before.Handled+before.Failed+before.Died == 0) {
			of := t.Outcome(all[i].Done)
			all[i].Outcome = &of
		}
	}
}

// inCanary says that the operation replays its first few messages, or waits for what becomes of
// them.
func (c *Config) inCanary(r *Request, at *State) bool {
	return c.asked(r) && r.Canary > 0 && !at.CanaryOver
}

// portion is how many messages the next turn may act on, of so many that its guards allow, and how
// long it is until the one after it.
func (w *worker) portion(at *State, canary bool, allowed int) (most int, every time.Duration) {
	if most, every = at.Rate.batch(); allowed < most {
		most, every = allowed, at.Rate.lasts(allowed)
	}
	if canary {
		most = min(most, w.l.request.Canary-at.sent())
	}
	if expected := w.l.request.Expect; expected != nil {
		most = min(most, *expected-at.sent())
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

// sent is how many messages of a replay may have been sent.
func (s *State) sent() int { return max(s.Done, s.Begun) }

// next is what a turn may do.
type next struct {
	// held says that there is to be no turn now, since a replay waits for what becomes of messages,
	// or goes wrong. Then every is when to look again, if goesOn says that it goes on.
	held   bool
	every  time.Duration
	goesOn bool
	// allowed is how many messages it may act on.
	allowed int
}

// held looks what became of a replay's messages, and says what that means for the next turn.
func (w *worker) held(ctx context.Context, at *State) next {
	if !w.r.cfg.asked(&w.l.request) {
		return next{allowed: noLimit}
	}
	known, alone := w.r.cfg.Outcomes.Of(w.l.request.ID)
	t := known[w.l.request.ID]
	if at.heard(t) {
		_, _ = w.tell(ctx, func(s *State) { s.heard(t) })
	}
	if w.goesWrong(ctx, at, t) {
		return next{held: true}
	}
	if sent := at.sent(); w.r.cfg.inCanary(&w.l.request, at) && sent > 0 && (w.whole || sent >= w.l.request.Canary) {
		every, goesOn := w.awaitCanary(ctx, at, t, alone)
		return next{held: true, every: every, goesOn: goesOn}
	}
	allowed, unknown := w.l.request.StopAt.allowed(at, t)
	switch {
	case allowed == 0 && at.Complete && at.Done >= at.Matched:
		w.counted = false // nothing is left that anybody could wait to send: a fresh look says so
		return next{held: true, goesOn: true}
	case allowed == 0:
		every, goesOn := w.awaitFate(ctx, t, unknown, alone)
		return next{held: true, every: every, goesOn: goesOn}
	}
	w.quiet = quiet{}
	return next{allowed: allowed}
}

// goesWrong pauses a replay of which too many messages fail, and says so.
func (w *worker) goesWrong(ctx context.Context, at *State, t outcomes.Tally) bool {
	_, _ = w.tell(ctx, func(s *State) {
		of := t.Outcome(s.Done)
		s.Outcome = &of
	})
	limit, failed, tried := w.l.request.StopAt, t.Failed-at.Accepted.Failed, t.Tried()-at.Accepted.Tried
	switch {
	case w.r.cfg.inCanary(&w.l.request, at) && t.Bad() > 0:
		w.pauseGuarded(ctx, t, 0, fmt.Sprintf("of the %d messages of the canary %d failed a try or died: %s", at.Done, t.Bad(), thenMend))
	case limit.reached(failed, tried):
		w.pauseGuarded(ctx, t, 0, fmt.Sprintf("of %d messages %d failed a try, and stop_at is %s: %s", tried, failed, limit, thenMend))
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

// pauseGuarded pauses because of what became of messages. Who lets it go on has seen that; unknown
// are those of which he is told that nobody tells of them.
func (w *worker) pauseGuarded(ctx context.Context, t outcomes.Tally, unknown int, why string) {
	_, _ = w.tell(ctx, func(s *State) {
		s.CanaryOver = s.CanaryOver || w.l.request.Canary > 0
		s.Accepted = Accepted{Failed: t.Failed, Tried: t.Tried(), Unknown: s.Accepted.Unknown + unknown}
	})
	w.end(ctx, Paused, why)
}

// accept adds what became known since a guard paused the operation: whoever lets it go on has seen
// that, too. All of a canary is out when the first of it fails.
func (s *State) accept(t outcomes.Tally) {
	if s.Why != withoutAdvice(s.Why) {
		s.Accepted.Failed, s.Accepted.Tried = max(s.Accepted.Failed, t.Failed), max(s.Accepted.Tried, t.Tried())
	}
}

// awaitCanary looks what became of the canary. It goes on once all of it is handled, and pauses
// where that takes too long: what nobody told is not handled.
func (w *worker) awaitCanary(ctx context.Context, at *State, t outcomes.Tally, alone error) (every time.Duration, goesOn bool) {
	if w.canarySince.IsZero() {
		w.canarySince = time.Now()
	}
	handled, wait := len(t.Canary), time.Duration(w.l.request.CanaryWait)
	switch {
	case handled >= at.sent(): // also those that a killed process may have replayed
		noteSaved(w, time.Time{}) // who goes on after a kill is to know that turns are not announced any more
		_, _ = w.tell(ctx, func(s *State) { s.CanaryOver, s.Why = true, "" })
		return 0, true
	case time.Since(w.canarySince) >= wait:
		why := fmt.Sprintf("of the %d messages of the canary %d were handled within %s, and nobody told of the others: %s", at.Done, handled, wait, thenLook)
		w.pauseGuarded(ctx, t, at.unknown(t), andAlone(why, alone))
		return 0, false
	}
	_, _ = w.tell(ctx, func(s *State) {
		s.Why = fmt.Sprintf("it waits for the canary: of %d messages %d are handled", at.Done, handled)
	})
	return fateLook, true
}

// andAlone adds why nothing is known of what other processes handled; nil: it is known.
func andAlone(why string, alone error) string {
	if alone != nil {
		why += "; " + alone.Error()
	}
	return why
}
