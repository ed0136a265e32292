package deadset

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/filter"
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
	// Operation is the id of who acts. What it replayed itself, and what died again, is none of it,
	// and not left out either: it is among what was done.
	Operation string
	// Canary marks what is replayed as that of the operation's canary.
	Canary bool
	// MovedBy leaves out what another operation deleted; empty: nothing. It is for a trash.
	MovedBy string
}

// LeftOut counts messages that the filter of a selection is true of, and that stay all the same.
type LeftOut struct {
	// CrashLoop killed the process, TooLarge are larger than may be published, of Undated nobody
	// knows when they died, and Later died after the selection was made.
	CrashLoop int `json:"crash_loop"`
	TooLarge  int `json:"too_large"`
	Undated   int `json:"undated"`
	Later     int `json:"later"`
}

// isOf says whether the selection has the message; where only its filter has, it is counted.
func (l *LeftOut) isOf(sel Selection, f found) bool {
	switch {
	case !f.isTrue(sel.Filter), !f.isDeletedBy(sel.MovedBy), sel.Operation != "" && f.operation == sel.Operation:
		return false
	case f.died.After(sel.Before):
		l.Later++
	case f.died.IsZero() && !sel.Undated:
		l.Undated++
	case f.reason == stepwell.ReasonCrashLoop && !sel.CrashLoops:
		l.CrashLoop++
	default:
		return true
	}
	return false
}

// plus adds what was left out elsewhere.
func (l LeftOut) plus(more LeftOut) LeftOut {
	return LeftOut{l.CrashLoop + more.CrashLoop, l.TooLarge + more.TooLarge, l.Undated + more.Undated, l.Later + more.Later}
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
// the dead set than looks do, which the Span says. The error is as that of Peek.
func (c Choice) Sample(ctx context.Context) (Sample, error) {
	// A look of its own: who goes on with what another process has begun must not see the messages
	// that this one has done within the last second.
	c.set.recent.forget()
	var sample Sample
	var oldest []found
	in := newGroups()
	wants := func(page []found) (some []int) {
		for i := 0; i < len(page) && len(oldest)+len(some) < maxSamples; i++ {
			if new(LeftOut).isOf(c.sel, page[i]) {
				some = append(some, i)
			}
		}
		return some
	}
	span, err := c.set.survey(ctx, reading(c.sel.Filter, wants), func(f found, asOf time.Time) {
		if !sample.LeftOut.isOf(c.sel, f) {
			return
		}
		sample.Matched++
		sample.Bytes += f.size
		in.of(f).add(f, asOf)
		if len(oldest) < maxSamples {
			oldest = append(oldest, f)
		}
	})
	if err != nil {
		return Sample{}, err
	}
	sample.Span, sample.Groups = span, in.sorted()
	sample.Samples = c.set.values.entries(ctx, oldest)
	return sample, nil
}

// Turn is what one turn of an operation saw and did.
type Turn struct {
	// Unseen is how many messages nobody came to; it is known where there is no more to do.
	Unseen int
	// Begun is with how many messages of the selection it began, whatever became of them, Done how
	// many of these are seen to be gone.
	Begun, Done int
	LeftOut     LeftOut
	// More says that the turn ended before it came to the end of what a window holds: there may be
	// more to do.
	More bool
}

// Replay gives messages of the choice a full new budget, the oldest first and at most so many, in
// one window, and begins with no more once enough is closed. Each is published to the instant queue
// with the operation's mark, and removed here when that is confirmed; all others go back to where
// they were. Where there is an error, which is as that of [Set.Replay], the Turn still says what
// was done before it.
func (c Choice) Replay(ctx context.Context, enough <-chan struct{}, most int) (Turn, error) {
	t, err := c.turn(ctx, errand{most: most, enough: enough, act: func(ctx context.Context, h *held, done func(error)) {
		c.set.publisher.Publish(ctx, c.set.cfg.Instant, replayed(h, envelope.Mark{Operation: c.sel.Operation, Canary: c.sel.Canary}), done)
	}})
	if err != nil {
		return t, fmt.Errorf("replay: %w", err)
	}
	return t, nil
}

// Delete removes messages of the choice for good, as Replay replays them.
func (c Choice) Delete(ctx context.Context, enough <-chan struct{}, most int) (Turn, error) {
	t, err := c.turn(ctx, errand{most: most, removes: true, enough: enough, act: func(_ context.Context, _ *held, done func(error)) { done(nil) }})
	if err != nil {
		return t, fmt.Errorf("delete: %w", err)
	}
	return t, nil
}

// pass is how far an operation has come: it goes through the parts in their order, a turn each some
// of them, and begins anew when it has come to the end.
type pass struct {
	operation string
	next      int // the part to go on with
	done      int // since it began
	// paged is how many messages were in pages when the turn before ended, turned in which order
	// the runs of a trash were.
	paged   int
	turned  bool
	unseen  int
	leftOut LeftOut
}

// among is the pass as it goes on among so many messages in pages. It begins anew where a sort put
// some into parts that it has passed, and where parts have other numbers.
func (at pass) among(paged int, turned bool) pass {
	if at.next > 0 && (paged > at.paged || turned != at.turned) {
		at = pass{operation: at.operation, done: at.done}
	}
	at.paged, at.turned = paged, turned
	return at
}

// passes keeps the pass of the operation that acts now; there is never more than one.
type passes struct {
	mu   sync.Mutex
	last pass
}

// of is how far the operation has come.
func (k *passes) of(operation string) pass {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last.operation != operation || operation == "" {
		return pass{operation: operation}
	}
	return k.last
}

func (k *passes) keep(at pass) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = at
}

// turn acts on messages of the choice, in one window of a part after the other. Each goes back in
// its order when it is closed, which more windows of one queue would not. It goes on with the part
// where the turn before ended: what matches may lie behind more parts than a turn has time for.
func (c Choice) turn(ctx context.Context, e errand) (t Turn, err error) {
	s := c.set
	// As around a walk.
	s.recent.forget()
	defer s.recent.forget()
	lease, parts, err := e.enter(ctx, s)
	if err != nil {
		return Turn{More: true}, err
	}
	defer lease.Release()
	at := s.passes.of(c.sel.Operation).among(pagedIn(parts), s.pages.isTurned())
	most := e.most
	finished := false
	for i := range parts {
		p := &parts[i]
		if p.number < at.next || p.depth == 0 && (p.isPage() || e.ready != nil) {
			continue
		}
		if isClosed(e.enough) {
			t.More = true
			break
		}
		if p.number >= lastOf(parts) && !finished {
			if _, err := s.finishMoves(ctx, parts); err != nil {
				return t.unfinished(), err
			}
			finished = true
		}
		e.most = most - t.Done
		at.next = p.number
		before := t.Done
		cut, err := c.on(ctx, *p, e, &t, &at)
		if p.isPage() {
			at.paged -= t.Done - before
		}
		if err != nil || cut {
			s.passes.keep(at)
			return t.unfinished(), err
		}
		at.next++
	}
	if t.More {
		s.passes.keep(at)
		return t, nil
	}
	// One more pass, where this one did something before this turn: it is over when a fresh look
	// finds nothing.
	t.LeftOut, t.Unseen, t.More = at.leftOut, at.unseen, at.done > t.Done
	s.passes.keep(pass{})
	return t, nil
}

// on acts on messages of one part, and says whether there may be more to do there. Where what they
// are moved to is full it goes on with the next such place, in another window.
func (c Choice) on(ctx context.Context, p part, e errand, t *Turn, at *pass) (cut bool, err error) {
	for {
		if err := e.isReady(ctx); err != nil {
			return true, later(err)
		}
		before := t.Done
		cut, err = c.window(ctx, p, e, t, at)
		e.most -= t.Done - before
		if err != nil || !cut || e.full == nil || e.most <= 0 || isClosed(e.enough) {
			return cut, err
		}
	}
}

// window acts on messages of one part, in one window.
func (c Choice) window(ctx context.Context, p part, e errand, t *Turn, at *pass) (cut bool, err error) {
	var leftOut LeftOut
	// Asked of each message in hand, whatever a look has shown before: other processes replay and
	// delete as well, and messages come back.
	e.which = func(h *held) bool { return leftOut.isOf(c.sel, *h.found()) }
	st, err := c.set.step(ctx, p, e, wholeQueue)
	leftOut.TooLarge = st.tooLarge
	t.Begun += st.begun
	t.Done += st.done
	at.done += st.done
	t.LeftOut = leftOut
	if !st.cut {
		at.unseen += max(0, st.depth-st.seen)
		at.leftOut = at.leftOut.plus(leftOut)
	}
	if err == nil && isWorn(c.set.cfg.Broker, p, st.returns) && st.depth > st.done {
		err = c.set.renewAll(ctx, p)
	}
	return st.cut, err
}

// unfinished is the turn as one that may have more to do.
func (t Turn) unfinished() Turn {
	t.More = true
	return t
}

// isClosed says whether the channel is closed; nil never is.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// wholeQueue are as many of the oldest messages as there are.
const wholeQueue = 1 << 30
