package actor

import (
	"context"
	"errors"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/telemetry"
)

// caller calls one stream's handler.
type caller struct {
	handler   stepwell.Handler
	timeout   time.Duration
	telemetry *telemetry.Stream
	calls     *calls
	failures  *failureLog
	copies    bool // the handler may write into key, value and headers
}

// errNoVerdict is the answer of a handler whose context we cancelled: whatever it returned says nothing about the message.
var errNoVerdict = errors.New("the handler was cancelled")

// answer is what came of a call that did not end with Done.
type answer struct {
	kind    stepwell.Kind
	reason  string
	failure *failure
	trace   telemetry.TraceContext // of the call
}

// call runs the handler once. No answer means Done. The error is errNoVerdict when ctx ended before the handler was done, else nil; that the work is
// done always counts. first is the trace context of the message's first try.
func (c *caller) call(ctx context.Context, m *stepwell.Message, first telemetry.TraceContext, t timing) (a *answer, err error) {
	handling := ctx
	if c.telemetry.Tracing() {
		var end func(telemetry.Ended)
		handling, end = c.telemetry.Process(ctx, m, first)
		defer func() {
			if a != nil {
				a.trace = c.telemetry.Trace(handling)
			}
			end(a.ended())
		}()
	}
	var cc *callContext
	began, slot := instant(0), -1
	if t.lane != nil {
		began = c.calls.at(t.began)
		t.lane.enter(began)
		cc = t.lane.context(handling, c.calls, began+instant(c.timeout))
	} else {
		began = c.calls.now()
		slot = c.calls.begin(m.Origin.Partition, began)
		cc = c.calls.context(slot)
		cc.Context, cc.calls, cc.deadline = handling, c.calls, began+instant(c.timeout)
	}
	returned := false
	defer func() {
		if p := recover(); p != nil {
			a = panicked(p)
		} else if !returned { // the goroutine ends: who owns it does the rest
			a = escapedCall()
		}
		if t.lane == nil {
			cc.end()
			c.calls.end(slot)
		} else if a != nil || cc.asked() {
			t.lane.endContext()
		}
		switch {
		case a == nil && t.lane != nil:
			t.lane.leave(stepwell.Done)
		case a != nil && ctx.Err() != nil:
			err = errNoVerdict
		default:
			c.failures.tried(handling, m, a)
			c.measure(handling, t.lane, slot, began, a)
		}
	}()
	if failed := c.handler(cc, m); failed != nil {
		a = judge(failed) // here, where a panic is caught: the error's methods are the user's
	}
	returned = true
	return a, nil
}

// measure counts a call by its verdict, and a failure by the type of its error.
func (c *caller) measure(ctx context.Context, on *lane, slot int, began instant, a *answer) {
	now := c.calls.now()
	switch took := time.Duration(now - began); {
	case a == nil:
		c.telemetry.Handled(ctx, slot, took, stepwell.Done)
	case a.kind == stepwell.Skipped && on != nil:
		on.leave(a.kind)
	case a.kind == stepwell.Skipped:
		c.telemetry.Handled(ctx, slot, took, a.kind)
	case on != nil:
		on.fail(c.telemetry, now, a)
	default:
		c.telemetry.Failed(ctx, took, a.kind, a.failure.kind)
	}
}
