// Package envelope lays out a message that rests in a queue: the record itself, and what became of it so far.
//
// The body is the record's value, untouched; everything else is in flat AMQP headers named x-stepwell-*, so that any
// language can read it. Three things change the body, each named by a header:
//
//   - x-stepwell-layout "framed-1": the record's key and headers were too large for AMQP headers and lead the body, see framed.go;
//   - x-stepwell-encoding "gzip": the body is compressed, since the broker refused it for its size;
//   - x-stepwell-pointer true: there is no body, since it was too large even so; topic, partition and offset say where it is.
//
// What other headers say already is left out, since every header costs the broker and both clients: no replays means none; no
// attempts-total, the tries since the last replay; no first-failed, failed-at; and the history has the failures before the last.
//
// The version is "major.minor". Minor versions add headers, which older readers keep; the major version changes only for what a
// reader of the older one could not read.
package envelope

import (
	"errors"
	"time"

	"github.com/stepwell/stepwell"
)

// Errors of [Decode].
var (
	// ErrUndecodable: this is no envelope, or a broken one. The error around it names the header.
	ErrUndecodable = errors.New("not a readable envelope")
	// ErrVersion: the envelope's major version is newer than this program's. Another program of a rolling upgrade can read it.
	ErrVersion = errors.New("envelope of a newer version")
)

// Envelope is a message in a queue.
type Envelope struct {
	// Message is the record. Its Attempt is the attempt that comes next, or in the dead set the last one that was made.
	Message stepwell.Message
	// Failure is the last failure; zero when there was none since the last replay.
	Failure Failure
	// History has the last failures, oldest first, at most [MaxHistory].
	History []Try
	// AttemptsTotal counts the tries over all replays.
	AttemptsTotal int
	// DiedAt is when the message came to the dead set; zero elsewhere.
	DiedAt time.Time
	// TraceParent and TraceState are the W3C trace context of the first try.
	TraceParent, TraceState string
	// Compressed says that the body travels compressed.
	Compressed bool
	// Pointer says that the record itself is not here, only where it is: it was too large. Size is its value's length.
	Pointer bool
	Size    int64
	// Extra has headers that this version does not know. They are kept, but for values that are not flat and, largest first,
	// for what does not fit.
	Extra map[string]any
}

// Failure says how a try failed.
type Failure struct {
	// Reason is one of stepwell's Reason constants, empty for an ordinary failure that is tried again.
	Reason string
	// Error is cut to 1 KiB of clean text when it is encoded, ErrorType is the Go type of the error.
	Error, ErrorType string
	// Stack is where the handler panicked; empty otherwise.
	Stack string
	At    time.Time
}

// Try is one line of the history.
type Try struct {
	Attempt int
	At      time.Time
	Error   string
}

func (t Try) same(as Try) bool {
	return t.Attempt == as.Attempt && t.At.Equal(as.At) && clean(t.Error, maxShort) == as.Error
}

// made is the last attempt that was made.
func (e *Envelope) made() int {
	if e.DiedAt.IsZero() {
		return e.Message.Attempt - 1
	}
	return e.Message.Attempt
}

// last is the last failure as the history has it.
func (e *Envelope) last() Try {
	return Try{Attempt: e.made(), At: e.Failure.At, Error: clean(e.Failure.Error, maxShort)}
}

// Replay gives the message a full new budget.
func (e *Envelope) Replay() {
	e.Message.Attempt = 1
	e.Message.Replays++
	e.Failure = Failure{}
	e.DiedAt = time.Time{}
}

// Limits of an envelope.
const (
	// MaxHeaders is the largest size of all headers together, in bytes as AMQP encodes them. They must fit one frame of
	// 128 KiB, and grow in the broker: each queue that a message passes adds to x-death.
	MaxHeaders = 64 << 10
	// MaxHistory is how many failures the history keeps.
	MaxHistory = 10

	maxError     = 1 << 10
	maxShort     = 256
	maxStack     = 16 << 10
	maxState     = 4 << 10
	maxTopic     = 1 << 10 // Kafka allows 249
	maxName      = 255     // of a header, and of a message-id
	maxInflated  = 128 << 20
	version      = "1.0"
	majorVersion = 1
)

// names of the headers.
const (
	prefix         = "x-stepwell-"
	hVersion       = prefix + "version"
	hLayout        = prefix + "layout"
	hEncoding      = prefix + "encoding"
	hPointer       = prefix + "pointer"
	hSize          = prefix + "size"
	hStream        = prefix + "stream"
	hChannel       = prefix + "channel"
	hTopic         = prefix + "topic"
	hPartition     = prefix + "partition"
	hOffset        = prefix + "offset"
	hKey           = prefix + "key"
	hNilValue      = prefix + "nil-value"
	hTimestamp     = prefix + "timestamp"
	hHeaders       = prefix + "headers"
	hAttempt       = prefix + "attempt"
	hReplays       = prefix + "replays"
	hAttemptsTotal = prefix + "attempts-total"
	hFirstFailed   = prefix + "first-failed"
	hFailedAt      = prefix + "failed-at"
	hDiedAt        = prefix + "died-at"
	hReason        = prefix + "reason"
	hError         = prefix + "error"
	hErrorType     = prefix + "error-type"
	hStack         = prefix + "stack"
	hHistory       = prefix + "history"
	hTraceParent   = prefix + "traceparent"
	hTraceState    = prefix + "tracestate"
	hUnreadable    = prefix + "unreadable-since"

	layoutFramed = "framed-1"
	encodingGzip = "gzip"
)
