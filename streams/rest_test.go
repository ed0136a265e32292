package streams

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/seats"
	"github.com/stepwell/stepwell/internal/task"
)

// places watches that no two calls have the same lane at once.
type places struct {
	t     testing.TB
	mu    sync.Mutex
	taken map[int]bool
	size  int
}

func (s *places) enter(ticket task.Ticket) (leave func()) {
	lane, _ := ticket.Running()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[lane] || lane < 0 || lane >= s.size {
		s.t.Errorf("a call on lane %d of %d, which another one has: %v", lane, s.size, s.taken[lane])
	}
	s.taken[lane] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taken[lane] = false
	}
}

// resting is a handle that tries calls of keys that begin with "bad" again and again until healed.
type resting struct {
	*places
	stage  *stage
	calls  *journal
	pause  time.Duration
	healed atomic.Bool
	tries  atomic.Int64
	rests  atomic.Int64 // now
}

func newResting(t testing.TB, size int, pause time.Duration) *resting {
	return &resting{
		places: &places{t: t, taken: map[int]bool{}, size: size},
		stage:  newStage(t), calls: newJournal(), pause: pause,
	}
}

func (r *resting) handle(ctx context.Context, m *stepwell.Message, t task.Ticket) task.Outcome {
	key := string(m.Key)
	r.stage.enter(key, m.Origin.Offset)
	defer r.stage.leave(key)
	for {
		leave := r.enter(t)
		r.tries.Add(1)
		if strings.HasPrefix(key, "bad") {
			<-time.After(time.Millisecond) // so that calls meet
		}
		if !strings.HasPrefix(key, "bad") || r.healed.Load() {
			r.calls.note(m)
			leave()
			return task.Settled
		}
		leave()
		r.rests.Add(1)
		ok := t.Rest(ctx, r.pause, m)
		r.rests.Add(-1)
		if !ok {
			return task.Abandoned
		}
	}
}

func TestCallsThatRestGiveTheirPlaceToOthersAndGetOneAgain(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			w := fakeWorld(t, 1)
			w.keyed(2000, func(i int) string {
				if i%10 == 0 {
					return fmt.Sprint("bad-", i%200)
				}
				return []string{"", "a", "b"}[i%3]
			})
			h := newResting(t, size, 5*time.Millisecond)
			cfg := w.byKey()
			cfg.Calls.Concurrency = size
			shared := seats.New(size)
			cfg.Calls.Seats = shared.First()
			r := w.run(cfg, h.handle)
			eventually(t, "all others are handled", func() bool { return h.calls.count() == 1800 })
			tries := h.tries.Load()
			eventually(t, "those that rest are tried again", func() bool { return h.tries.Load() > tries+100 })
			h.healed.Store(true)
			eventually(t, "all is committed", func() bool { return w.committed()[0] == 2000 })
			if h.calls.count() != 2000 {
				t.Errorf("%d messages, want 2000 each once", h.calls.count())
			}
			if err := r.end(); err != nil {
				t.Error(err)
			}
			over := make(chan struct{})
			close(over)
			for i := range size {
				if !shared.First().Take(over) {
					t.Fatalf("only %d of %d seats are free in the end", i, size)
				}
			}
		})
	}
}

func TestAStopDoesNotWaitForCallsThatRestAndTheirMessagesAreReadAgain(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	w.keyed(300, func(i int) string { return fmt.Sprint("bad-", i%200) })
	h := newResting(t, 2, time.Hour)
	cfg := w.byKey()
	cfg.Calls.Concurrency = 2
	r := w.run(cfg, h.handle)
	eventually(t, "the first of each key rests", func() bool { return h.rests.Load() == 200 })
	began := time.Now()
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if c := w.committed()[0]; c > 0 {
		t.Errorf("%d messages that nobody handled are committed", c)
	}
	again := newResting(t, 2, time.Hour)
	again.healed.Store(true)
	w.run(cfg, again.handle)
	eventually(t, "all is handled", func() bool { return again.calls.count() == 300 && w.committed()[0] == 300 })
}

func TestAPausedReaderTriesNothingAgainInPlace(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	w.keyed(20, func(i int) string { return fmt.Sprint("bad-", i) })
	h := newResting(t, 2, 5*time.Millisecond)
	cfg := w.byKey()
	cfg.Calls.Concurrency = 2
	r := w.run(cfg, h.handle)
	eventually(t, "all rest now and then", func() bool { return h.tries.Load() > 100 })
	r.Pause()
	var before int64
	quiet := 0
	eventually(t, "nothing is tried", func() bool {
		if now := h.tries.Load(); now != before || h.rests.Load() != 20 {
			before, quiet = now, 0
		} else {
			quiet++
		}
		return quiet == 10
	})
	h.healed.Store(true)
	r.Resume()
	eventually(t, "all is committed", func() bool { return w.committed()[0] == 20 })
}

func TestAReaderThatWaitsForSeatsStopsAtOnceAndHandsOutNothing(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 2)
	shared := seats.New(2)
	shared.Retry().Take(nil)
	shared.Retry().Take(nil)
	w.produce(0, 50)
	w.produce(1, 50)
	j := newJournal()
	cfg := w.byKey()
	cfg.Calls.Concurrency, cfg.Calls.Seats = 2, shared.First()
	r := w.run(cfg, j.settleAll)
	eventually(t, "all is read", func() bool { return r.Status().InFlight == 100 })
	began := time.Now()
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 20*time.Second || j.count() > 0 {
		t.Errorf("the stop took %v, and %d messages were handled without a seat", took, j.count())
	}
	shared.Retry().Leave()
	w.run(cfg, j.settleAll)
	eventually(t, "all is handled with one seat", func() bool { c := w.committed(); return c[0] == 50 && c[1] == 50 })
}
