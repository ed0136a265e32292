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
)

// window holds the oldest messages on a channel of its own, until that is closed.
type window struct {
	l          *lease
	ch         *amqp.Channel // nil: the queue was empty
	deliveries []queue.Delivery
	depth      int
	maxBytes   int
	acks       *heldAcks
	late       map[string]bool // ids of what arrived after the depth was read
	stop       context.CancelFunc
	running    sync.WaitGroup
}

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
	w := newWindow(l, depth, maxBytes)
	if depth > 0 {
		if err := w.start(ctx, min(most, depth)); err != nil {
			return nil, err
		}
	}
	l.open = true
	return w, nil
}

func newWindow(l *lease, depth, maxBytes int) *window {
	return &window{
		l: l, depth: depth, maxBytes: maxBytes, acks: newHeldAcks(), late: map[string]bool{}, stop: func() {},
	}
}

func (w *window) start(ctx context.Context, most int) error {
	deliveries, err := w.consume()
	if err != nil {
		return w.l.failed(err)
	}
	if err := w.read(ctx, deliveries, most); err != nil {
		_ = w.l.session.closeChannel(w.ch)
		return w.l.failed(err)
	}
	ctx, w.stop = context.WithCancel(w.l.session.ctx)
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
func (w *window) read(ctx context.Context, deliveries <-chan amqp.Delivery, most int) error {
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
			if len(w.deliveries) > 0 && total > w.maxBytes {
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
		if d.DeliveryTag > uint64(w.depth) {
			w.late[d.MessageId] = true
		}
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
