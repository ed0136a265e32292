package memory

import (
	"context"
	"fmt"

	"github.com/stepwell/stepwell/internal/queue"
)

type lease struct {
	b    *Broker
	name string
	over bool
}

// Lease takes the right to walk the queue.
func (b *Broker) Lease(_ context.Context, name string) (queue.Lease, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch l := b.queues[name]; {
	case b.down || b.blocked:
		return nil, fmt.Errorf("lease of %s: %w", name, queue.ErrUnavailable)
	case l == nil:
		return nil, fmt.Errorf("lease of %s: the queue is missing: %w", name, queue.ErrUnavailable)
	case l.leased:
		return nil, fmt.Errorf("lease of %s: %w", name, queue.ErrLeased)
	default:
		l.leased = true
	}
	return &lease{b: b, name: name}, nil
}

// Release gives the lease back.
func (l *lease) Release() {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if q := l.b.queues[l.name]; q != nil && !l.over {
		q.leased = false
	}
	l.over = true
}

type window struct {
	s          *session
	deliveries []queue.Delivery
	depth      int
}

// Window holds the oldest messages.
func (l *lease) Window(_ context.Context, limit, maxBytes int) (queue.Window, error) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	s := l.b.open(l.name)
	if s == nil || l.over {
		return nil, fmt.Errorf("window of %s: %w", l.name, queue.ErrUnavailable)
	}
	w := &window{s: s, depth: len(s.list.ready)}
	bytes := 0
	for len(w.deliveries) < limit && len(s.list.ready) > 0 {
		n := size(s.list.ready[0].m)
		if bytes += n; bytes > maxBytes && len(w.deliveries) > 0 {
			break
		}
		w.deliveries = append(w.deliveries, s.take())
	}
	return w, nil
}

// Deliveries are the messages held, oldest first.
func (w *window) Deliveries() []queue.Delivery { return w.deliveries }

// Depth is how many messages there were.
func (w *window) Depth() int { return w.depth }

// Close gives back what was not acked.
func (w *window) Close(context.Context) (int, error) {
	b := w.s.list.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.s.over {
		return 0, fmt.Errorf("close window of %s: the session is over: %w", w.s.list.spec.Name, queue.ErrUnavailable)
	}
	w.s.end()
	return len(w.s.list.ready), nil
}
