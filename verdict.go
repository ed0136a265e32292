package stepwell

import (
	"fmt"
	"strconv"
	"time"
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
	// Snoozed: not now. Tried again later, and no try was used.
	Snoozed
	// HandedOver: done here, once the message is stored for a channel of its stream.
	HandedOver

	// Kinds is one more than the last kind: a [Kinds]T has a place for each.
	Kinds = iota + 1
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
	case Snoozed:
		return "snoozed"
	case HandedOver:
		return "handed_over"
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
	ReasonCrashLoop   = "crash_loop"  // the process died each time it ran; its handler was not called again
)

// Verdict is what an error of a handler means.
type Verdict struct {
	Kind Kind
	// Reason says why, for Dead (one of the Reason constants) and Skipped (the handler's own
	// words).
	Reason string
	// After is how long to wait, for Snoozed, and for Retry where the handler says so by
	// [RetryAfter]; 0: as the policy says.
	After time.Duration
	// Channel is to which one, for HandedOver.
	Channel string
	// Err is what the handler returned, whole: with what was said around a verdict and beside it.
	// Nil for Done alone.
	Err error
}

type verdictError struct{ Verdict }

// Error says the verdict and the error inside.
func (e *verdictError) Error() string {
	switch {
	case e.Kind == Skipped:
		return "skipped: " + e.Reason
	case e.Kind == Snoozed:
		return "snoozed for " + e.After.String()
	case e.Kind == HandedOver:
		return "handed over to channel " + strconv.Quote(e.Channel)
	case e.Err == nil && e.Kind == Retry && e.After == 0:
		return "retry"
	case e.Err == nil && e.Kind == Retry:
		return "retry after " + e.After.String()
	case e.Err == nil:
		return "dead letter"
	}
	return e.Err.Error()
}

// Unwrap returns the error inside.
func (e *verdictError) Unwrap() error { return e.Err }

// DeadLetter says that no further try can help: the message goes to the dead set now. err, which
// may be nil, says why; errors around and beside it are told there, too.
func DeadLetter(err error) error {
	return &verdictError{Verdict{Kind: Dead, Reason: ReasonDeadLetter, Err: err}}
}

// Skip says that the message is to be dropped on purpose. It is counted apart, with no trace in any
// queue; the reason is shown by the log at level debug and by the span of the call. Beside an error
// that is no Skip it drops nothing: see [VerdictOf].
func Skip(reason string) error {
	return &verdictError{Verdict{Kind: Skipped, Reason: reason}}
}

const (
	// LongestWait is the longest wait of [RetryAfter] and [Snooze]: 30 days.
	LongestWait = 30 * 24 * time.Hour
	// ShortestSnooze is the shortest one of [Snooze].
	ShortestSnooze = time.Second
)

// RetryAfter says that the try failed, with err, which may be nil, and that the next one makes
// sense only after d, as an answer 429 with Retry-After does. It is a try like others and counts as
// one; d, of at most [LongestWait], takes the place of the policy's wait. The next try is never
// earlier, and later by at most a second or a tenth of d, whichever is longer, but for what waits
// in a queue before it, and for the first waits after a queue is made: 2 s more in each process.
// Where d is not above 0 the policy's wait holds. Where no try is left the message goes to the dead
// set.
func RetryAfter(err error, d time.Duration) error {
	return &verdictError{Verdict{Kind: Retry, After: max(0, min(d, LongestWait)), Err: err}}
}

// Snooze says that it is too early for the message: it comes again after d, which is at least
// [ShortestSnooze] and at most [LongestWait], as for [RetryAfter]. That is no try and no failure;
// [Message].Snoozes counts it, and nothing bounds how often a message may be put off.
func Snooze(d time.Duration) error {
	return &verdictError{Verdict{Kind: Snoozed, After: max(ShortestSnooze, min(d, LongestWait))}}
}

// To hands the message over to a channel of its stream: a handler with workers, a retry policy and
// a dead set of its own. The message is done for the stream's handler once RabbitMQ has confirmed
// it for the channel, where it arrives as it came, with its first attempt, no failure, and "@" and
// the channel's name behind its ID. It may come twice, as after a crash between the two. It waits
// for no other message there, and none for it: whoever hands over gives up order.
//
// A channel that the stream does not have is a failure that names it, and so is To from the handler
// of a channel: from there only the dead set is left.
func To(channel string) error {
	return &verdictError{Verdict{Kind: HandedOver, Channel: channel}}
}

// VerdictOf tells what err means; middleware may ask it. Nil is [Done], an error without a verdict
// is [Retry]. Along a chain (Unwrap() error) the outermost verdict wins. Where errors are joined
// (Unwrap() []error), each branch has its own, and Dead comes before Retry before Snoozed before
// HandedOver before Skipped: a message is dropped only where every branch says Skip, and a failure
// beside one is a failure. Of waits the longest counts, of channels the first.
func VerdictOf(err error) Verdict {
	if err == nil {
		return Verdict{Kind: Done}
	}
	left := maxErrors
	v := Verdict{Kind: Retry}
	if found := outermost(err, &left); found != nil {
		v = *found
	}
	v.Err = err
	return v
}

// maxErrors is how many errors of a tree are looked at: one that holds itself has no end. What is
// left then is a Retry.
const maxErrors = 1 << 16

// outermost finds the verdict of a tree of errors; nil: it has none, or a failure beside it comes
// first.
func outermost(err error, left *int) *Verdict {
	for ; *left > 0; *left-- {
		if v := verdictIn(err); v != nil {
			return v
		}
		switch wrapper := err.(type) { //nolint:errorlint // this is what walks the tree
		case interface{ Unwrap() []error }:
			return worst(wrapper.Unwrap(), left)
		case interface{ Unwrap() error }:
			if err = wrapper.Unwrap(); err == nil {
				return nil
			}
		default:
			return nil
		}
	}
	return nil
}

// verdictIn is the verdict that err is, or says it is, not one that it wraps.
func verdictIn(err error) *Verdict {
	v, ok := err.(*verdictError) //nolint:errorlint // see outermost
	if as, is := err.(interface{ As(any) bool }); !ok && is {
		ok = as.As(&v)
	}
	if !ok || v == nil {
		return nil
	}
	return &v.Verdict
}

// worst is the verdict of errors that were joined: the first Dead of its branches, else a Retry
// with the longest wait, which is none where nobody said one and one branch has no verdict, else
// the longest Snoozed, else the first HandedOver, else Skipped.
func worst(branches []error, left *int) (of *Verdict) {
	failed := false
	for _, branch := range branches {
		if branch == nil {
			continue
		}
		*left--
		switch v := outermost(branch, left); {
		case v == nil:
			failed = true
		case v.Kind == Dead:
			return v
		case of == nil, rank(v.Kind) > rank(of.Kind), v.Kind == of.Kind && v.After > of.After:
			of = v
		}
	}
	if failed && (of == nil || of.Kind != Retry) {
		return nil
	}
	return of
}

// rank orders kinds of verdicts: the higher one counts.
func rank(k Kind) int {
	switch k { // without a default: lint finds the kind that nobody thought of here
	case Dead:
		return 4
	case Retry:
		return 3
	case Snoozed:
		return 2
	case HandedOver:
		return 1
	case Done, Skipped: // nobody says Done by an error
	}
	return 0
}
