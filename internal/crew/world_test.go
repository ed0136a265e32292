package crew

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source is a feed of a test. It notes what becomes of its messages.
type source struct {
	sync.Mutex
	innocent
	roster *Roster
	calls  context.Context
	cancel context.CancelFunc

	queue     []Entry
	next      int64
	settled   []int64
	pending   []int64
	abandoned []int64
	gathered  []int64
	deserted  []int64
	steps     int // calls of Done
	resting   int
}

// innocent are the suspects of a feed that has none.
type innocent struct{}

func (innocent) Free() bool               { return true }
func (innocent) SetAside(Entry) bool      { return false }
func (innocent) NextAside() (Entry, bool) { return Entry{}, false }
func (innocent) Handle(int64) task.Handle { return nil }

// inCrew runs a test in a bubble, with a crew and one feed. The test ends only when every goroutine
// has.
func inCrew(t *testing.T, cfg Config, test func(c *Crew, s *source)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := New(cfg)
		ctx, dismiss := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.Run(ctx)
		}()
		s := newSource(c, nil)
		test(c, s)
		s.roster.Halt()
		s.cancel()
		dismiss()
		<-ended
	})
}

// newSource makes a feed whose suspects are its own, unless they are given.
func newSource(c *Crew, suspects Suspects) *source {
	s := &source{}
	s.calls, s.cancel = context.WithCancel(context.Background())
	if suspects == nil {
		suspects = s
	}
	s.roster = c.NewRoster(s, suspects)
	return s
}

// put adds messages with these keys, and offers the roster.
func (s *source) put(keys ...uint64) {
	s.Lock()
	for _, key := range keys {
		s.queue = append(s.queue, Entry{Message: &stepwell.Message{Origin: stepwell.Origin{Offset: s.next}}, Offset: s.next, Key: key})
		s.next++
	}
	s.roster.Came()
	s.Unlock()
	s.roster.Offer()
}

func (s *source) Calls() context.Context        { return s.calls }
func (s *source) Context() context.Context      { return context.Background() }
func (s *source) Trace() (parent, state string) { return "", "" }
func (s *source) Alone(int64) bool              { return false }
func (s *source) More() bool                    { return len(s.queue) > 0 }
func (s *source) Idle()                         {}
func (s *source) Rests(r Rest) {
	s.note(func() { s.resting += map[bool]int{true: 1, false: -1}[r.Begins] })
}
func (s *source) AwaitTurn(context.Context, int64, <-chan struct{}) bool { return true }
func (s *source) Settle(offset int64)                                    { s.note(func() { s.settled = append(s.settled, offset) }) }
func (s *source) sees(what *[]int64) (all []int64) {
	s.note(func() { all = slices.Sorted(slices.Values(*what)) })
	return all
}

// ordered are the offsets that are settled, in that order.
func (s *source) ordered() (all []int64) {
	s.note(func() { all = slices.Clone(s.settled) })
	return all
}

func (s *source) note(do func()) {
	s.Lock()
	defer s.Unlock()
	do()
}

func (s *source) Take() bool {
	n := min(len(s.queue), StretchSize)
	for _, e := range s.queue[:n] {
		s.roster.Add(e)
	}
	s.queue = s.queue[n:]
	return n > 0
}

func (s *source) Done(first, last int64, o task.Outcome) {
	s.steps++
	list := map[task.Outcome]*[]int64{task.Settled: &s.settled, task.Pending: &s.pending, task.Abandoned: &s.abandoned, task.Gathered: &s.gathered}[o]
	for offset := first; offset <= last; offset++ {
		*list = append(*list, offset)
	}
}

func (s *source) Deserted(offset int64) error {
	s.deserted = append(s.deserted, offset)
	return fmt.Errorf("%w: %d", errDeserted, offset)
}

var errDeserted = errors.New("deserted")

// upTo are the offsets below n.
func upTo(n int64) (all []int64) {
	for o := range n {
		all = append(all, o)
	}
	return all
}

func settle(context.Context, *stepwell.Message, task.Ticket) task.Outcome { return task.Settled }

// slowly is a handle that takes this long.
func slowly(d time.Duration, then task.Handle) task.Handle {
	return func(ctx context.Context, m *stepwell.Message, t task.Ticket) task.Outcome {
		if !task.Sleep(ctx, d) {
			return task.Abandoned
		}
		return then(ctx, m, t)
	}
}
