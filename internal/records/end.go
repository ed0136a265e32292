package records

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// Sync returns when all has been read that was in the log when it was called, or with an error when
// that took longer than 30 s, or than ctx lives.
func (s *Store) Sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.patience, errLate)
	defer cancel()
	answer := make(chan error, 1)
	s.ask(answer)
	select {
	case err := <-answer:
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		return nil
	case <-ctx.Done():
		s.unask(answer)
		// What is wrong with the broker late says.
		if _, trouble := s.Status(); trouble != nil && !errors.Is(trouble, queue.ErrUnavailable) {
			return fmt.Errorf("%w: %w: %w", ErrUnknown, trouble, late(ctx, s.cfg.Broker))
		}
		return fmt.Errorf("%w: %w", ErrUnknown, late(ctx, s.cfg.Broker))
	case <-s.over:
		return fmt.Errorf("%w: %w", ErrUnknown, queue.ErrClosed)
	}
}

// ask has the end of the log looked for; answer, which may be nil and has room for one, is told.
func (s *Store) ask(answer chan error) {
	s.mu.Lock()
	if answer != nil {
		s.asking = append(s.asking, answer)
	}
	s.mu.Unlock()
	select {
	case s.wanted <- struct{}{}:
	default:
	}
}

// unask is for who waits no longer: where the log cannot be declared nobody is ever told.
func (s *Store) unask(answer chan error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking = slices.DeleteFunc(s.asking, func(other chan error) bool { return other == answer })
}

// mark writes a mark for those who ask where the log ends, one for all who asked before it: when it
// comes back, all that was before it has been read. It returns when ctx ends.
func (s *Store) mark(ctx context.Context) {
	select {
	case <-s.declared: // else what is written would be reported as held back
	case <-ctx.Done():
	}
	for ctx.Err() == nil {
		select {
		case <-s.wanted:
		case <-ctx.Done():
		}
		s.mu.Lock()
		asking := s.asking
		s.asking = nil
		s.mu.Unlock()
		_, err := s.write(ctx, &entry{})
		if err != nil {
			s.ask(nil) // also where nobody waits: records are known only once the end was found
		}
		for _, answer := range asking {
			answer <- err
		}
		if err == nil { // marks push out what is old as changes do; where this fails the next does it
			_ = s.renew(ctx)
		}
		select {
		case <-time.After(s.cfg.pause):
		case <-ctx.Done():
		}
	}
}
