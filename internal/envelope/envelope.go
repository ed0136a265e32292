// Package envelope lays out a message that rests in a queue: the record itself, and what became of
// it so far.
//
// The body is the record's value, untouched. One header, x-stepwell, says in a line of text what is
// short: see head.go. What is foreign or of any length has a header of its own, if there is any:
//
//	sw-key         the record's key, in bytes
//	sw-headers     its headers: a list of name, value, name, value …, values in bytes or nil
//	sw-error       what the handler said, one line
//	sw-stack       where it panicked
//	sw-group       the group that the error itself says it is of
//	sw-history     the failures before the last, a line each: attempt, time, what the handler said
//	sw-runs        how and where these were made, and the types of their errors: run.go
//	sw-tracestate  the W3C trace state of the first try
//	sw-wait        how long it still waits beyond its queue, and how long in all: wait.go
//	sw-buried      of what nobody could read: reason, time, and why
//	sw-waits-since of what is of a newer version: since when it is sent around
//
// Each header costs the broker and both clients, and so each that is not there is worth more than a
// short one. What one says already is left out by the others: no replays means none; no tries,
// those since the last replay; no first, failed; and the history has the failures before the last.
//
// The version is "major" or "major.minor". Minor versions add words and headers, which older
// readers keep; the major version changes only for what a reader of the older one could not read.
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
	// ErrVersion: the envelope's major version is newer than this program's. Another program of a
	// rolling upgrade can read it.
	ErrVersion = errors.New("envelope of a newer version")
)

// Envelope is a message in a queue.
type Envelope struct {
	// Message is the record. Its Attempt is the attempt that comes next, or in the dead set the
	// last one that was made.
	Message stepwell.Message
	// Failure is the last failure; zero when there was none since the last replay.
	Failure Failure
	// History has the last failures, oldest first, at most [MaxHistory].
	History []Try
	// AttemptsTotal counts the tries over all replays. Of is how many tries the message has until
	// the next replay, as of the last failure: it is for people. 0: not known.
	AttemptsTotal, Of int
	// Log tells records apart that have the same position: another number where the log was cut,
	// the topic made anew, or the group set back. The group's commits carry it. 0: it has none, as
	// in messages of versions before.
	Log uint32
	// Token tells messages apart that have no place in a log: their ids are their producers', who
	// may use one twice. It is random, see [NewToken], and stays through retries, hand-overs, the
	// dead set and replays. Empty: the position in the log does.
	Token string
	// DiedAt is when the message came to the dead set; zero elsewhere.
	DiedAt time.Time
	// TraceParent and TraceState are the W3C trace context of the first try.
	TraceParent, TraceState string
	// Compressed says that the body travels compressed, unless that made it larger.
	Compressed bool
	// Pointer says that the record itself is not here, only where it is: it was too large. Size is
	// its value's length.
	Pointer bool
	Size    int64
	// Wait is what is left of a wait beyond the queue that the message goes to. Encode writes it,
	// Decode does not read it: see [WaitOf].
	Wait Wait
	// Extra has headers that this version does not know. They are kept, but for values that are not
	// flat and, largest first, for what does not fit.
	Extra map[string]any
	// words are those of the head that this version does not know, kept as they are.
	words []string
}

// Failure says how a try failed.
type Failure struct {
	// Reason is one of stepwell's Reason constants, empty for an ordinary failure that is tried
	// again.
	Reason string
	// Error is 1 KiB of clean text at most once it is encoded, without its middle where it was
	// longer; ErrorType is the Go type of the error.
	Error, ErrorType string
	// Stack is where the handler panicked; empty otherwise.
	Stack string
	// Group is what the error itself calls its cause, cut to 256 bytes; empty: it does not.
	Group string
	At    time.Time
	Run
}

// Try is one line of the history.
type Try struct {
	Attempt int
	At      time.Time
	Error   string
	// ErrorType is as that of a Failure.
	ErrorType string
	Run
}

// same reports whether as, which was read from a queue and so is clean and cut, is this try.
func (t Try) same(as Try) bool {
	return t.Attempt == as.Attempt && t.At.Equal(as.At) && clean(t.Error, maxShort) == as.Error
}

// made is the number of the last attempt that was made; 0: none was. A message that waits has the
// number of the attempt to come, a dead one that of its last.
func (e *Envelope) made() int {
	if e.DiedAt.IsZero() {
		return e.Message.Attempt - 1
	}
	return e.Message.Attempt
}

// last is the last failure as the history has it.
func (e *Envelope) last() Try {
	return Try{Attempt: e.made(), At: e.Failure.At, Error: clean(e.Failure.Error, maxShort), ErrorType: e.Failure.ErrorType, Run: e.Failure.Run}
}

// Replay gives the message a full new budget. History and AttemptsTotal stay: they are about all
// that was ever tried.
func (e *Envelope) Replay() {
	e.Message.Attempt = 1
	e.Message.Replays++
	e.Failure = Failure{}
	e.DiedAt = time.Time{}
	e.Wait = Wait{}
}

// HandOver makes of a message what its channel gets: the record as it came, before its first try.
// Its replays stay: what was replayed and is handed over again would look like a repeat without
// them.
func (e *Envelope) HandOver(channel string) {
	m := &e.Message
	m.ID, m.Channel = inChannel(m.ID, channel), channel
	m.Attempt, m.Snoozes, m.FirstFailed = 1, 0, time.Time{}
	e.Failure, e.History, e.AttemptsTotal, e.Of = Failure{}, nil, 0, 0
	e.DiedAt, e.Wait = time.Time{}, Wait{}
}

// Limits of an envelope.
const (
	// MaxHeaders is the largest size of all headers together, in bytes as AMQP encodes them. They
	// must fit one frame of 128 KiB, and grow in the broker: each queue that a message passes adds
	// to x-death.
	MaxHeaders = 64 << 10
	// MaxHistory is how many failures the history keeps.
	MaxHistory = 10

	// These bound single texts, in bytes. What is read is held against them as well: a head or a
	// body of somebody else's must not use up the memory.
	maxHead = 8 << 10
	// maxWords bounds the words of the head that are not known, in bytes.
	maxWords = 512
	maxError = 1 << 10
	maxShort = 256
	maxStack = 16 << 10
	maxState = 4 << 10
	// maxTopic is more than the 249 bytes that Kafka allows.
	maxTopic = 1 << 10
	// maxName is how long the name of a header, and a message-id, may be: AMQP has one byte for it.
	maxName = 255
	// maxInflated is how large a compressed body may become; Encode compresses nothing larger.
	maxInflated = 128 << 20

	// version is what is written. What is read may have any minor version.
	version      = "2"
	majorVersion = 2
)

// names of the headers.
const (
	hHead       = "x-stepwell"
	hKey        = "sw-key"
	hHeaders    = "sw-headers"
	hError      = "sw-error"
	hStack      = "sw-stack"
	hGroup      = "sw-group"
	hHistory    = "sw-history"
	hRuns       = "sw-runs"
	hTraceState = "sw-tracestate"
	hBuried     = "sw-buried"
	hWaits      = "sw-waits-since"
	hWait       = "sw-wait"
)

// Headers of a message that was moved from one queue of its dead set to another. They say nothing
// of the message itself: a replay takes them off, and what compares messages leaves them out.
const (
	// Moved names the operation that moved it, Place is a number that grows with each message that
	// was.
	Moved = "x-stepwell-moved"
	Place = "x-stepwell-place"
)

// isKnown says whether this version reads the header, or whether it is not the message's own.
func isKnown(name string) bool {
	switch name {
	case Moved, Place, hHead, hKey, hHeaders, hError, hStack, hGroup, hHistory, hRuns, hTraceState, hBuried, hWaits, hWait:
		return true
	}
	return false
}
