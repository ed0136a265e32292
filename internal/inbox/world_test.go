package inbox_test

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
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/queue/queuetest"
	"github.com/stepwell/stepwell/internal/task"
)

const s = time.Second

// world is an inbox with its owner, on queues in memory, with a clock of its own.
type world struct {
	t      *testing.T
	broker queue.Broker
	specs  []queue.Spec // of the dead set, the queue, and the one that brings messages back to it, if there is one
	cfg    inbox.Config
	owner  *owner
	inbox  *inbox.Inbox
}

// inWorld runs the test in a bubble. It ends only when every goroutine has. wait is how long
// messages wait in the queue beside; 0: there is none.
func inWorld(t *testing.T, wait time.Duration, test func(w *world)) {
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
		test(newWorld(t, broker, "orders", wait))
	})
}

func newWorld(t *testing.T, broker queue.Broker, name string, wait time.Duration) *world {
	t.Helper()
	w := &world{t: t, broker: broker, specs: []queue.Spec{
		{Name: name + ".dead", Kind: queue.DeadSet},
		{Name: name, Kind: queue.Instant, Target: name + ".dead"},
	}}
	w.cfg = inbox.Config{Queue: name, Broker: broker, Presence: broker, Divert: divert, Logger: slog.New(slog.DiscardHandler)}
	if wait > 0 {
		w.cfg.Wait = name + ".wait"
		w.cfg.Suspects.Wait = w.cfg.Wait
		w.specs = append(w.specs, queue.Spec{Name: w.cfg.Wait, Kind: queue.Delay, TTL: wait, Target: name})
	}
	// A broker that is away is told of within a minute, not when the whole package is out of time.
	declaring, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := broker.Declare(declaring, w.specs); err != nil {
		t.Fatal(err)
	}
	w.renew()
	return w
}

// renew makes an Inbox of the configuration, as a new process would.
func (w *world) renew() {
	publisher := w.cfg.Broker.(queue.Broker).Publisher("test")
	w.owner = &owner{publisher: publisher, dead: w.cfg.Queue + ".dead"}
	w.cfg.Publisher, w.cfg.Owner, w.cfg.Repeated = publisher, w.owner, w.owner.repeated
	w.inbox = inbox.New(w.cfg)
}

// seeing is a broker that says as it is told who lives.
type seeing struct {
	queue.Broker
	shown func(ctx context.Context, name string) (bool, error)
}

func (b *seeing) Shown(ctx context.Context, name string) (bool, error) { return b.shown(ctx, name) }

// sees has the inbox, once it is renewed, ask shown who lives.
func (w *world) sees(shown func(ctx context.Context, name string) (bool, error)) {
	w.cfg.Presence = &seeing{w.broker, shown}
}

// owner has envelopes in the queue.
type owner struct {
	publisher queue.Publisher
	dead      string

	mu         sync.Mutex
	repeats    int
	incomplete func(e *envelope.Envelope) (string, error) // nil: nothing is
	buried     func(done func(error)) func(error)         // nil: what is buried is told at once
}

func (o *owner) Decode(d queue.Delivery) (*envelope.Envelope, error) {
	return envelope.Decode(d.Message)
}

// divert moves what has the header "elsewhere".
func divert(_ context.Context, d queue.Delivery) (to string, m queue.Message, divert bool) {
	to, divert = d.Headers["elsewhere"].(string)
	return to, queue.Message{ID: d.ID, Body: d.Body, Headers: map[string]any{"moved": true}}, divert
}

func (o *owner) Complete(_ context.Context, e *envelope.Envelope) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.incomplete == nil {
		return "", nil
	}
	return o.incomplete(e)
}

func (o *owner) Bury(ctx context.Context, e *envelope.Envelope, reason, text string, done func(error)) {
	e.DiedAt = time.Now()
	e.Failure = envelope.Failure{Reason: reason, Error: text, At: e.DiedAt}
	if o.buried != nil {
		done = o.buried(done)
	}
	o.publisher.Publish(ctx, o.dead, e.Encode(), done)
}

func (o *owner) BuryUnreadable(ctx context.Context, m queue.Message, problem error, done func(error)) {
	f := envelope.Failure{Reason: stepwell.ReasonUndecodable, Error: problem.Error(), At: time.Now()}
	o.publisher.Publish(ctx, o.dead, envelope.Broken(m, f), done)
}

func (o *owner) repeated() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.repeats++
}

func (o *owner) duplicates() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.repeats
}

// park is the owner's way with a failure: the next attempt, in the queue beside.
func (w *world) park(t inbox.Ticket) task.Outcome {
	t.Park(func(ctx context.Context, e *envelope.Envelope, done func(error)) {
		e.Message.Attempt++
		w.cfg.Publisher.Publish(ctx, w.cfg.Wait, e.Encode(), done)
	})
	return task.Pending
}

// running is a Run.
type running struct {
	w           *world
	stop, abort context.CancelFunc
	ended       chan error
}

func (w *world) start(handle inbox.Handle) *running {
	stop, cancelStop := context.WithCancel(context.Background())
	work, cancelWork := context.WithCancel(context.Background())
	r := &running{w: w, stop: cancelStop, abort: cancelWork, ended: make(chan error, 1)}
	in := w.inbox
	go func() {
		defer close(r.ended)
		r.ended <- in.Run(stop, work, handle)
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

// put publishes straight into a queue.
func (w *world) put(name string, m queue.Message) {
	w.t.Helper()
	stored := make(chan error, 1)
	w.broker.Publisher("test").Publish(w.t.Context(), name, m, func(err error) { stored <- err })
	if err := <-stored; err != nil {
		w.t.Fatal(err)
	}
}

// instant puts messages with these offsets into the queue.
func (w *world) instant(offsets ...int64) {
	w.t.Helper()
	for _, o := range offsets {
		w.named(envelope.ID("orders.v1", 3, o))
	}
}

// named puts messages with these ids into the queue, each for its second attempt.
func (w *world) named(ids ...string) {
	w.t.Helper()
	for i, id := range ids {
		o := stepwell.Origin{Topic: "orders.v1", Partition: 3, Offset: int64(i)}
		e := envelope.Envelope{Message: stepwell.Message{ID: id, Stream: "orders", Value: []byte("x"), Attempt: 2, Origin: o}}
		w.put(w.cfg.Queue, e.Encode())
	}
}

// dead takes all messages out of the dead set.
func (w *world) dead() (all []queue.Message) {
	w.t.Helper()
	lease, err := w.broker.Lease(w.t.Context(), w.cfg.Queue+".dead")
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

// empty checks that nothing is ready in any queue.
func (w *world) empty() {
	w.t.Helper()
	for _, q := range w.specs {
		if n := w.depth(q.Name); n != 0 {
			w.t.Errorf("%d messages in %s", n, q.Name)
		}
	}
}

// calls records the calls of a handle that always does the same.
type calls struct {
	mu    sync.Mutex
	tries []stepwell.Message
}

func (c *calls) add(m *stepwell.Message) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tries = append(c.tries, *m)
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

func (c *calls) parked(w *world) inbox.Handle {
	return func(_ context.Context, m *stepwell.Message, t inbox.Ticket) task.Outcome {
		c.add(m)
		return w.park(t)
	}
}

func (c *calls) succeeding(_ context.Context, m *stepwell.Message, _ inbox.Ticket) task.Outcome {
	c.add(m)
	return task.Settled
}

// refuses makes the broker refuse some messages of the inbox and its owner.
func (w *world) refuses(tooLarge func(queue.Message) bool) {
	w.cfg.Broker = queuetest.Tight{Broker: w.broker, TooLarge: tooLarge}
	w.renew()
}
