package deadset

import (
	"context"

	"github.com/stepwell/stepwell/internal/queue"
)

// errand is what a walk is for.
type errand struct {
	most int // messages
	// removes: nothing is published, so that an alarm of the broker is in nobody's way.
	removes bool
	few     int // how many it may hold at a time; 0: as many as a window holds
	// late has what is done be acked at the end of its window, which shows no more than it holds.
	// For each ack the broker hands out another message, and a window that takes no more gives all
	// of these back: who fills a page would have each message handed out twice.
	late bool
	// which it is about; it leaves the others where they are. Nil: all.
	which func(*held) bool
	// full is asked before each message: true ends the errand in this window, before that message.
	// Nil: never.
	full func(*held) bool
	// enough ends the errand once it is closed: no message is begun after that. Nil: never.
	enough <-chan struct{}
	// begin is called once the lease is held, before anything is acted on, and ready before each
	// window. Nil: there is nothing to be done first.
	begin func(ctx context.Context, lease queue.Lease) error
	ready func(ctx context.Context) error
	// act begins with a message and calls done once, from any goroutine, with nil when the message
	// may be acked.
	act func(ctx context.Context, h *held, done func(error))
}

// enter takes the lease for the errand, and finds the parts.
func (e *errand) enter(ctx context.Context, s *Set) (lease queue.Lease, parts []part, err error) {
	if lease, err = e.lease(ctx, s); err != nil {
		return nil, nil, err
	}
	if parts, err = e.parts(ctx, s, lease); err != nil {
		lease.Release()
	}
	return lease, parts, err
}

func (e *errand) lease(ctx context.Context, s *Set) (queue.Lease, error) {
	if e.removes {
		return s.lease(ctx, walkPatience)
	}
	return leaseToPublish(ctx, s)
}

// parts finds the parts, and begins.
func (e *errand) parts(ctx context.Context, s *Set, lease queue.Lease) ([]part, error) {
	parts, err := s.pages.parts(ctx, lease)
	if err == nil && e.begin != nil {
		err = e.begin(ctx, lease)
	}
	return parts, err
}

func (e *errand) isReady(ctx context.Context) error {
	if e.ready == nil {
		return nil
	}
	return e.ready(ctx)
}

// open opens a window that fits the errand.
func (e errand) open(ctx context.Context, p part, oldest, maxBytes int) (queue.Window, error) {
	if e.few > 0 {
		return p.Narrow(ctx, oldest, e.few, maxBytes)
	}
	return p.Window(ctx, oldest, maxBytes)
}
