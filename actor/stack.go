package actor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// stack runs an actor's parts, each of which needs those started before it, and stops them in
// reverse order. It is owned by one goroutine.
type stack struct {
	parts []*part
	// failed takes the first part that ended by itself.
	failed chan *part
}

// part is one function that runs until its cancel. err and itself belong to its goroutine until
// done is closed or failed has the part, and then to who has waited for that.
type part struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error
	itself bool // it ended without being asked to
	told   bool // failure was called; of the stack's owner
}

func newStack() *stack { return &stack{failed: make(chan *part, 1)} }

// push starts run. Its context keeps the values of ctx but ends only when the stack unwinds down to
// it: a part must outlive those above, whatever asked for the stop.
func (s *stack) push(ctx context.Context, name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &part{name: name, cancel: cancel, done: make(chan struct{})}
	s.parts = append(s.parts, p)
	go func() {
		defer close(p.done)
		p.err = run(ctx)
		if ctx.Err() != nil {
			return // asked to stop
		}
		p.itself = true
		select {
		case s.failed <- p:
		default:
		}
	}()
}

// watch returns a context that ends with ctx, or when a part has ended by itself, which is logged
// first. over ends the watch, and returns why that part did.
func (s *stack) watch(ctx context.Context, log *slog.Logger) (up context.Context, over func() error) {
	up, cancel := context.WithCancel(ctx)
	failed := make(chan error, 1)
	go func() {
		defer cancel()
		select {
		case p := <-s.failed:
			failed <- p.tell(log)
		case <-up.Done():
			failed <- nil
		}
	}()
	return up, func() error {
		cancel()
		return <-failed
	}
}

// failure is why a part that came from failed has ended. Who takes it has to tell it: unwind does
// no more.
func (p *part) failure() error {
	p.told = true
	return fmt.Errorf("%s: %w", p.name, cmp.Or(p.err, errEnded))
}

var errEnded = errors.New("ended by itself")

// tell returns the failure, and logs it: who returns it may be at the end of a long stop.
func (p *part) tell(log *slog.Logger) error {
	err := p.failure()
	log.Warn("a part ended, stop", "part", p.name, "error", err)
	return err
}

// hasFailed says whether a part was found to have ended by itself.
func (s *stack) hasFailed() bool {
	return slices.ContainsFunc(s.parts, func(p *part) bool { return p.told })
}

// unwind stops the parts, last one first, each when those above are gone. When ctx ends it stops
// waiting and says which part it waited for, and which of the others had no time to end.
func (s *stack) unwind(ctx context.Context) error {
	var errs []error
	var stuck []string
	for i := len(s.parts) - 1; i >= 0; i-- {
		p := s.parts[i]
		p.cancel()
		switch {
		case !p.wait(ctx):
			stuck = append(stuck, p.name)
		case p.told:
		case p.itself: // which nobody has looked for, as a stop or another failure came first
			errs = append(errs, p.failure())
		case p.err == nil || errors.Is(p.err, context.Canceled):
		default:
			errs = append(errs, fmt.Errorf("stop %s: %w", p.name, p.err))
		}
	}
	s.parts = nil
	if stuck != nil {
		errs = append(errs, errStuck(stuck))
	}
	return errors.Join(errs...)
}

// errStuck is about parts that did not end in time, the one first that was waited for.
func errStuck(parts []string) error {
	said := "the time for the stop is over and this part still runs: " + parts[0]
	if others := parts[1:]; len(others) > 0 {
		said += "; these had no time left to end: " + strings.Join(others, ", ")
	}
	return errors.New(said)
}

// wait reports whether the part ended before ctx did.
func (p *part) wait(ctx context.Context) bool {
	select {
	case <-p.done:
		return true
	case <-ctx.Done():
	}
	select {
	case <-p.done: // both had ended
		return true
	default:
		return false
	}
}
