package deadset

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/cause"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/queue"
)

// found is a message of the dead set as it was read there.
type found struct {
	// envelope is what can be read of the message. It is shared by who asks within a second, and
	// never written to.
	envelope *envelope.Envelope
	readable bool
	size     int64  // of the message as its queue has it
	group    string // fingerprint of the cause
	pattern  string // what the errors of the group share
	// operation is the one that replayed it last; empty: none did.
	operation string
	copy      int // how many messages before it have its id and time of death
}

// find reads a message, also one that nobody can read.
func find(d queue.Delivery) found {
	e, err := envelope.Decode(d.Message)
	if err != nil {
		e = unreadable(d, err)
	}
	f := found{envelope: e, readable: err == nil, size: int64(d.Size())}
	f.operation = envelope.MarkOf(d.Headers).Operation
	f.group, f.pattern = cause.Death{
		Reason: e.Failure.Reason, ErrorType: e.Failure.ErrorType, Error: e.Failure.Error, Stack: e.Failure.Stack, Named: e.Failure.Group,
	}.Group()
	return f
}

// unreadable is an envelope for what is none: its body is the value, and the failure says why.
func unreadable(d queue.Delivery, err error) *envelope.Envelope {
	f := envelope.FailureOf(d.Message)
	e := &envelope.Envelope{Message: stepwell.Message{ID: text(d.ID), Value: d.Body}, Failure: f, DiedAt: f.At}
	// No program buried it: somebody else put it here.
	if f.Reason == "" {
		e.Failure.Reason, e.Failure.Error = stepwell.ReasonUndecodable, text(err.Error())
	}
	return e
}

// id is the message's, or one made of its bytes where it came without: a person needs a name to ask
// for it by.
func (f found) id() string { return cmp.Or(f.envelope.Message.ID, idOf(f.envelope.Message.Value)) }

func idOf(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha256-" + hex.EncodeToString(sum[:8])
}

// entry shows it, of key, value and each header at most maxShown.
func (f found) entry() Entry { return f.show(maxShown) }

// show shows it, of key, value and each header at most so many bytes.
func (f found) show(most int) Entry {
	e, m := f.envelope, &f.envelope.Message
	shown := Entry{
		ID: f.id(), Stream: m.Stream, Channel: m.Channel,
		Topic: m.Origin.Topic, Partition: m.Origin.Partition, Offset: m.Origin.Offset,
		Timestamp: instant(m.Time),
		Attempts:  m.Attempt, AttemptsTotal: e.AttemptsTotal, Replays: m.Replays,
		FirstFailedAt: instant(m.FirstFailed), DiedAt: instant(e.DiedAt),
		Reason: e.Failure.Reason, Error: e.Failure.Error, ErrorType: e.Failure.ErrorType, Stack: e.Failure.Stack,
		Group: f.group, Operation: text(f.operation),
	}
	if q := m.Origin.Queue; q != nil {
		shown.Queue, shown.Exchange, shown.RoutingKey = q.Name, q.Exchange, q.RoutingKey
	}
	if f.readable {
		shown.TraceID = traceID(e.TraceParent, m)
	}
	shown.record(m, most)
	if e.Pointer {
		shown.Size = e.Size
	}
	return shown
}

// isTrue says whether the filter is true of it.
func (f found) isTrue(of filter.Filter) bool {
	if of.IsZero() {
		return true
	}
	e := f.envelope
	m := e.Message
	// A copy: the envelope is shared.
	m.ID = f.id()
	return of.Match(&filter.Message{
		Message: &m, Reason: e.Failure.Reason, Error: e.Failure.Error, ErrorType: e.Failure.ErrorType,
		TraceID: traceID(e.TraceParent, &m), DiedAt: e.DiedAt, AttemptsTotal: e.AttemptsTotal, Group: f.group,
	})
}
