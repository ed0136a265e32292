package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// leaseLimit is how long a lease waits for a broker that is cut off, and who is to publish for one
// that is blocked.
const leaseLimit = 10 * time.Second

// lease is the right to walk a queue, or just the right to a name. The broker's lock guards it.
type lease struct {
	b    *Broker
	name string
	// main is the lease that this one is a part of; nil: it is the lease itself.
	main *lease
	open *session // of the window, nil while there is none
	// The lease itself has these: its parts, and whether it is over; ended is closed then.
	parts []*lease
	over  bool
	ended chan struct{}
}

// Lease takes the right to walk the queue; see queue.Broker.
func (b *Broker) Lease(ctx context.Context, name string) (queue.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseLimit)
	defer cancel()
	var taken *lease
	err := b.await(ctx, func() (bool, error) {
		if b.down {
			return false, nil
		}
		if b.leases[name] != nil {
			return true, queue.ErrLeased
		}
		taken = &lease{b: b, name: name, ended: make(chan struct{})}
		b.leases[name] = taken
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("lease of %s: %w", name, err)
	}
	return taken, nil
}

// Accepts waits until the broker is neither cut off nor blocked; see queue.Broker.
func (b *Broker) Accepts(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaseLimit)
	defer cancel()
	return b.await(ctx, func() (bool, error) { return !b.down && !b.blocked, nil })
}

// On is the lease for another queue; see queue.Lease.
func (l *lease) On(spec queue.Spec) queue.Lease {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	main := l.whole()
	part := &lease{b: l.b, name: spec.Name, main: main}
	main.parts = append(main.parts, part)
	return part
}

// whole is the lease that this one is a part of, or itself.
func (l *lease) whole() *lease {
	if l.main != nil {
		return l.main
	}
	return l
}

// Ended is closed when the lease has ended; see queue.Lease.
func (l *lease) Ended() <-chan struct{} { return l.whole().ended }

// Release gives the lease back, and with it what open windows hold.
func (l *lease) Release() {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.end()
}

// end ends the lease once. The lock must be held.
func (l *lease) end() {
	if l.over {
		return
	}
	l.over = true
	for _, part := range append(l.parts, l) {
		if part.open != nil {
			part.open.end()
		}
	}
	close(l.ended)
	delete(l.b.leases, l.name)
}

// queue is the leased queue, or why it cannot be used. The lock must be held.
func (l *lease) queue(ctx context.Context) (*list, error) {
	of := l.b.queues[l.name]
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case l.whole().over:
		return nil, fmt.Errorf("the lease is over: %w", queue.ErrUnavailable)
	case of == nil:
		return nil, missing(l.name)
	}
	return of, nil
}

// Depth returns how many messages there are; see queue.Lease.
func (l *lease) Depth(ctx context.Context) (int, error) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	of, err := l.queue(ctx)
	if err != nil {
		return 0, fmt.Errorf("depth of %s: %w", l.name, err)
	}
	return len(of.ready), nil
}

// Drop deletes the queue if it is empty; see queue.Lease.
func (l *lease) Drop(ctx context.Context) error {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	of, err := l.queue(ctx)
	if err != nil {
		return fmt.Errorf("delete %s: %w", l.name, err)
	}
	if len(of.ready) > 0 || len(of.sessions) > 0 || l.main == nil {
		return fmt.Errorf("delete %s: it is in use", l.name)
	}
	delete(l.b.queues, l.name)
	of.stop()
	return nil
}

// window is a session that hands out as much as it may hold, and more with each ack. The broker's
// lock guards it.
type window struct {
	lease      *lease
	s          *session
	deliveries chan queue.Delivery // has room for all that is held
	depth      int
	// left counts what is still to be handed out; -1: deliveries is closed.
	left int
	// few is how many are held at most.
	few      int
	maxBytes int
	// bytes is the size of what is held.
	bytes int
	acked int
}

// Window holds the oldest messages; see queue.Lease.
func (l *lease) Window(ctx context.Context, most, maxBytes int) (queue.Window, error) {
	return l.Narrow(ctx, most, queue.WindowSize, maxBytes)
}

// Narrow is a window that holds few; see queue.Lease.
func (l *lease) Narrow(ctx context.Context, most, few, maxBytes int) (queue.Window, error) {
	name := l.name
	if most < 1 {
		return nil, fmt.Errorf("window of %s: %d messages: it takes 1 or more", name, most)
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	of, err := l.queue(ctx)
	if err != nil {
		return nil, fmt.Errorf("window of %s: %w", name, err)
	}
	if l.open != nil {
		return nil, fmt.Errorf("window of %s: the window before is open", name)
	}
	depth := len(of.ready)
	w := &window{
		lease: l, s: of.open(), depth: depth, left: min(most, depth), few: few, maxBytes: maxBytes,
		deliveries: make(chan queue.Delivery, queue.WindowSize),
	}
	// Before fill: an ack may come as soon as the first message is out.
	w.s.window = w
	l.open = w.s
	w.fill()
	return w, nil
}

// fill hands out what there is room for. The lock must be held, as for acks and end.
func (w *window) fill() {
	l := w.s.list
	for w.left > 0 && len(l.ready) > 0 && len(w.s.out) < w.few {
		n := l.ready[0].m.Size()
		if len(w.s.out) > 0 && w.bytes+n > w.maxBytes {
			w.end()
			return
		}
		w.left--
		w.bytes += n
		w.deliveries <- w.s.take()
	}
	if w.left == 0 || len(l.ready) == 0 {
		w.end()
	}
}

// acks makes room.
func (w *window) acks(i *item) {
	w.acked++
	w.bytes -= i.m.Size()
	w.fill()
}

func (w *window) end() {
	// Once: the session may end after the window has handed out all.
	if w.left >= 0 {
		w.left = -1
		close(w.deliveries)
	}
}

// Deliveries hands out the messages; see queue.Window.
func (w *window) Deliveries() <-chan queue.Delivery { return w.deliveries }

// Depth is how many messages there were.
func (w *window) Depth() int { return w.depth }

// Close gives back what was not acked.
func (w *window) Close(context.Context) (int, error) {
	l := w.s.list
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if w.lease.open == w.s {
		w.lease.open = nil
	}
	if w.s.over {
		return w.depth - w.acked, fmt.Errorf("close window of %s: its session is over: %w", l.spec.Name, queue.ErrUnavailable)
	}
	w.s.end()
	return len(l.ready), nil
}
