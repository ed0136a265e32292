package actor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/telemetry"
)

// caller calls one stream's handler.
type caller struct {
	handler   stepwell.Handler
	timeout   time.Duration
	telemetry *telemetry.Stream
}

// errNoVerdict is the answer of a handler whose context we cancelled: whatever it returned says nothing about the message.
var errNoVerdict = errors.New("the handler was cancelled")

// call runs the handler once. It returns errNoVerdict when ctx ended before the handler was done; a nil error always counts,
// since the work is done.
func (c *caller) call(ctx context.Context, m *stepwell.Message) (err error) {
	began := time.Now()
	cc := &callContext{Context: ctx, deadline: began.Add(c.timeout)}
	defer func() {
		cc.end()
		if p := recover(); p != nil {
			err = &panicError{value: p, stack: debug.Stack()}
		}
		if err != nil && ctx.Err() != nil {
			err = errNoVerdict
			return
		}
		c.telemetry.Handled(ctx, time.Since(began), stepwell.VerdictOf(err).Kind)
	}()
	return c.handler(cc, m)
}

// panicError is a handler's panic: an ordinary failure that keeps its stack. It does not unwrap: a verdict that was
// thrown and not returned counts as a failure like any other panic.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }
