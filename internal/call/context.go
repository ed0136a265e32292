package call

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// errHandlerTimeout is the cause of a handler's context that ended because HANDLER_TIMEOUT was
// over.
var errHandlerTimeout = errors.New("handler ran longer than its time-out")

// handlerContext is the context of a handler call: its parent, with a deadline. Most handlers never
// look at theirs, so the timer and the channel are made only when somebody asks for Done, and fast
// calls in a row that do not ask share one, which ends with the last of them.
type handlerContext struct {
	context.Context // the parent
	caller          *Caller
	deadline        instant
	// timed is nil until Done is asked for; the caller's over when the call was over before that.
	timed atomic.Pointer[timed]
}

// timed is a context with a timer. cancel lets go of the timer after the call.
type timed struct {
	context.Context
	cancel context.CancelFunc
}

// Deadline tells when the handler's time is up.
func (c *handlerContext) Deadline() (time.Time, bool) {
	own := c.caller.time(c.deadline)
	if d, ok := c.Context.Deadline(); ok && d.Before(own) {
		return d, true
	}
	return own, true
}

// Done makes the timer on its first call.
func (c *handlerContext) Done() <-chan struct{} {
	if t := c.timed.Load(); t != nil {
		return t.Done()
	}
	ctx, cancel := context.WithDeadlineCause(c.Context, c.caller.time(c.deadline), errHandlerTimeout)
	// The handler may ask on several goroutines at once.
	if !c.timed.CompareAndSwap(nil, &timed{ctx, cancel}) { // somebody else was first
		cancel()
	}
	return c.timed.Load().Done()
}

// Err tells why the context ended; it needs no timer.
func (c *handlerContext) Err() error {
	t := c.timed.Load()
	switch {
	// Four cases: a timer decides, if there is one; then the parent; a call that is over; and,
	// without a timer, the clock.
	case t != nil && t != c.caller.over:
		return t.Err()
	case c.Context.Err() != nil:
		return c.Context.Err()
	case t != nil:
		return t.Err()
	case c.caller.now() >= c.deadline:
		return context.DeadlineExceeded
	}
	return nil
}

// Value asks the timed context once it is there, so that package context finds its own kind and
// hangs children on it without a goroutine.
func (c *handlerContext) Value(key any) any {
	if t := c.timed.Load(); t != nil && t != c.caller.over {
		return t.Value(key)
	}
	return c.Context.Value(key)
}

// asked says that somebody may wait for the end.
func (c *handlerContext) asked() bool { return c.timed.Load() != nil }

// end releases the timer after the call.
func (c *handlerContext) end() {
	// A goroutine of the handler's that outlives the call may ask for Done at this moment: either
	// it finds over, or its timer is found here.
	if !c.timed.CompareAndSwap(nil, c.caller.over) {
		c.timed.Load().cancel()
	}
}

// contextsAtOnce is how many contexts are allocated at once: a handler that keeps one after its
// call keeps the memory of that many.
const contextsAtOnce = 32

// contexts are memory for the contexts of the next calls.
type contexts []handlerContext

func (c *contexts) next() *handlerContext {
	if len(*c) == 0 {
		*c = make([]handlerContext, contextsAtOnce)
	}
	next := &(*c)[0]
	*c = (*c)[1:]
	return next
}
