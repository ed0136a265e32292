package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// leaseLimit is how long a lease waits for a broker that is cut off or blocked.
const leaseLimit = 10 * time.Second

// lease is the right to walk a queue. The broker's lock guards it.
type lease struct {
	list *list
	open *session // of the window, nil while there is none
	over bool
}

// Lease takes the right to walk the queue; see queue.Broker.
func (b *Broker) Lease(ctx context.Context, name string) (queue.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseLimit)
	defer cancel()
	var taken *lease
	err := b.await(ctx, func() (bool, error) {
		if b.down || b.blocked {
			return false, nil
		}
		l := b.queues[name]
		if l == nil {
			return true, missing(name)
		}
		if l.lease != nil {
			return true, queue.ErrLeased
		}
		taken = &lease{list: l}
		l.lease = taken
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("lease of %s: %w", name, err)
	}
	return taken, nil
}

// Release gives the lease back, and with it what an open window holds.
func (l *lease) Release() {
	l.list.b.mu.Lock()
	defer l.list.b.mu.Unlock()
	l.end()
}

// end ends the lease once. The lock must be held.
func (l *lease) end() {
	if l.over {
		return
	}
	l.over = true
	if l.open != nil {
		l.open.end()
	}
	l.list.lease = nil
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
	name := l.list.spec.Name
	if most < 1 {
		return nil, fmt.Errorf("window of %s: %d messages: it takes 1 or more", name, most)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("window of %s: %w", name, err)
	}
	l.list.b.mu.Lock()
	defer l.list.b.mu.Unlock()
	if l.over {
		return nil, fmt.Errorf("window of %s: the lease is over: %w", name, queue.ErrUnavailable)
	}
	if l.open != nil {
		return nil, fmt.Errorf("window of %s: the window before is open", name)
	}
	depth := len(l.list.ready)
	w := &window{
		lease: l, s: l.list.open(), depth: depth, left: min(most, depth), few: few, maxBytes: maxBytes,
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
	l := w.lease.list
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
	l := w.lease.list
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
