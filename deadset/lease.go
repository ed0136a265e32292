package deadset

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/queue"
)

const (
	// walkPatience is how long a replay or delete waits for another's walk: a peek's is over much
	// sooner.
	walkPatience = 2 * time.Second
	// leasePause is how long it waits before it asks for the lease again.
	leasePause = 50 * time.Millisecond
)

// lease takes the queue's lease when the last peek of this Set has given its own back. While
// another walk has it, it tries again until patience is over; then the error is queue.ErrLeased. It
// is ErrRefused where no walk may begin.
func (s *Set) lease(ctx context.Context, patience time.Duration) (queue.Lease, error) {
	s.mu.Lock()
	refused := s.refused
	s.mu.Unlock()
	if refused {
		return nil, refusal(s.cfg)
	}
	if err := s.awaitBack(ctx); err != nil {
		return nil, err
	}
	over := time.Now().Add(patience)
	for {
		lease, err := s.cfg.Broker.Lease(ctx, s.cfg.Queue)
		if !errors.Is(err, queue.ErrLeased) || time.Until(over) < leasePause {
			return lease, err
		}
		select {
		case <-time.After(leasePause):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", err, ctx.Err())
		}
	}
}

// leaseToPublish takes the lease for a walk that publishes what it takes. Under an alarm nothing
// would be confirmed, while the walk held messages and the lease.
func leaseToPublish(ctx context.Context, s *Set) (queue.Lease, error) {
	if err := s.cfg.Broker.Accepts(ctx); err != nil {
		return nil, err
	}
	return s.lease(ctx, walkPatience)
}

// giveBack gives back what a peek holds, and then its lease, while the peek answers: until then
// nobody acts on anything else than what it shows. It takes closeTime at most, whatever becomes of
// ctx.
func (s *Set) giveBack(ctx context.Context, lease queue.Lease, end func(context.Context) error) {
	back := make(chan struct{})
	s.mu.Lock()
	s.back = back
	s.mu.Unlock()
	// This goroutine ends within closeTime, and awaitBack waits for it.
	go func() {
		defer close(back)
		defer lease.Release()
		failpoint.Hit("peek answered")
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		if err := end(closing); err != nil {
			s.recent.forget()
			s.cfg.Logger.Warn("a peek has not seen all it held come back to the dead set: the end of its connection gives back the rest",
				"queue", s.cfg.Queue, "error", err)
		}
	}()
}

// awaitBack waits until the last peek has given back what it held.
func (s *Set) awaitBack(ctx context.Context) error {
	s.mu.Lock()
	back := s.back
	s.mu.Unlock()
	select {
	// Tried first by itself: of two channels that are ready a select takes any, and a ctx that is
	// over must not turn a walk away for which nobody holds anything.
	case <-back:
		return nil
	default:
	}
	select {
	case <-back:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait until a peek has given back what it held: %w", ctx.Err())
	}
}

// Close lets no other peek begin, and waits until those before have given back what they held. Call
// it before the broker's Run ends: what is held then goes back too, but others find the lease taken
// for some moments more.
func (s *Set) Close(ctx context.Context) error {
	s.closed.Store(true)
	for _, trash := range s.trashes.all() {
		if err := trash.Close(ctx); err != nil {
			return err
		}
	}
	select {
	case <-s.peeking: // none is under way, so none is about to hold anything
	case <-ctx.Done():
		return fmt.Errorf("wait for a peek: %w", ctx.Err())
	}
	defer func() { s.peeking <- struct{}{} }()
	s.index.forget()
	return s.awaitBack(ctx)
}
