package deadset

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/queue"
)

// ErrNothingChosen says that the filter of a selection asks for nothing. What was not said must not
// mean everything.
var ErrNothingChosen = errors.New("no messages are chosen: all of them have to be asked for")

// Selection says on which messages of a dead set an operation acts. It is tested on each message in
// hand, not on what a list has shown.
type Selection struct {
	// Filter has to be true of them. Its zero value is refused: see [filter.All].
	Filter filter.Filter
	// Before leaves out what died later, by the clock of the process that buried it.
	Before time.Time
	// Undated are messages of which nobody knows when they died, since no program of ours buried
	// them. They are left out unless this is true.
	Undated bool
	// CrashLoops are messages that killed the process. They are left out unless this is true.
	CrashLoops bool
	// Operation is the id of who acts. What it replayed itself, and what died again, is left out.
	Operation string
	// Canary marks what is replayed as that of the operation's canary.
	Canary bool
}

// LeftOut counts messages that the filter of a selection is true of, and that stay all the same.
type LeftOut struct {
	// CrashLoop killed the process, TooLarge are larger than may be published, of Undated nobody
	// knows when they died, and Later died after the selection was made, or once more.
	CrashLoop int `json:"crash_loop"`
	TooLarge  int `json:"too_large"`
	Undated   int `json:"undated"`
	Later     int `json:"later"`
}

// isOf says whether the selection has the message; where only its filter has, it is counted.
func (l *LeftOut) isOf(sel Selection, f found) bool {
	switch died := f.envelope.DiedAt; {
	case !f.isTrue(sel.Filter):
		return false
	case sel.Operation != "" && f.operation == sel.Operation, died.After(sel.Before):
		l.Later++
	case died.IsZero() && !sel.Undated:
		l.Undated++
	case f.envelope.Failure.Reason == stepwell.ReasonCrashLoop && !sel.CrashLoops:
		l.CrashLoop++
	default:
		return true
	}
	return false
}

// Sample is what a selection has, as far as a look sees.
type Sample struct {
	Span
	// Matched messages would be acted on, of Bytes bytes as their queue has them.
	Matched int   `json:"matched"`
	Bytes   int64 `json:"bytes"`
	// LeftOut match too, and would stay.
	LeftOut LeftOut `json:"left_out"`
	// Groups are what killed those that match, the largest first.
	Groups []*Group `json:"groups"`
	// Samples are the five oldest of them.
	Samples []Entry `json:"samples"`
}

// maxSamples is how many messages a [Sample] shows.
const maxSamples = 5

// Choice is a dead set and what somebody chose of it.
type Choice struct {
	set *Set
	sel Selection
}

// Choose makes a Choice; it looks at nothing. The error is [ErrNothingChosen].
func (s *Set) Choose(sel Selection) (Choice, error) {
	if sel.Filter.IsZero() {
		return Choice{}, ErrNothingChosen
	}
	return Choice{s, sel}, nil
}

// Sample counts what a replay or a delete would act on, and changes nothing. It looks at no more of
// the dead set than a walk holds, which the Span says. The error is as that of Peek.
func (c Choice) Sample(ctx context.Context) (Sample, error) {
	v, err := c.set.survey(ctx)
	if err != nil {
		return Sample{}, err
	}
	sample := Sample{Span: v.Span}
	var all []found
	for _, f := range v.all {
		if sample.LeftOut.isOf(c.sel, f) {
			all = append(all, f)
			sample.Bytes += f.size
		}
	}
	sample.Matched = len(all)
	sample.Groups = grouped(all, v.AsOf)
	sample.Samples = c.set.values.entries(ctx, all[:min(maxSamples, len(all))])
	return sample, nil
}

// Turn is what one turn of an operation saw and did.
type Turn struct {
	// Depth is how many messages there were at its start, Unseen how many of them it did not come
	// to.
	Depth, Unseen int
	// Matched is how many of those that it came to the selection has, Done how many it was done to:
	// only those count that are seen to be gone.
	Matched, Done int
	LeftOut       LeftOut
	// More says that the turn ended before it came to the end of what a window holds: there may be
	// more to do.
	More bool
}

// Replay gives messages of the choice a full new budget, the oldest first and at most so many, in
// one window, and begins with no more once enough is closed. Each is published to the instant queue
// with the operation's mark, and removed here when that is confirmed; all others go back to where
// they were. The Turn is true also beside an error, which is as that of [Set.Replay].
func (c Choice) Replay(ctx context.Context, enough <-chan struct{}, most int) (Turn, error) {
	t, err := c.turn(ctx, errand{most: most, enough: enough, act: func(ctx context.Context, d queue.Delivery, done func(error)) {
		c.set.publisher.Publish(ctx, c.set.cfg.Instant, replayed(d, envelope.Mark{Operation: c.sel.Operation, Canary: c.sel.Canary}), done)
	}})
	if err != nil {
		return t, fmt.Errorf("replay: %w", err)
	}
	return t, nil
}

// Delete removes messages of the choice for good, as Replay replays them.
func (c Choice) Delete(ctx context.Context, enough <-chan struct{}, most int) (Turn, error) {
	t, err := c.turn(ctx, errand{most: most, enough: enough, act: func(_ context.Context, _ queue.Delivery, done func(error)) { done(nil) }})
	if err != nil {
		return t, fmt.Errorf("delete: %w", err)
	}
	return t, nil
}

// turn acts on messages of the choice, in one window. The window goes back in its order when it is
// closed, which more windows of one lease would not.
func (c Choice) turn(ctx context.Context, e errand) (t Turn, err error) {
	s := c.set
	// As around a walk.
	s.recent.forget()
	defer s.recent.forget()
	lease, err := s.lease(ctx, walkPatience)
	if err != nil {
		return t, err
	}
	defer lease.Release()
	// Asked of each message in hand, whatever a look has shown before: other processes replay and
	// delete as well, and messages come back.
	e.which = func(d queue.Delivery) bool {
		is := t.LeftOut.isOf(c.sel, find(d))
		if is {
			t.Matched++
		}
		return is
	}
	st, err := s.step(ctx, lease, e, wholeQueue)
	t.LeftOut.TooLarge = st.tooLarge
	t.Depth, t.Unseen, t.Done, t.More = st.depth, max(0, st.depth-st.seen), st.done, st.cut
	if err == nil && s.isWorn(st.returns) && st.depth > st.done {
		err = s.renewAll(ctx, lease)
	}
	return t, err
}

// wholeQueue are as many of the oldest messages as there are.
const wholeQueue = 1 << 30
