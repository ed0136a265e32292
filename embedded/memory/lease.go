package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

const (
	// leaseLimit is how long a lease waits for a broker that is cut off or blocked.
	leaseLimit = 10 * time.Second
	maxWindow  = 2000
)

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

type window struct {
	lease      *lease
	s          *session
	deliveries []queue.Delivery
	depth      int
}

// Window holds the oldest messages; see queue.Lease.
func (l *lease) Window(ctx context.Context, most, maxBytes int) (queue.Window, error) {
	name := l.list.spec.Name
	if most < 1 || most > maxWindow {
		return nil, fmt.Errorf("window of %s: %d messages: 1 to %d can be held", name, most, maxWindow)
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
	w := &window{lease: l, s: l.list.open(), depth: len(l.list.ready)}
	l.open = w.s
	bytes := 0
	for len(w.deliveries) < most && len(l.list.ready) > 0 {
		bytes += size(l.list.ready[0].m)
		if bytes > maxBytes && len(w.deliveries) > 0 {
			break
		}
		w.deliveries = append(w.deliveries, w.s.take())
	}
	return w, nil
}

// Deliveries are the messages held, oldest first.
func (w *window) Deliveries() []queue.Delivery { return w.deliveries }

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
		return 0, fmt.Errorf("close window of %s: its session is over: %w", l.spec.Name, queue.ErrUnavailable)
	}
	w.s.end()
	return len(l.ready), nil
}
