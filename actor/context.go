package actor

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errHandlerTimeout is the cause of a handler's context that ended because HANDLER_TIMEOUT was over.
var errHandlerTimeout = errors.New("handler ran longer than HANDLER_TIMEOUT")

// callContext is the context of one handler call: its parent, with a deadline. Most handlers never look at theirs, so the timer
// and the channel are made only when somebody asks for Done; one small allocation is the price of a call.
type callContext struct {
	context.Context // the parent
	deadline        time.Time

	mu     sync.Mutex
	timed  context.Context // nil until Done is asked for
	cancel context.CancelFunc
	over   bool
}

// Deadline tells when the handler's time is up.
func (c *callContext) Deadline() (time.Time, bool) {
	if d, ok := c.Context.Deadline(); ok && d.Before(c.deadline) {
		return d, true
	}
	return c.deadline, true
}

// Done makes the timer on its first call.
func (c *callContext) Done() <-chan struct{} { return c.real().Done() }

func (c *callContext) real() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		c.timed, c.cancel = context.WithDeadlineCause(c.Context, c.deadline, errHandlerTimeout)
		if c.over {
			c.cancel()
		}
	}
	return c.timed
}

func (c *callContext) made() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.timed
}

// Err tells why the context ended; it needs no timer.
func (c *callContext) Err() error {
	c.mu.Lock()
	timed, over := c.timed, c.over
	c.mu.Unlock()
	switch {
	case timed != nil:
		return timed.Err()
	case c.Context.Err() != nil:
		return c.Context.Err()
	case over:
		return context.Canceled
	case !time.Now().Before(c.deadline):
		return context.DeadlineExceeded
	}
	return nil
}

// Value asks the timed context once it is there, so that package context finds its own kind and hangs children on it without a goroutine.
func (c *callContext) Value(key any) any {
	if timed := c.made(); timed != nil {
		return timed.Value(key)
	}
	return c.Context.Value(key)
}

// end releases the timer after the call.
func (c *callContext) end() {
	c.mu.Lock()
	c.over = true
	cancel := c.cancel
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}
