package rabbit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
)

const (
	// windowPrefetch never changes: what a walk returns is handed out before what is fresh, so a walk with a smaller
	// prefetch than an earlier one would see another part of the queue.
	windowPrefetch = 2000
	// windowIdle is how long nothing arrives before a window asks whether there is more.
	windowIdle = 250 * time.Millisecond
	// closeLimit is how long the queue may take to show what was given back.
	closeLimit = 10 * time.Second
)

// window holds the oldest messages on a channel of its own, until that is closed.
type window struct {
	l          *lease
	ch         *amqp.Channel // nil: the queue was empty
	deliveries []queue.Delivery
	depth      int
	acks       *ackCounter
	stop       context.CancelFunc
	running    sync.WaitGroup
}

// ackCounter counts the acks that it leads on.
type ackCounter struct {
	*acks
	mu    sync.Mutex
	count int
}

func (a *ackCounter) Ack(tag uint64) {
	a.mu.Lock()
	a.count++
	a.mu.Unlock()
	a.acks.Ack(tag)
}

func (a *ackCounter) acked() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count
}

// Release leaves the message to the end of the window: given back earlier it would change the order.
func (a *ackCounter) Release(uint64) {}

// Window holds the oldest messages; see queue.Lease.
func (l *lease) Window(ctx context.Context, most, maxBytes int) (queue.Window, error) {
	if most < 1 || most > windowPrefetch {
		return nil, fmt.Errorf("walk of %s: a window of %d messages: 1 to %d can be held", l.queue, most, windowPrefetch)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open {
		return nil, fmt.Errorf("walk of %s: the window before is open", l.queue)
	}
	depth, err := l.settled(ctx)
	if err != nil {
		return nil, err
	}
	w := &window{l: l, depth: depth, acks: &ackCounter{acks: newAcks()}, stop: func() {}}
	if depth > 0 {
		if err := w.start(ctx, min(most, depth), maxBytes); err != nil {
			return nil, err
		}
	}
	l.open = true
	return w, nil
}

func (w *window) start(ctx context.Context, most, maxBytes int) error {
	deliveries, err := w.consume()
	if err != nil {
		return w.l.failed(err)
	}
	if err := w.read(ctx, deliveries, most, maxBytes); err != nil {
		_ = w.l.session.closeChannel(w.ch)
		return w.l.failed(err)
	}
	ctx, w.stop = context.WithCancel(context.Background())
	w.running.Go(func() { w.discard(deliveries) })
	w.running.Go(func() { w.send(ctx) })
	return nil
}

func (w *window) consume() (deliveries <-chan amqp.Delivery, err error) {
	s := w.l.session
	if w.ch, err = s.channel(); err != nil {
		return nil, err
	}
	err = s.call("set prefetch", func() error { return w.ch.Qos(windowPrefetch, 0, false) })
	if err != nil {
		return nil, err
	}
	err = s.call("consume", func() error {
		deliveries, err = w.ch.Consume(w.l.queue, "walk", false, false, false, false, nil)
		return err
	})
	return deliveries, err
}

var errWindowLost = errors.New("the broker ended the walk's consumer")

// read keeps the oldest messages, up to most and about maxBytes.
func (w *window) read(ctx context.Context, deliveries <-chan amqp.Delivery, most, maxBytes int) error {
	idle := time.NewTicker(windowIdle)
	defer idle.Stop()
	total, quiet := 0, 0
	for len(w.deliveries) < most {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return errWindowLost
			}
			quiet = 0
			w.acks.take(d.DeliveryTag)
			one := decode(&d, w.l.queue, w.acks)
			total += size(&one.Message)
			if len(w.deliveries) > 0 && total > maxBytes {
				return nil
			}
			w.deliveries = append(w.deliveries, one)
		case <-idle.C:
			if quiet++; quiet < 2 {
				continue
			}
			state, err := w.l.session.inspect(w.l.queue)
			if err != nil {
				return err
			}
			if state.Messages == 0 { // all there is was handed out: the queue became shorter
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// discard lets the rest go as it comes: it stays unacked and goes back with the channel.
func (w *window) discard(deliveries <-chan amqp.Delivery) {
	for d := range deliveries {
		w.acks.take(d.DeliveryTag)
	}
}

// send sends acks as they come, so that a crash leaves few messages in two places.
func (w *window) send(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.acks.wake:
			if !sleep(ctx, ackDelay) || tell(w.ch, w.acks.plan()) != nil {
				return
			}
		}
	}
}

// Deliveries returns what the window holds, oldest first.
func (w *window) Deliveries() []queue.Delivery { return w.deliveries }

// Depth returns how many messages were in the queue when the window was opened.
func (w *window) Depth() int { return w.depth }

// Close sends the acks and gives back the rest by closing the channel. It never cancels the consumer first: that would
// change the order. Acks have no confirm, so it waits until the queue shows what it must.
func (w *window) Close(ctx context.Context) (int, error) {
	defer func() {
		w.l.mu.Lock()
		w.l.open = false
		w.l.mu.Unlock()
	}()
	if w.ch == nil {
		return w.depth, nil
	}
	w.stop()
	err := w.closeChannel()
	w.running.Wait()
	if err != nil {
		return 0, w.l.failed(fmt.Errorf("it is not known whether %d acks were taken: %w", w.acks.acked(), err))
	}
	return w.verify(ctx)
}

func (w *window) closeChannel() error {
	err := tell(w.ch, w.acks.plan())
	if err != nil {
		return err
	}
	return w.l.session.closeChannel(w.ch)
}

// verify waits until the queue has at least what was not acked; more may have arrived.
func (w *window) verify(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	want := w.depth - w.acks.acked()
	for {
		state, err := w.l.session.inspect(w.l.queue)
		switch {
		case err != nil:
			return 0, w.l.failed(err)
		case state.Consumers == 0 && state.Messages >= want:
			return state.Messages, nil
		}
		if !sleep(ctx, 10*time.Millisecond) {
			return state.Messages, fmt.Errorf("walk of %s: the queue shows %d messages, not %d (%d less %d acks)",
				w.l.queue, state.Messages, want, w.depth, w.acks.acked())
		}
	}
}
