package retry_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/retry"
)

var errAway = errors.New("the service is away")

// world is a stream's retries on queues in memory, with a clock of its own.
type world struct {
	t       *testing.T
	broker  queue.Broker
	cfg     retry.Config
	retrier *retry.Retrier
	counts  *counts
}

// inWorld runs the test in a bubble. It ends only when every goroutine has.
func inWorld(t *testing.T, delays retry.Budget, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		broker := memory.New()
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- broker.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("broker: %v", err)
			}
		})
		w := &world{t: t, broker: broker, counts: &counts{}}
		w.cfg = retry.Config{App: "app", Stream: "orders", Delays: delays, Broker: broker, Telemetry: w.counts, Logger: slog.New(slog.DiscardHandler)}
		w.renew()
		if err := w.retrier.Declare(t.Context()); err != nil {
			t.Fatal(err)
		}
		test(w)
	})
}

// renew makes a Retrier of the configuration, as a new process would.
func (w *world) renew() {
	w.t.Helper()
	r, err := retry.New(w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.retrier = r
}

// counts is what was counted.
type counts struct {
	mu   sync.Mutex
	seen tally
}

type tally struct {
	retried    int
	died       map[string]int
	duplicates int
	handed     int
	enqueued   int
}

func (c *counts) Publish(_, _, _ string) func(error) { return func(error) {} }

func (c *counts) Retried()    { c.do(func(t *tally) { t.retried++ }) }
func (c *counts) Enqueued()   { c.do(func(t *tally) { t.enqueued++ }) }
func (c *counts) HandedOver() { c.do(func(t *tally) { t.handed++ }) }

func (c *counts) Duplicate() { c.do(func(t *tally) { t.duplicates++ }) }

func (c *counts) Died(reason string) {
	c.do(func(t *tally) {
		died := map[string]int{reason: 1}
		for r, n := range t.died {
			died[r] += n
		}
		t.died = died
	})
}

func (c *counts) do(f func(*tally)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.seen)
}

func (c *counts) now() (t tally) {
	c.do(func(seen *tally) { t = *seen })
	return t
}

// running is a Run.
type running struct {
	w           *world
	stop, abort context.CancelFunc
	ended       chan error
}

func (w *world) start(handle retry.Handle) *running {
	stop, cancelStop := context.WithCancel(context.Background())
	work, cancelWork := context.WithCancel(context.Background())
	r := &running{w: w, stop: cancelStop, abort: cancelWork, ended: make(chan error, 1)}
	retrier := w.retrier
	go func() {
		defer close(r.ended)
		r.ended <- retrier.Run(stop, work, handle)
	}()
	w.t.Cleanup(func() {
		cancelStop()
		cancelWork()
		<-r.ended
	})
	return r
}

// end stops the Run and waits for it.
func (r *running) end() {
	r.w.t.Helper()
	r.stop()
	if err := <-r.ended; err != nil {
		r.w.t.Errorf("Run: %v", err)
	}
	r.abort()
}

// first fails the first try of a message and waits until it is parked.
func (w *world) first(m *stepwell.Message, f retry.Failure) {
	w.t.Helper()
	parked := make(chan error, 1)
	w.retrier.Fail(w.t.Context(), m, nil, f, func(err error) { parked <- err })
	if err := <-parked; err != nil {
		w.t.Errorf("park: %v", err)
	}
}

func record(value string) *stepwell.Message {
	o := stepwell.Origin{Topic: "orders.v1", Partition: 3, Offset: 42}
	return &stepwell.Message{ID: envelope.ID(o.Topic, o.Partition, o.Offset), Stream: "orders", Value: []byte(value), Attempt: 1, Origin: o}
}

// put publishes straight into a queue.
func (w *world) put(name string, m queue.Message) {
	w.t.Helper()
	stored := make(chan error, 1)
	w.broker.Publisher("test").Publish(w.t.Context(), name, m, func(err error) { stored <- err })
	if err := <-stored; err != nil {
		w.t.Fatal(err)
	}
}

// dead takes all messages out of the dead set.
func (w *world) dead() (all []queue.Message) {
	w.t.Helper()
	lease, err := w.broker.Lease(w.t.Context(), w.retrier.Topology().DeadSet)
	if err != nil {
		w.t.Fatal(err)
	}
	defer lease.Release()
	window, err := lease.Window(w.t.Context(), 1000, 64<<20)
	if err != nil {
		w.t.Fatal(err)
	}
	for d := range window.Deliveries() {
		all = append(all, d.Message)
		d.Ack()
	}
	if _, err := window.Close(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return all
}

// oneDead takes the only message out of the dead set.
func (w *world) oneDead() *envelope.Envelope {
	w.t.Helper()
	all := w.dead()
	if len(all) != 1 {
		w.t.Fatalf("%d messages in the dead set, want 1", len(all))
	}
	e, err := envelope.Decode(all[0])
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// empty checks that nothing is ready in any queue.
func (w *world) empty() {
	w.t.Helper()
	for _, s := range w.retrier.Topology().Specs() {
		if n := w.depth(s.Name); n != 0 {
			w.t.Errorf("%d messages in %s", n, s.Name)
		}
	}
}

// depth is how many messages are ready in a queue. A busy RabbitMQ may not know it at once.
func (w *world) depth(name string) (n int) {
	w.t.Helper()
	eventually(w.t, "the depth of "+name+" is known", func() bool {
		var err error
		if n, err = w.broker.Depth(w.t.Context(), name); err != nil && !errors.Is(err, queue.ErrUnavailable) {
			w.t.Fatal(err)
		}
		return err == nil
	})
	return n
}

// calls records the calls of a handle that always does the same.
type calls struct {
	mu    sync.Mutex
	tries []stepwell.Message
	at    []time.Time
}

func (c *calls) add(m *stepwell.Message) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tries, c.at = append(c.tries, *m), append(c.at, time.Now())
	return len(c.tries)
}

func (c *calls) attempts() (all []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.tries {
		all = append(all, m.Attempt)
	}
	return all
}

func (c *calls) failing(f retry.Failure) retry.Handle {
	return func(_ context.Context, m *stepwell.Message, t retry.Ticket) task.Outcome {
		c.add(m)
		t.Fail(f)
		return task.Pending
	}
}

func (c *calls) succeeding(_ context.Context, m *stepwell.Message, _ retry.Ticket) task.Outcome {
	c.add(m)
	return task.Settled
}
