package deadset

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/cause"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/queue"
)

// found is a message of the dead set as it was read there, or as it is remembered: see index.go.
type found struct {
	traits
	// envelope is all that can be read of the message. It is shared by who asks within a second,
	// and never written to. Nil: the message is remembered, and its traits are all that is known.
	envelope *envelope.Envelope
	readable bool
	// deleted says how it came into a trash; nil: it is in none.
	deleted *deletion
}

// deletion is how a message came into a trash.
type deletion struct {
	by   string        // the operation
	keep time.Duration // how long it is there after that
}

// isDeletedBy says whether the operation has put it into a trash; empty: any.
func (f found) isDeletedBy(operation string) bool {
	return operation == "" || f.deleted != nil && f.deleted.by == operation
}

// traits are what groups, lists and most filters ask of a message.
type traits struct {
	// id is the message's, or one made of its bytes where it came without: a person needs a name to
	// ask for it by.
	id                       string
	reason, errorType, error string
	group                    string // fingerprint of the cause
	pattern                  string // what the errors of the group share
	died                     time.Time
	// topic, partition and offset are where its record was read.
	topic             string
	partition         int32
	offset            int64
	attempts, replays int // over all replays; how many these were
	// operation is the one that replayed it last; empty: none did.
	operation string
	keyHash   uint64 // 0: it has no key
	size      int64  // of the message as its queue has it
	place     int64  // where a move put it; 0: it was not moved
}

// find reads a message, also one that nobody can read.
func find(d queue.Delivery) found {
	e, err := envelope.Decode(d.Message)
	if err != nil {
		e = unreadable(d, err)
	}
	m, why := &e.Message, &e.Failure
	id := m.ID
	if id == "" {
		id = idOf(m.Value)
	}
	f := found{envelope: e, readable: err == nil, traits: traits{
		id: id, reason: why.Reason, errorType: why.ErrorType, error: why.Error, died: e.DiedAt,
		topic: m.Origin.Topic, partition: m.Origin.Partition, offset: m.Origin.Offset, attempts: e.AttemptsTotal, replays: m.Replays,
		operation: envelope.MarkOf(d.Headers).Operation, keyHash: hashOf(m.Key), size: int64(d.Size()), place: placeOf(&d),
	}}
	f.group, f.pattern = cause.Death{Reason: why.Reason, ErrorType: why.ErrorType, Error: why.Error, Stack: why.Stack, Named: why.Group}.Group()
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
		ID: f.id, Stream: m.Stream, Channel: m.Channel,
		Topic: m.Origin.Topic, Partition: m.Origin.Partition, Offset: m.Origin.Offset,
		Timestamp: instant(m.Time),
		Attempts:  m.Attempt, AttemptsTotal: e.AttemptsTotal, Replays: m.Replays,
		FirstFailedAt: instant(m.FirstFailed), DiedAt: instant(e.DiedAt),
		Reason: e.Failure.Reason, Error: e.Failure.Error, ErrorType: e.Failure.ErrorType, Stack: e.Failure.Stack,
		Group: f.group, Operation: text(f.operation),
	}
	if of := f.deleted; of != nil {
		at := time.UnixMicro(f.place)
		shown.DeletedBy, shown.DeletedAt, shown.ExpiresAt = text(of.by), instant(at), instant(at.Add(of.keep))
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

// isTrue says whether the filter is true of it. One that reads records is true of no message that
// is only remembered.
func (f found) isTrue(of filter.Filter) bool {
	if of.IsZero() {
		return true
	}
	about := filter.Message{Reason: f.reason, Error: f.error, ErrorType: f.errorType, DiedAt: f.died, AttemptsTotal: f.attempts, Group: f.group, ReplayedBy: f.operation}
	// A copy: the envelope is shared.
	m := stepwell.Message{Replays: f.replays, Origin: stepwell.Origin{Topic: f.topic, Partition: f.partition, Offset: f.offset}}
	if e := f.envelope; e != nil {
		m = e.Message
		about.TraceID = traceID(e.TraceParent, &m)
	}
	m.ID = f.id
	about.Message = &m
	return of.Match(&about)
}
