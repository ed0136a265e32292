package actor

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/telemetry"
	"github.com/stepwell/stepwell/retry"
)

// failure is what an error of a handler says, as plain values. It is made where panics are caught, and is all that anybody sees of the
// error later: its methods are the user's, and may do anything.
type failure struct {
	text, kind string
	stack      string // of a panic
}

// Error is the text of what the handler returned, the errors around a verdict included.
func (f *failure) Error() string { return f.text }

// ErrorType is the Go type of the error that package fmt or a verdict may have wrapped.
func (f *failure) ErrorType() string { return f.kind }

const (
	// maxText is how much of an error's text is kept, in bytes: the dead set shows less.
	maxText = 4 << 10
	// maxType is how much of its type.
	maxType = 100
)

// judge says what an error means.
func judge(err error) *answer {
	v := stepwell.VerdictOf(err)
	return &answer{kind: v.Kind, reason: cut(v.Reason, maxText), failure: &failure{text: cut(fmt.Sprint(err), maxText), kind: cut(errorType(err), maxType)}}
}

// ended is the answer as a span shows it.
func (a *answer) ended() (e telemetry.Ended) {
	switch {
	case a == nil:
	case a.kind == stepwell.Skipped:
		e.Skipped = a.reason
	default:
		e = telemetry.Ended{Failed: true, Error: a.failure.text, ErrorType: a.failure.kind}
	}
	return e
}

// panicked is the answer of a handler that panicked: an ordinary failure that keeps its stack. A verdict that was thrown and not returned
// counts as a failure like any other panic.
func panicked(value any) *answer {
	text := cut(fmt.Sprintf("panic: %v", value), maxText)
	return &answer{kind: stepwell.Retry, failure: &failure{text: text, kind: "panic", stack: string(debug.Stack())}}
}

// escapedCall is the answer of a handler that ended its goroutine.
func escapedCall() *answer {
	return &answer{kind: stepwell.Retry, failure: &failure{text: retry.ErrGoexit.Error(), kind: errorType(retry.ErrGoexit)}}
}

// cut keeps no more of the memory than what it returns.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.Clone(s[:most])
}

// errorType is what an error calls its type, else its Go type.
func errorType(err error) string {
	for {
		if says, ok := err.(interface{ ErrorType() string }); ok {
			if of := says.ErrorType(); of != "" {
				return of
			}
		}
		of := fmt.Sprintf("%T", err)
		if !strings.HasPrefix(of, "*fmt.") && of != "*stepwell.verdictError" {
			return of
		}
		inner := errors.Unwrap(err)
		switch {
		case inner != nil:
			err = inner
		case strings.HasPrefix(of, "*fmt."):
			return of
		default:
			return "stepwell.DeadLetter" // of nothing
		}
	}
}
