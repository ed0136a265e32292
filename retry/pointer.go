package retry

import (
	"context"
	"time"

	"github.com/stepwell/stepwell"
)

// Source has the records themselves, where they came from.
type Source interface {
	// Record reads the record at a position: key, value, headers and time. found is false, without an error, where it is no more. An error
	// means that it cannot be read now.
	Record(ctx context.Context, at stepwell.Origin) (m stepwell.Message, found bool, err error)
}

// fetchTime bounds the reading of one record.
const fetchTime = 30 * time.Second

// fetch gets the record that a pointer points to and reports whether the message can be handled. Otherwise its way is decided: one that is gone goes
// back to the dead set, one that cannot be read now stays in its queue.
func (r *Retrier) fetch(stop context.Context, j *job) bool {
	if r.cfg.Source == nil {
		r.bury(j, stepwell.ReasonTooLarge, "the record was too large to be parked, and nothing here reads it from Kafka")
		return false
	}
	ctx, cancel := context.WithTimeout(stop, fetchTime)
	defer cancel()
	record, found, err := r.cfg.Source.Record(ctx, j.envelope.Message.Origin)
	switch {
	case err != nil:
		r.rest(stop, j, err)
		return false
	case !found:
		r.bury(j, stepwell.ReasonGone, "the record was too large to be parked, and Kafka no longer has it")
		return false
	case !j.envelope.Restore(&record):
		r.bury(j, stepwell.ReasonGone, "the record was too large to be parked, and Kafka has another one at its offset now")
		return false
	}
	return true
}

// bury puts a pointer back into the dead set, uncalled.
func (r *Retrier) bury(j *job, reason, text string) {
	e := j.envelope
	e.Failure.At, e.Failure.Error = time.Now(), text
	p := &parcel{envelope: e, made: e.Message.Attempt}
	p.bury(reason, r.topology)
	r.post(j.work, p, j.parked)
}

// rest gives the message back after a pause, or at once at a stop: Kafka that is away for long must not make a busy loop.
func (r *Retrier) rest(stop context.Context, j *job, err error) {
	if stop.Err() == nil {
		r.cfg.Logger.Error("the record of a pointer cannot be read from Kafka, and its message stays where it is",
			"queue", j.delivery.Queue, "id", j.delivery.ID, "error", err)
	}
	resting(stop, func() { j.end(false) })
}
