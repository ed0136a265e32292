package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

// seen are the batches of a test's handler, and what was in them.
type seen struct {
	t  testing.TB
	mu sync.Mutex
	// calls are the IDs of each batch with their attempts, by when it began.
	calls   [][]string
	running map[string]int // batches that have the key now
}

func newSeen(t testing.TB) *seen { return &seen{t: t, running: map[string]int{}} }

func tryName(m *stepwell.Message) string { return fmt.Sprintf("%s#%d", m.Value, m.Attempt) }

// enter notes a batch, and that no key of it is in another one until leave is called.
func (s *seen) enter(b *stepwell.Batch) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys, ids := map[string]bool{}, map[string]bool{}
	var call []string
	for _, m := range b.Messages() {
		if ids[m.ID] {
			s.t.Errorf("%s is twice in a batch", m.ID)
		}
		ids[m.ID] = true
		call = append(call, tryName(m))
		if m.Key != nil && m.Attempt == 1 {
			keys[string(m.Key)] = true
		}
	}
	for key := range keys {
		if s.running[key]++; s.running[key] > 1 {
			s.t.Errorf("key %s is in two batches at once", key)
		}
	}
	s.calls = append(s.calls, call)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for key := range keys {
			s.running[key]--
		}
	}
}

// flat are all tries, sorted.
func (s *seen) flat() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(slices.Concat(s.calls...)))
}

// batched is an app whose one stream has the handler.
func batched(handle stepwell.BatchHandler) actor.App {
	return actor.App{Streams: actor.Streams{"orders": {Batch: handle}}}
}

// ofOwnKeys are n records of one partition and key each, with a header.
func ofOwnKeys(n int) (all []*kgo.Record) {
	for i := range n {
		all = append(all, &kgo.Record{
			Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "%d", i), Partition: 0,
			Headers: []kgo.RecordHeader{{Key: "n", Value: fmt.Appendf(nil, "%d", i)}},
		})
	}
	return all
}

var errItem = errors.New("no such item")

func TestOnlyWhatABatchMarksIsRetriedOneMessageEach(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := newSeen(t)
		r := w.start(batched(func(_ context.Context, b *stepwell.Batch) error {
			defer s.enter(b)()
			for _, m := range b.Messages() {
				if n := string(m.Value); n == "3" || n == "7" {
					if m.Attempt == 2 && len(b.Messages()) != 1 {
						t.Errorf("a retry in a batch of %d", len(b.Messages()))
					}
					if h, _ := m.Header("n"); string(h) != n || string(m.Key) != "k"+n {
						t.Errorf("message %s came back with key %s, header %s", n, m.Key, h)
					}
					if m.Attempt == 1 {
						m.Key, m.Headers[0].Value = []byte("spoilt"), []byte("spoilt") // its own
						b.Fail(m, errItem)
					}
				}
			}
			return nil
		}), settings{"BATCH_SIZE": "10", "BATCH_WAIT": "5s"})
		w.produce(ofOwnKeys(10)...)
		want := []string{"0#1", "1#1", "2#1", "3#1", "3#2", "4#1", "5#1", "6#1", "7#1", "7#2", "8#1", "9#1"}
		eventually(t, "all are handled", func() bool { return slices.Equal(s.flat(), want) })
		r.queuesEmpty()
		w.allCommitted(r)
		r.end()
		if got := s.flat(); !slices.Equal(got, want) {
			t.Errorf("tries %v, want %v", got, want)
		}
	})
}

func TestAnErrorOfABatchRetriesAllThatIsNotMarked(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := newSeen(t)
		r := w.start(batched(func(_ context.Context, b *stepwell.Batch) error {
			defer s.enter(b)()
			if len(b.Messages()) == 1 {
				return nil
			}
			for _, m := range b.Messages() {
				switch string(m.Value) {
				case "0":
					b.Done(m)
				case "1":
					b.Fail(m, stepwell.Skip("old"))
				case "2":
					b.Fail(m, stepwell.DeadLetter(errItem))
				case "3":
					b.Fail(m, stepwell.Snooze(time.Second))
				}
			}
			return errItem
		}), settings{"BATCH_SIZE": "6", "BATCH_WAIT": "5s"})
		w.produce(ofOwnKeys(6)...)
		want := []string{"0#1", "1#1", "2#1", "3#1", "3#1", "4#1", "4#2", "5#1", "5#2"}
		eventually(t, "all are handled", func() bool { return slices.Equal(s.flat(), want) })
		if dead := r.deadCount(1); dead[0]["reason"] != stepwell.ReasonDeadLetter {
			t.Errorf("dead: %v", dead[0])
		}
		w.allCommitted(r)
	})
}

func TestABatchThatPanicsKeepsWhatItSaidWasDone(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := newSeen(t)
		r := w.start(batched(func(_ context.Context, b *stepwell.Batch) error {
			defer s.enter(b)()
			if len(b.Messages()) > 1 {
				b.Done(b.Messages()[0])
				panic("oops")
			}
			return nil
		}), settings{"BATCH_SIZE": "3", "BATCH_WAIT": "5s"})
		w.produce(ofOwnKeys(3)...)
		want := []string{"0#1", "1#1", "1#2", "2#1", "2#2"}
		eventually(t, "all are handled", func() bool { return slices.Equal(s.flat(), want) })
		w.allCommitted(r)
	})
}

func TestNoKeyIsInTwoBatchesAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		const keys, each = 7, 100
		s := newSeen(t)
		last := map[string]int{}
		handle := func(_ context.Context, b *stepwell.Batch) error {
			leave := s.enter(b)
			s.mu.Lock()
			for _, m := range b.Messages() {
				var n int
				_, _ = fmt.Sscan(string(m.Value), &n)
				if before, ok := last[string(m.Key)]; ok && n <= before {
					t.Errorf("key %s: %d came after %d", m.Key, n, before)
				}
				last[string(m.Key)] = n
			}
			s.mu.Unlock()
			time.Sleep(3 * time.Millisecond)
			leave()
			return nil
		}
		var all []*kgo.Record
		for n := range each {
			for k := range keys {
				all = append(all, &kgo.Record{Key: fmt.Appendf(nil, "k%d", k), Value: fmt.Appendf(nil, "%d", n)})
			}
		}
		r := w.start(batched(handle), settings{"BATCH_SIZE": "20", "BATCH_WAIT": "20ms", "CONCURRENCY": "4"})
		w.produce(all...)
		eventually(t, "all are handled", func() bool { return len(s.flat()) == len(all) })
		w.allCommitted(r)
		r.end()
		if got := len(s.flat()); got != len(all) {
			t.Errorf("%d tries of %d messages", got, len(all))
		}
	})
}

// allCommitted waits until nothing is in flight, and the group has no lag.
func (w *world) allCommitted(r *running) {
	w.t.Helper()
	eventually(w.t, "nothing is in flight", func() bool {
		_, answer := r.do("GET", "/v1/streams", "")
		for _, s := range answer["streams"].([]any) {
			s := s.(map[string]any)
			if s["in_flight"].(float64) != 0 || s["lag"].(float64) != 0 {
				return false
			}
		}
		return true
	})
}

func TestWhatABatchStreamRefuses(t *testing.T) {
	one := func(context.Context, *stepwell.Message) error { return nil }
	many := func(context.Context, *stepwell.Batch) error { return nil }
	same := func(h stepwell.Handler) stepwell.Handler { return h }
	tests := []struct {
		name string
		app  actor.App
		env  []string
		says string
	}{
		{"a handler beside it", actor.App{Streams: actor.Streams{"orders": {Batch: many, Handler: one}}}, nil, "has a Handler beside a Batch: keep one"},
		{"middleware", actor.App{Streams: actor.Streams{"orders": {Batch: many, Use: []stepwell.Middleware{same}}}}, nil, "wrap the function instead"},
		{"middleware of the app", actor.App{Use: []stepwell.Middleware{same}, Streams: actor.Streams{"orders": {Batch: many}}}, nil, "wrap the function here"},
		{
			"more than the window holds", batched(many), []string{"BATCH_SIZE=1000", "CONCURRENCY=6"},
			`BATCH_SIZE: "1000" times CONCURRENCY (6) is more than half of WINDOW_MESSAGES (10000), which has to hold what is gathered while batches run: at most 833, or WINDOW_MESSAGES of at least 12000`,
		},
		{"a size beyond all sense", batched(many), []string{"BATCH_SIZE=9223372036854775807"}, `BATCH_SIZE: "9223372036854775807" is not within 1 to 1000000`},
		{"a wait that is too long", batched(many), []string{"BATCH_WAIT=11s"}, `BATCH_WAIT: "11s" is not within 0 to 10s`},
		{
			"its settings at another stream", actor.App{Streams: actor.Streams{"orders": {Handler: one}}},
			[]string{"STREAMS_ORDERS_BATCH_SIZE=7"}, `STREAMS_ORDERS_BATCH_SIZE: "7" is for streams with a Batch`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			env := append([]string{"APP_NAME=a", "KAFKA_BROKERS=localhost:1", "RABBITMQ_URL=amqp://localhost", "STREAMS_ORDERS_TOPICS=t"}, test.env...)
			_, err := actor.Load(test.app, env)
			if err == nil || !strings.Contains(err.Error(), test.says) || strings.Count(err.Error(), "\n") > 1 {
				t.Errorf("got %v, want one mistake: %s", err, test.says)
			}
		})
	}
	cfg, err := actor.Load(batched(many), []string{"APP_NAME=a", "KAFKA_BROKERS=localhost:1", "RABBITMQ_URL=amqp://localhost", "STREAMS_ORDERS_TOPICS=t"})
	if err != nil || cfg.Stream("orders").Concurrency != 1 {
		t.Errorf("by default %d batches at once, error %v", cfg.Stream("orders").Concurrency, err)
	}
}
