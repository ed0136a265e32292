package stepwell

import (
	"errors"
	"fmt"
)

// Kind is what becomes of a message after its handler returned.
type Kind int

// The kinds of verdict.
const (
	// Done: the handler returned nil.
	Done Kind = iota + 1
	// Retry: try again after the policy's next delay; when none is left, the dead set.
	Retry
	// Dead: no more tries, to the dead set now.
	Dead
	// Skipped: dropped on purpose and counted apart.
	Skipped
)

// String returns the kind as metrics and logs show it.
func (k Kind) String() string {
	switch k {
	case Done:
		return "done"
	case Retry:
		return "retry"
	case Dead:
		return "dead"
	case Skipped:
		return "skipped"
	}
	return fmt.Sprintf("kind(%d)", int(k))
}

// Reasons why a message rests in the dead set.
const (
	ReasonExhausted   = "exhausted"   // all tries used
	ReasonDeadLetter  = "dead_letter" // the handler said so
	ReasonDecode      = "decode"      // the value could not be decoded
	ReasonUndecodable = "undecodable" // the envelope could not be read
	ReasonTooLarge    = "too_large"   // larger than RabbitMQ takes
	ReasonGone        = "gone"        // it was larger than RabbitMQ takes, and Kafka no longer has it
	ReasonCrashLoop   = "crash_loop"  // the process died each time it ran alone; its handler was not called again
)

// Verdict is what an error of a handler means.
type Verdict struct {
	Kind Kind
	// Reason says why, for Dead (one of the Reason constants) and Skipped (the handler's own words).
	Reason string
	// Err is what the handler returned inside the verdict; it may be nil.
	Err error
}

type verdictError struct{ Verdict }

// Error says the verdict and the error inside.
func (e *verdictError) Error() string {
	switch {
	case e.Kind == Skipped:
		return "skipped: " + e.Reason
	case e.Err == nil:
		return "dead letter"
	}
	return e.Err.Error()
}

// Unwrap returns the error inside.
func (e *verdictError) Unwrap() error { return e.Err }

// DeadLetter says that no further try can help: the message goes to the dead set now, with err, which may be nil.
func DeadLetter(err error) error {
	return &verdictError{Verdict{Kind: Dead, Reason: ReasonDeadLetter, Err: err}}
}

// Skip says that the message is to be dropped on purpose. It is counted apart, with no trace in any queue.
func Skip(reason string) error {
	return &verdictError{Verdict{Kind: Skipped, Reason: reason}}
}

// VerdictOf tells what err means; middleware may ask it. The outermost verdict of a chain wins, nil is [Done], any other error is [Retry].
func VerdictOf(err error) Verdict {
	if err == nil {
		return Verdict{Kind: Done}
	}
	if v, ok := errors.AsType[*verdictError](err); ok {
		return Verdict{Kind: v.Kind, Reason: v.Reason, Err: v.Err}
	}
	return Verdict{Kind: Retry, Err: err}
}
