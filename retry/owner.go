package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

// Source has the records themselves, where they came from.
type Source interface {
	// Record reads the record at a position: key, value, headers and time. found is false, without
	// an error, where it is no more. An error means that it cannot be read now.
	Record(ctx context.Context, at stepwell.Origin) (m stepwell.Message, found bool, err error)
}

// fetchTime bounds the reading of one record.
const fetchTime = 30 * time.Second

// owner is the [inbox.Owner] of a stream's instant queue: what is in it are failed messages, and
// those that were replayed.
type owner struct {
	*parking
	stream  string
	channel string
	former  *former
	source  Source
	reads   pointers
}

// divert sends what has more of its wait left on to the next delay queue. The message is as it
// came, but for the header that says how much.
func (o *owner) divert(ctx context.Context, d queue.Delivery) (to string, m queue.Message, hops bool) {
	w, waits := envelope.WaitOf(d.Message)
	if !waits {
		return "", queue.Message{}, false
	}
	o.awaitRungs(ctx, w)
	to, left, hops := o.ladder.step(w, d.From)
	if hops {
		m = left.On(d.Message)
	}
	return to, m, hops
}

// declareTime is for how long deliveries wait for the queues that a hop needs.
const declareTime = 5 * time.Second

// awaitRungs has the queues that a hop needs be known here: another process may have declared them,
// when it parked the message. Where that takes too long the hop goes through those that are known.
func (o *owner) awaitRungs(ctx context.Context, w envelope.Wait) {
	ctx, cancel := context.WithTimeout(ctx, declareTime)
	defer cancel()
	_ = o.ladder.await(ctx, w)
}

// Decode reads an envelope.
func (o *owner) Decode(d queue.Delivery) (*envelope.Envelope, error) {
	o.former.note(d.From)
	e, err := envelope.Decode(d.Message)
	if err != nil {
		return nil, err
	}
	if !e.DiedAt.IsZero() {
		// Somebody moved it here from the dead set. As it is it would be a repeat of the try that
		// it died of, and acked without a call.
		e.Replay()
	}
	e.Message.Stream, e.Message.Channel = o.stream, o.channel
	return e, nil
}

// fetch reads a record, unless others wait for Kafka in vain.
func (o *owner) fetch(ctx context.Context, at stepwell.Origin) (m stepwell.Message, found bool, err error) {
	if err := o.reads.begin(); err != nil {
		return m, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	m, found, err = o.source.Record(ctx, at)
	o.reads.end(err)
	return m, found, err
}

// Complete gets the record that a pointer points to. One that is gone goes back to the dead set,
// one that cannot be read now stays in its queue, and goes to its end.
func (o *owner) Complete(ctx context.Context, e *envelope.Envelope) (reason string, err error) {
	switch {
	case !e.Pointer:
		return "", nil
	case o.source == nil:
		return stepwell.ReasonTooLarge, errors.New("the record was too large to be parked, and nothing here reads it from Kafka")
	}
	record, found, err := o.fetch(ctx, e.Message.Origin)
	switch {
	case err != nil:
		return "", fmt.Errorf("read the record of a pointer from Kafka: %w", err)
	case !found:
		return stepwell.ReasonGone, errors.New("the record was too large to be parked, and Kafka no longer has it")
	case !e.Restore(&record):
		return stepwell.ReasonGone, errors.New("the record was too large to be parked, and Kafka has another one at its offset now")
	}
	return "", nil
}
