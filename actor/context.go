package actor

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// errHandlerTimeout is the cause of a handler's context that ended because HANDLER_TIMEOUT was over.
var errHandlerTimeout = errors.New("handler ran longer than HANDLER_TIMEOUT")

// callContext is the context of a handler call: its parent, with a deadline. Most handlers never look at theirs, so the timer and the channel
// are made only when somebody asks for Done, and fast calls in a row that do not ask share one, which ends with the last of them.
type callContext struct {
	context.Context // the parent
	calls           *calls
	deadline        instant
	timed           atomic.Pointer[timed] // nil until Done is asked for; calls.over when the call was over before that
}

// timed is a context with a timer.
type timed struct {
	context.Context
	cancel context.CancelFunc
}

// Deadline tells when the handler's time is up.
func (c *callContext) Deadline() (time.Time, bool) {
	own := c.calls.time(c.deadline)
	if d, ok := c.Context.Deadline(); ok && d.Before(own) {
		return d, true
	}
	return own, true
}

// Done makes the timer on its first call.
func (c *callContext) Done() <-chan struct{} {
	if t := c.timed.Load(); t != nil {
		return t.Done()
	}
	ctx, cancel := context.WithDeadlineCause(c.Context, c.calls.time(c.deadline), errHandlerTimeout)
	if !c.timed.CompareAndSwap(nil, &timed{ctx, cancel}) { // somebody else was first
		cancel()
	}
	return c.timed.Load().Done()
}

// Err tells why the context ended; it needs no timer.
func (c *callContext) Err() error {
	t := c.timed.Load()
	switch {
	case t != nil && t != c.calls.over:
		return t.Err()
	case c.Context.Err() != nil:
		return c.Context.Err()
	case t != nil:
		return t.Err()
	case c.calls.now() >= c.deadline:
		return context.DeadlineExceeded
	}
	return nil
}

// Value asks the timed context once it is there, so that package context finds its own kind and hangs children on it without a goroutine.
func (c *callContext) Value(key any) any {
	if t := c.timed.Load(); t != nil && t != c.calls.over {
		return t.Value(key)
	}
	return c.Context.Value(key)
}

// asked says that somebody may wait for the end.
func (c *callContext) asked() bool { return c.timed.Load() != nil }

// end releases the timer after the call.
func (c *callContext) end() {
	if !c.timed.CompareAndSwap(nil, c.calls.over) {
		c.timed.Load().cancel()
	}
}
