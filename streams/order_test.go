package streams

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
)

// keyed are n records of one partition, whose keys are those of keyOf; an empty text is no key.
func (w *world) keyed(n int, keyOf func(i int) string) {
	w.t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Value: fmt.Append(nil, i)}
		if k := keyOf(i); k != "" {
			records[i].Key = []byte(k)
		}
	}
	w.send(records...)
}

func TestASlowKeyDelaysOnlyItselfAlsoWhenHandlersWereFastBefore(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	release := make(chan struct{})
	j := newJournal()
	handle := func(ctx context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		if string(m.Key) == "slow" {
			select {
			case <-release:
			case <-ctx.Done():
				return task.Abandoned
			}
		}
		j.note(m)
		return task.Settled
	}
	w.keyed(1000, func(i int) string { return []string{"a", "b", "c"}[i%3] }) // fast ones first
	w.keyed(400, func(i int) string { return []string{"slow", "a", "b", "", "c"}[i%5] })
	r := w.run(w.byKey(), handle)
	eventually(t, "all others are handled", func() bool { return j.count() == 1000+400*4/5 })
	eventually(t, "only the first of the slow key holds the commit back", func() bool { return w.committed()[0] == 1000 })
	eventually(t, "in flight are the 80 of the slow key, in a span of 400", func() bool { // a call is noted before it is settled
		s := r.Status()
		return s.InFlight == 80 && s.Span == 400
	})
	close(release)
	eventually(t, "all is committed", func() bool { return w.committed()[0] == 1400 })
}

// stage watches which calls run at once.
type stage struct {
	t       testing.TB
	mu      sync.Mutex
	running map[string]int
	last    map[string]int64
	total   int
	most    int
}

func newStage(t testing.TB) *stage {
	return &stage{t: t, running: map[string]int{}, last: map[string]int64{}}
}

// enter notes a call of a key, which must be alone and later than those before.
func (s *stage) enter(key string, offset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total++
	s.most = max(s.most, s.total)
	if key == "" {
		return
	}
	if s.running[key]++; s.running[key] > 1 {
		s.t.Errorf("%s runs twice at once", key)
	}
	if last, ok := s.last[key]; ok && last >= offset {
		s.t.Errorf("%s: %d after %d", key, offset, last)
	}
	s.last[key] = offset
}

func (s *stage) leave(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	s.running[key]--
}

func TestOrderAndConcurrencyAreKeptWhileCallsTurnSlowAndFast(t *testing.T) {
	t.Parallel()
	const n, size = 6000, 8
	for _, test := range []struct {
		order Order
		ident func(m *stepwell.Message) string // what must not run twice at once
		most  int
	}{
		{OrderKey, func(m *stepwell.Message) string { return string(m.Key) }, size},
		{OrderPartition, func(*stepwell.Message) string { return "all" }, 1},
		{OrderNone, func(*stepwell.Message) string { return "" }, size},
	} {
		t.Run(fmt.Sprint(test.order), func(t *testing.T) {
			t.Parallel()
			w := fakeWorld(t, 1)
			s := newStage(t)
			j := newJournal()
			cfg := w.byKey()
			cfg.Calls.Order, cfg.Calls.Concurrency = test.order, size
			w.keyed(n, func(i int) string {
				if i%7 == 0 {
					return "" // no key, no order
				}
				return fmt.Sprint("key-", i*i%40)
			})
			w.run(cfg, func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
				ident := test.ident(m)
				s.enter(ident, m.Origin.Offset)
				defer s.leave(ident)
				if o := m.Origin.Offset; o/1000%2 == 1 && o%5 == 0 {
					time.Sleep(3 * time.Millisecond) // a slow call among others
				}
				for i := range m.Key {
					m.Key[i] = 'x' // the message is the handler's: what it does to it changes no order
				}
				m.Origin.Offset = -1
				j.note(m)
				return task.Settled
			})
			eventually(t, "all is committed", func() bool { return w.committed()[0] == n })
			if j.count() != n || s.most > test.most || test.most > 1 && s.most < 2 {
				t.Errorf("%d calls, at most %d at once, want %d", j.count(), s.most, test.most)
			}
		})
	}
}

func TestManyKeysWaitAsLongAsTheConcurrencyAllows(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 4)
	var running, most atomic.Int64
	full := make(chan struct{})
	cfg := w.byKey()
	cfg.Calls.Concurrency = 12
	for p := range int32(4) {
		w.produce(p, 50)
	}
	var once sync.Once
	w.run(cfg, func(ctx context.Context, _ *stepwell.Message, _ task.Ticket) task.Outcome {
		n := running.Add(1)
		defer running.Add(-1)
		most.Store(max(most.Load(), n))
		if n == int64(cfg.Calls.Concurrency) {
			once.Do(func() { close(full) })
		}
		select {
		case <-full:
			return task.Settled
		case <-ctx.Done():
			return task.Abandoned
		}
	})
	eventually(t, "all is committed", func() bool { c := w.committed(); return c[0]+c[1]+c[2]+c[3] == 200 })
	if most.Load() != 12 {
		t.Errorf("%d at once", most.Load())
	}
}
