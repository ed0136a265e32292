package call

import (
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/errtext"
	"github.com/stepwell/stepwell/internal/telemetry"
)

// Answer is what came of a call that did not end with Done.
type Answer struct {
	Kind stepwell.Kind
	// Reason is that of a verdict that has one.
	Reason string
	// After is the wait that the handler asked for; 0: none.
	After time.Duration
	// Channel is that of a hand-over.
	Channel string
	Failure *Failure
	// Deserted: the handler ended its goroutine. Nothing is done with the message here.
	Deserted bool
	// Err is what the handler returned, for the user's own functions alone; nil where it panicked.
	Err error
	// Trace is that of the call.
	Trace telemetry.TraceContext
	// Took is how long it took, where it failed; of fast calls in a row, on average.
	Took time.Duration
}

// Failed says that the call was a try that failed.
func (a *Answer) Failed() bool { return a.Kind == stepwell.Retry || a.Kind == stepwell.Dead }

// Finished says that nothing more is to be done with the message: it is done, or skipped.
func (a *Answer) Finished() bool {
	if a == nil {
		return true
	}
	switch a.Kind { // without a default: lint finds the kind that nobody thought of here
	case stepwell.Done, stepwell.Skipped:
		return true
	case stepwell.Retry, stepwell.Dead, stepwell.Snoozed, stepwell.HandedOver:
	}
	return false
}

// Failure is what an error of a handler says, as plain values. It is made where panics are caught,
// and is all that anybody sees of the error later: its methods are the user's, and may do anything.
type Failure struct {
	// Text is what the error that was returned says, with all that is wrapped around a verdict; of
	// a long one the middle is left out.
	Text string
	// Type is the Go type of that error, or of the one that package fmt or a verdict has wrapped.
	Type string
	// Stack is that of a panic.
	Stack string
	// Group is what DeadGroup of the error, or of one that it wraps, returns: the name of the cause
	// by which dead messages are grouped. Empty: no such method.
	Group string
}

// Error is the text.
func (f *Failure) Error() string { return f.Text }

// ErrorType is the type.
func (f *Failure) ErrorType() string { return f.Type }

const (
	// maxText is how much of an error's text is kept, in bytes: the dead set shows less.
	maxText = 4 << 10
	// maxType is how much of its type.
	maxType = 100
	// maxGroup is how much of the name of a cause.
	maxGroup = 256
)

var errNoChannels = errors.New("there are no channels here")

// misdirected is a hand-over that leads nowhere, and why: a failure like others.
type misdirected struct{ handed, lost error }

// Error says both.
func (e *misdirected) Error() string { return fmt.Sprintf("not %v: %v", e.handed, e.lost) }

// ErrorType is what metrics and the dead set call it.
func (*misdirected) ErrorType() string { return "stepwell.To" }

// Unwrap returns what is no verdict first.
func (e *misdirected) Unwrap() []error { return []error{e.lost, e.handed} }

// judge says what an error means.
func (c *Caller) judge(err error) *Answer {
	v := stepwell.VerdictOf(err)
	if v.Kind == stepwell.HandedOver {
		// Judged anew as a failure: to drop the message, or to hand it to a queue that is not
		// there, would lose it.
		if lost := c.Direct(v.Channel); lost != nil {
			return c.judge(&misdirected{err, lost})
		}
	}
	return &Answer{
		Kind: v.Kind, Reason: cut(v.Reason, maxText), After: v.After, Channel: v.Channel, Err: err,
		Failure: &Failure{
			Text: abridged(errtext.Of(err)), Type: cut(errorType(err), maxType), Stack: stackOf(err), Group: cut(groupOf(err), maxGroup),
		},
	}
}

// stackOf is that of a panic which package stepwell made one message's failure; empty: it is none.
func stackOf(err error) string {
	if says, ok := err.(interface{ PanicStack() string }); ok {
		return says.PanicStack()
	}
	return ""
}

// maxErrors is how many errors of a tree are looked at, as for a verdict: one that holds itself has
// no end.
const maxErrors = 1 << 16

// groupOf is what an error calls its cause, or the first that it wraps which does; empty: none.
func groupOf(err error) string {
	left := maxErrors
	of, _ := groupIn(err, &left)
	return of
}

func groupIn(err error, left *int) (group string, found bool) {
	for ; err != nil && *left > 0; *left-- {
		says, ok := err.(interface{ DeadGroup() string })
		if as, is := err.(interface{ As(any) bool }); !ok && is {
			ok = as.As(&says)
		}
		if ok && says != nil {
			return says.DeadGroup(), true
		}
		switch wrapper := err.(type) { //nolint:errorlint // this is what walks the tree
		case interface{ Unwrap() error }:
			err = wrapper.Unwrap()
		case interface{ Unwrap() []error }:
			*left--
			for _, branch := range wrapper.Unwrap() {
				if group, found = groupIn(branch, left); found {
					return group, true
				}
			}
			return "", false
		default:
			return "", false
		}
	}
	return "", false
}

// ended is the answer as a span shows it.
func (a *Answer) ended() (e telemetry.Ended) {
	if a == nil {
		return e
	}
	switch a.Kind { // without a default: lint finds the kind that nobody thought of here
	case stepwell.Done, stepwell.Snoozed, stepwell.HandedOver:
	case stepwell.Skipped:
		e.Skipped = a.Reason
	case stepwell.Retry, stepwell.Dead:
		e = telemetry.Ended{Failed: true, Error: a.Failure.Text, ErrorType: a.Failure.Type}
	}
	return e
}

// ErrGoexit is the failure of a function that ended its goroutine, as the Fatal of a test does.
var ErrGoexit = errors.New("the function called runtime.Goexit")

// thrown is the answer of a handler that did not return. One that panicked failed like others, and
// its stack is kept; a verdict that was thrown and not returned counts as any other panic. Where
// there is no panic the handler ended its goroutine, and with it the actor: see the error of Run.
func thrown(value any) *Answer {
	if value == nil {
		return &Answer{Kind: stepwell.Retry, Deserted: true, Failure: &Failure{Text: ErrGoexit.Error(), Type: errorType(ErrGoexit)}}
	}
	text := abridged("panic: " + TextOf(value))
	return &Answer{Kind: stepwell.Retry, Failure: &Failure{Text: text, Type: "panic", Stack: string(debug.Stack())}}
}

// TextOf is what a function of the user's panicked with. Package fmt passes a panic of its Error
// method on where printing what that threw panics as well, and here nobody would catch it.
func TextOf(value any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("a %T that cannot be printed", value)
		}
	}()
	return fmt.Sprint(value)
}

// cut keeps no more of the memory than what it returns.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.Clone(s[:most])
}

// abridged is cut for the text of an error: of a long one three quarters are its beginning, and the
// rest its end, since what others wrap comes last.
func abridged(s string) string {
	const mark = " … "
	if len(s) <= maxText {
		return s
	}
	head := maxText * 3 / 4
	return s[:head] + mark + s[len(s)-(maxText-head-len(mark)):]
}

// errorType is what an error calls its type, else its Go type.
func errorType(err error) string {
	for {
		if says, ok := err.(interface{ ErrorType() string }); ok {
			if of := says.ErrorType(); of != "" {
				return of
			}
		}
		of := reflect.TypeOf(err).String()
		if !strings.HasPrefix(of, "*fmt.") && of != "*stepwell.verdictError" {
			return of
		}
		inner := errors.Unwrap(err)
		switch {
		case inner != nil:
			err = inner
		case strings.HasPrefix(of, "*fmt."):
			return of
		case stepwell.VerdictOf(err).Kind == stepwell.Retry:
			return "stepwell.RetryAfter" // of nothing
		default:
			return "stepwell.DeadLetter" // likewise
		}
	}
}
