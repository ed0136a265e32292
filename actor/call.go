package actor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/telemetry"
	"github.com/stepwell/stepwell/retry"
)

// caller calls one stream's handler.
type caller struct {
	handler   stepwell.Handler
	timeout   time.Duration
	telemetry *telemetry.Stream
	calls     *calls
}

// errNoVerdict is the answer of a handler whose context we cancelled: whatever it returned says nothing about the message.
var errNoVerdict = errors.New("the handler was cancelled")

// answer is what came of a call that did not end with Done.
type answer struct {
	stepwell.Verdict
	trace telemetry.TraceContext // of the call
}

// call runs the handler once. No answer means Done. The error is errNoVerdict when ctx ended before the handler was done, else nil; that the work is
// done always counts. first is the trace context of the message's first try.
func (c *caller) call(ctx context.Context, m *stepwell.Message, first telemetry.TraceContext, t timing) (a *answer, err error) {
	handling := ctx
	if c.telemetry.Tracing() {
		var end func(error)
		handling, end = c.telemetry.Process(ctx, m, first)
		defer func() {
			if a == nil {
				end(nil)
				return
			}
			a.trace = c.telemetry.Trace(handling)
			end(a.Err)
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
		kind := stepwell.Done
		if p := recover(); p != nil {
			a = &answer{Verdict: stepwell.Verdict{Kind: stepwell.Retry, Err: &panicError{value: p, stack: debug.Stack()}}}
		} else if !returned { // the goroutine ends: who owns it does the rest
			a = &answer{Verdict: stepwell.Verdict{Kind: stepwell.Retry, Err: retry.ErrGoexit}}
		}
		if a != nil {
			kind = a.Kind
		}
		if t.lane == nil {
			cc.end()
			c.calls.end(slot)
		} else if a != nil || cc.asked() {
			t.lane.endContext()
		}
		switch {
		case a != nil && ctx.Err() != nil:
			err = errNoVerdict
		case t.lane != nil:
			t.lane.leave(kind)
		default:
			c.telemetry.Handled(handling, slot, time.Duration(c.calls.now()-began), kind)
		}
	}()
	if failed := c.handler(cc, m); failed != nil {
		a = &answer{Verdict: stepwell.VerdictOf(failed)} // here, where a panic is caught: an error may have an Unwrap that panics
	}
	returned = true
	return a, nil
}

// panicError is a handler's panic: an ordinary failure that keeps its stack. It does not unwrap: a verdict that was
// thrown and not returned counts as a failure like any other panic.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }
