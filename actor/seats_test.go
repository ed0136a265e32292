package actor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
)

// house counts which calls run at once.
type house struct {
	mu              sync.Mutex
	firsts, retries int // now
	most            int // at once
	watching        bool
	seen, beyond    int // retries that began while watched, and those of them that were a third or fourth one
	firstsDone      int
	retriesDone     int
}

func (h *house) enter(m *stepwell.Message) (leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, done := &h.firsts, &h.firstsDone
	if m.Attempt > 1 {
		now, done = &h.retries, &h.retriesDone
	}
	*now++
	h.most = max(h.most, h.firsts+h.retries)
	if h.watching && m.Attempt > 1 {
		h.seen++
		if h.retries > 2 {
			h.beyond++
		}
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		*now--
		*done++
	}
}

func (h *house) now() house {
	h.mu.Lock()
	defer h.mu.Unlock()
	return house{
		firsts: h.firsts, retries: h.retries, most: h.most, seen: h.seen, beyond: h.beyond,
		firstsDone: h.firstsDone, retriesDone: h.retriesDone,
	}
}

func (h *house) watch(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watching = on
}

// doze is a slow call.
func doze(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func TestFirstTriesAndRetriesOfAStreamShareItsConcurrency(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var h house
		handler := func(ctx context.Context, m *stepwell.Message) error {
			defer h.enter(m)()
			doze(ctx, 25*time.Millisecond)
			if m.Attempt == 1 && strings.HasPrefix(string(m.Value), "bad") {
				return errFlaky
			}
			return nil
		}
		w.produce(several("bad", 150)...)
		w.produce(several("good", 600)...)
		r := w.start(orders(handler), settings{"CONCURRENCY": "4", "RETRY_COUNT": "3"})
		eventually(t, "retries run beside first tries", func() bool { n := h.now(); return n.retriesDone > 10 && n.firstsDone < 300 })
		h.watch(true) // those that began before first tries waited are over
		eventually(t, "most first tries are done", func() bool { return h.now().firstsDone > 600 })
		h.watch(false)
		eventually(t, "all is done", func() bool { n := h.now(); return n.firstsDone == 750 && n.retriesDone == 150 })
		r.queuesEmpty()
		n := h.now()
		if n.most != 4 {
			t.Errorf("at most %d calls at once, want 4", n.most)
		}
		// A worker that has just left its seat may not wait for the next one yet, on a machine that
		// has much to do.
		if n.seen < 20 || n.beyond*10 > n.seen {
			t.Errorf("%d of %d retries had more than half of the seats though first tries waited", n.beyond, n.seen)
		}
	})
}

func TestRetriesHaveTheWholeConcurrencyWhereNoFirstTryWaits(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var h house
		free := make(chan struct{})
		w.start(orders(func(ctx context.Context, m *stepwell.Message) error {
			defer h.enter(m)()
			if m.Attempt == 1 {
				return errFlaky
			}
			select {
			case <-free:
			case <-ctx.Done():
			}
			return nil
		}), settings{"CONCURRENCY": "4"})
		w.produce(several("bad", 10)...)
		eventually(t, "four retries at once", func() bool { return h.now().retries == 4 })
		close(free)
		eventually(t, "all is done", func() bool { return h.now().retriesDone == 10 })
		if n := h.now(); n.most != 4 {
			t.Errorf("at most %d calls at once, want 4", n.most)
		}
	})
}

func TestWithASinglePlaceFirstTriesAndRetriesTakeTurns(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var h house
		var c calls
		r := w.start(orders(func(ctx context.Context, m *stepwell.Message) error {
			defer h.enter(m)()
			c.add(m)
			doze(ctx, 10*time.Millisecond)
			if m.Attempt < 10 && strings.HasPrefix(string(m.Value), "bad") {
				return errFlaky
			}
			return nil
		}), settings{"CONCURRENCY": "1", "RETRY_COUNT": "9"})
		w.produce(several("bad", 20)...)
		w.produce(several("good", 300)...)
		eventually(t, "all is done", func() bool { n := h.now(); return n.firstsDone == 320 && n.retriesDone == 180 })
		r.queuesEmpty()
		if n := h.now(); n.most != 1 {
			t.Errorf("%d calls at once, want one", n.most)
		}
		// Once the first good one is handled many more of them wait, until most are done.
		row, good := 0, 0
		for i, s := range c.all() {
			if strings.HasPrefix(string(s.m.Value), "good") {
				good++
			}
			if s.m.Attempt == 1 {
				row = 0
			} else if row++; row > 3 && good > 0 && good < 60 {
				t.Fatalf("%d retries in a row at call %d, though first tries wait", row, i)
			}
		}
	})
}

// inTurn notes in which order the values of each key are done, and who of a key is tried meanwhile.
type inTurn struct {
	mu   sync.Mutex
	done map[string][]string
}

func (i *inTurn) note(m *stepwell.Message) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.done[string(m.Key)] = append(i.done[string(m.Key)], string(m.Value))
}

func (i *inTurn) of(key string) []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.done[key])
}

func (i *inTurn) count() (n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, values := range i.done {
		n += len(values)
	}
	return n
}

// mixed are records of one partition: of ten keys that fail and of ten that do not, by turns.
func mixed(each int) []*kgo.Record {
	var records []*kgo.Record
	for i := range each {
		for k := range 10 {
			for _, kind := range []string{"bad", "good"} {
				records = append(records, &kgo.Record{Key: fmt.Appendf(nil, "%s-%d", kind, k), Value: fmt.Append(nil, i)})
			}
		}
	}
	return records
}

func numbers(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

func TestWithoutRetriesOnlyTheKeysOfFailingMessagesWait(t *testing.T) {
	inOnePartition(t, func(t *testing.T, w *world) {
		done := inTurn{done: map[string][]string{}}
		healed := make(chan struct{})
		var c calls
		handler := func(_ context.Context, m *stepwell.Message) error {
			if strings.HasPrefix(string(m.Key), "bad") {
				select {
				case <-healed:
				default:
					c.add(m)
					return errFlaky
				}
			}
			done.note(m)
			return nil
		}
		w.produce(mixed(20)...)
		r := w.start(orders(handler), settings{"RETRY_ENABLED": "false", "CONCURRENCY": "2", "RETRY_DELAY": "50ms"})
		eventually(t, "all of the good keys are handled", func() bool { return done.count() == 200 })
		eventually(t, "the bad ones are tried on", func() bool { return len(c.all()) > 30 })
		if n := r.inFlight(); n != 200 {
			t.Errorf("%d in flight, want those of the bad keys", n)
		}
		close(healed)
		eventually(t, "all is handled", func() bool { return done.count() == 400 && r.inFlight() == 0 })
		for k := range 10 {
			for _, kind := range []string{"bad", "good"} {
				if got := done.of(fmt.Sprintf("%s-%d", kind, k)); !slices.Equal(got, numbers(20)) {
					t.Errorf("the order of %s-%d is %v", kind, k, got)
				}
			}
		}
	})
}

func TestWithoutRetriesAStopDoesNotWaitForFailingMessagesAndLosesNone(t *testing.T) {
	inOnePartition(t, func(t *testing.T, w *world) {
		env := settings{"RETRY_ENABLED": "false", "CONCURRENCY": "2", "RETRY_DELAY": "1h"}
		w.produce(mixed(5)...)
		first := inTurn{done: map[string][]string{}}
		var c calls
		r := w.start(orders(func(_ context.Context, m *stepwell.Message) error {
			if strings.HasPrefix(string(m.Key), "bad") {
				c.add(m)
				return errFlaky
			}
			first.note(m)
			return nil
		}), env)
		eventually(t, "the first of each bad key rests", func() bool { return first.count() == 50 && len(c.all()) == 10 })
		began := time.Now()
		r.end()
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("the stop took %v", took)
		}
		second := inTurn{done: map[string][]string{}}
		w.start(orders(func(_ context.Context, m *stepwell.Message) error { second.note(m); return nil }), env)
		eventually(t, "the rest is handled", func() bool {
			for k := range 10 {
				if !slices.Equal(second.of(fmt.Sprintf("bad-%d", k)), numbers(5)) {
					return false
				}
			}
			return true
		})
	})
}

// inOnePartition runs a test where the topic has one partition.
func inOnePartition(t *testing.T, test func(t *testing.T, w *world)) {
	everywhere(t, func(t *testing.T, w *world) {
		w.topic += ".one"
		w.createTopic(w.topic, 1)
		test(t, w)
	})
}
