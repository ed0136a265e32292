package memory

import (
	"context"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// Consume hands out the queue's messages until stop ends; see queue.Broker.
func (b *Broker) Consume(stop, work context.Context, c queue.Consumption) error {
	for stop.Err() == nil {
		b.mu.Lock()
		s := b.open(c.Queue)
		b.mu.Unlock()
		if s == nil {
			pause(stop)
			continue
		}
		b.serve(stop, s, c)
		if stop.Err() != nil {
			b.drain(work, s)
		}
		b.mu.Lock()
		s.end()
		b.mu.Unlock()
	}
	return nil
}

func pause(ctx context.Context) {
	const d = 50 * time.Millisecond
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// serve hands out until stop or the session ends.
func (b *Broker) serve(stop context.Context, s *session, c queue.Consumption) {
	ctx, cancel := context.WithCancel(stop)
	defer cancel()
	for stop.Err() == nil {
		d, ready, over := b.next(s, c)
		if over {
			return
		}
		if ready {
			if !c.Handle(ctx, d) {
				d.Release()
			}
			continue
		}
		select {
		case <-stop.Done():
		case <-s.changed:
		case <-c.Changed:
		}
	}
}

func (b *Broker) next(s *session, c queue.Consumption) (d queue.Delivery, ready, over bool) {
	prefetch := c.Prefetch()
	paused := c.Paused != nil && c.Paused()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queues[c.Queue] != s.list {
		return d, false, true // deleted
	}
	if s.over || paused || len(s.list.ready) == 0 || len(s.out) >= prefetch {
		return d, false, s.over
	}
	return s.take(), true, false
}

// drain waits until all that was handed out is settled, or work ends.
func (b *Broker) drain(work context.Context, s *session) {
	for {
		b.mu.Lock()
		left := len(s.out)
		b.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-work.Done():
			return
		case <-s.changed:
		}
	}
}
