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

// call runs the handler once and returns its verdict. The error is errNoVerdict when ctx ended before the handler was done, else nil; that the work is
// done always counts. first is the trace context of the message's first try; that of this one is returned.
func (c *caller) call(ctx context.Context, m *stepwell.Message, first telemetry.TraceContext, t timing) (v stepwell.Verdict, trace telemetry.TraceContext, err error) {
	handling := ctx
	if c.telemetry.Tracing() {
		var end func(error)
		handling, end = c.telemetry.Process(ctx, m, first)
		trace = c.telemetry.Trace(handling)
		defer func() { end(v.Err) }()
	}
	var cc *callContext
	began, slot := instant(0), -1
	if t.lane != nil {
		began = c.calls.at(t.began)
		t.lane.enter(began)
		cc = t.lane.contexts.next()
	} else {
		began = c.calls.now()
		slot = c.calls.begin(m.Origin.Partition, began)
		cc = c.calls.context(slot)
	}
	cc.Context, cc.calls, cc.deadline = handling, c.calls, began+instant(c.timeout)
	defer func() {
		cc.end()
		c.calls.end(slot)
		if p := recover(); p != nil {
			v = stepwell.Verdict{Kind: stepwell.Retry, Err: &panicError{value: p, stack: debug.Stack()}}
		} else if v.Kind == 0 { // the goroutine ends: who owns it does the rest
			v = stepwell.Verdict{Kind: stepwell.Retry, Err: retry.ErrGoexit}
		}
		switch {
		case v.Kind != stepwell.Done && ctx.Err() != nil:
			err = errNoVerdict
		case t.lane != nil:
			t.lane.leave(v.Kind)
		default:
			c.telemetry.Handled(handling, slot, time.Duration(c.calls.now()-began), v.Kind)
		}
	}()
	// The verdict is read where a panic is caught: an error may have an Unwrap that panics.
	return stepwell.VerdictOf(c.handler(cc, m)), trace, nil
}

// panicError is a handler's panic: an ordinary failure that keeps its stack. It does not unwrap: a verdict that was
// thrown and not returned counts as a failure like any other panic.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }
