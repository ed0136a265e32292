package queuetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

const (
	// patience is how long what must happen may take.
	patience = 30 * time.Second
	// silence is how long a test listens for what must not happen.
	silence = 300 * time.Millisecond
	// delay is the TTL of a world's delay queue.
	delay = 300 * time.Millisecond
)

// world is a running broker with a stream's three queues.
type world struct {
	queue.Broker
	place                Place
	stop                 func() // ends Run and waits for it
	instant, delay, dead string
	// sources are further queues of the test.
	sources []string
}

// start runs the broker under names of queues that no other test has: on RabbitMQ all tests share
// one node. What is left goes when the test ends, after Run has.
func start(t *testing.T, p Place) *world {
	t.Helper()
	base := fmt.Sprintf("queuetest-%d", rand.Uint64())
	w := &world{Broker: p.Broker, place: p, instant: base + ".instant", delay: base + ".delay.300", dead: base + ".dead_set"}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	w.stop = func() { cancel(); running.Wait() }
	t.Cleanup(func() {
		w.stop()
		for _, name := range append(w.sources, w.delay, w.instant, w.dead) {
			if p.Delete != nil {
				p.Delete(name)
			}
		}
	})
	return w
}

// specs begins with what points to others: Declare itself has to find the order.
func (w *world) specs() []queue.Spec {
	return []queue.Spec{
		{Name: w.delay, Kind: queue.Delay, TTL: delay, Target: w.instant},
		{Name: w.instant, Kind: queue.Instant, Target: w.dead},
		{Name: w.dead, Kind: queue.DeadSet},
	}
}

func (w *world) declare(t *testing.T) {
	t.Helper()
	if err := w.Declare(within(t), w.specs()); err != nil {
		t.Fatalf("Declare: %v", err)
	}
}

// within is a context of the test that ends when the test has waited long enough.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// id has as many digits for every number, so that ids sort as numbers do.
func id(i int) string { return fmt.Sprintf("m-%06d", i) }

func numbered(i int) queue.Message { return queue.Message{ID: id(i), Body: []byte("x")} }

// fill publishes the messages from … to-1 and waits for their confirms.
func (w *world) fill(t *testing.T, name string, from, to int) {
	t.Helper()
	// Room for every answer, so that done never waits for the test.
	told := make(chan error, to-from)
	p := w.Publisher("test")
	for i := from; i < to; i++ {
		p.Publish(t.Context(), name, numbered(i), func(err error) { told <- err })
	}
	for range to - from {
		if err := await(t, told, "a confirm"); err != nil {
			t.Fatalf("publish: %v", err)
		}
	}
}

// await receives, or fails the test.
func await[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

// nothing fails the test when anything comes.
func nothing[T any](t *testing.T, c <-chan T, what string) {
	t.Helper()
	select {
	case v := <-c:
		t.Fatalf("%s: %v", what, v)
	case <-time.After(silence):
	}
}

// depthIs waits until the queue shows so many messages.
func (w *world) depthIs(t *testing.T, name string, want int) {
	t.Helper()
	ctx := within(t)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := w.Depth(ctx, name)
		if err == nil && got == want {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s has %d messages, not %d; error %v", name, got, want, err)
		}
	}
}

// consumer is a Consume under way.
type consumer struct {
	// called has one value for each call of Handle, also of one that did not take its delivery.
	called    chan struct{}       // one for each call of Handle
	got       chan queue.Delivery // what was handed out
	stopping  <-chan struct{}     // closed by the stop
	stop, end context.CancelFunc  // end the consumer's stop and its work
	returned  chan error
}

// consume hands out to got, one delivery at a time: who does not receive holds up the consumer.
func (w *world) consume(t *testing.T, name string, prefetch int) *consumer {
	return w.consumeWith(t, queue.Consumption{Queue: name, Prefetch: func() int { return prefetch }})
}

// consumeWith fills in Handle: it hands to got, for as long as its context lives.
func (w *world) consumeWith(t *testing.T, c queue.Consumption) *consumer {
	stop, stopNow := context.WithCancel(context.Background())
	work, endNow := context.WithCancel(context.Background())
	k := &consumer{
		called: make(chan struct{}, 10_000), got: make(chan queue.Delivery), returned: make(chan error, 1),
		stopping: stop.Done(), stop: stopNow, end: func() { stopNow(); endNow() },
	}
	c.Handle = func(ctx context.Context, d queue.Delivery) bool {
		k.called <- struct{}{}
		if ctx.Err() != nil { // else the choice between the two would be left to chance
			return false
		}
		select {
		case k.got <- d:
			return true
		case <-ctx.Done():
			return false
		}
	}
	var consuming sync.WaitGroup
	consuming.Go(func() { k.returned <- w.Consume(stop, work, c) })
	t.Cleanup(func() { k.end(); consuming.Wait() })
	return k
}

// take waits for n deliveries.
func (k *consumer) take(t *testing.T, n int) []queue.Delivery {
	t.Helper()
	all := make([]queue.Delivery, 0, n)
	for range n {
		all = append(all, await(t, k.got, fmt.Sprintf("delivery %d of %d", len(all)+1, n)))
	}
	return all
}

// quit ends the consumer and gives back what it holds.
func (k *consumer) quit(t *testing.T) {
	t.Helper()
	k.end()
	if err := await(t, k.returned, "the end of Consume"); err != nil {
		t.Errorf("Consume: %v", err)
	}
}

// are fails the test unless the deliveries are these messages in this order.
func are(t *testing.T, all []queue.Delivery, want ...int) {
	t.Helper()
	if len(all) != len(want) {
		t.Fatalf("%d messages, not %d", len(all), len(want))
	}
	for i, d := range all {
		if d.ID != id(want[i]) {
			t.Fatalf("message %d is %s, not %s", i, d.ID, id(want[i]))
		}
	}
}

// upTo are the numbers from … to-1.
func upTo(from, to int) []int {
	var all []int
	for i := from; i < to; i++ {
		all = append(all, i)
	}
	return all
}

func (w *world) lease(t *testing.T, name string) queue.Lease {
	t.Helper()
	ctx := within(t)
	// A lease that was taken before may be another test's, or one of this test that is being
	// released.
	for { // the broker frees a lease some moments after its release
		l, err := w.Lease(ctx, name)
		if err == nil {
			t.Cleanup(l.Release)
			return l
		}
		if !errors.Is(err, queue.ErrLeased) {
			t.Fatalf("Lease: %v", err)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("the lease is never free: %v", err)
		}
	}
}

// held is a window that was read to its end.
type held struct {
	queue.Window
	all []queue.Delivery
}

// window reads a window of at most queue.WindowSize.
func window(t *testing.T, l queue.Lease, most int) held {
	t.Helper()
	return windowOf(t, l, most, 64<<20)
}

// windowOf fails the test where a window does not come to its end within patience.
func windowOf(t *testing.T, l queue.Lease, most, bytes int) held {
	t.Helper()
	w, err := l.Window(within(t), most, bytes)
	if err != nil {
		t.Fatalf("Window: %v", err)
	}
	all, err := queue.Gather(within(t), w)
	if err != nil {
		t.Fatalf("%d messages of a window of %d: %v", len(all), most, err)
	}
	return held{w, all}
}

// shut closes a window and compares the depth after it.
func shut(t *testing.T, w queue.Window, want int) {
	t.Helper()
	depth, err := w.Close(within(t))
	if err != nil || depth != want {
		t.Fatalf("Close: depth %d, not %d, error %v", depth, want, err)
	}
}
