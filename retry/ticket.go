package retry

import (
	"context"
	"sync/atomic"

	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

// Ticket settles a message that was handed out. Call Settle or Fail, once, from any goroutine, or return an Outcome other than Pending.
type Ticket struct{ job *job }

// Settle says that the message is done, or safe elsewhere.
func (t Ticket) Settle() { t.job.end(true) }

// Fail parks the message for its next try or in the dead set, as [Retrier.Fail] does, with all that is known of its earlier tries, and
// settles it when it is safe there. What the handler changed in its Message's fields has no effect.
func (t Ticket) Fail(f Failure) {
	j := t.job
	p, end := j.retrier.pack(j.envelope, f)
	j.retrier.post(j.work, p, func(err error) {
		end(err)
		j.parked(err)
	})
}

// Context lives as long as the message can still be settled.
func (t Ticket) Context() context.Context { return t.job.work }

// Trace is the trace context of the first try, empty where there was none.
func (t Ticket) Trace() (parent, state string) {
	return t.job.envelope.TraceParent, t.job.envelope.TraceState
}

// job is a delivery whose message is being handled.
type job struct {
	retrier  *Retrier
	stop     context.Context
	work     context.Context
	delivery queue.Delivery
	envelope *envelope.Envelope
	try      try
	ended    atomic.Bool
}

// end settles the message or gives it back.
func (j *job) end(settled bool) {
	if !j.ended.CompareAndSwap(false, true) {
		return
	}
	j.retrier.memory.end(j.try, settled)
	if settled {
		j.retrier.ack(j.delivery)
		return
	}
	j.retrier.release(j.delivery)
}

// parked is called when the message was parked, or could not be.
func (j *job) parked(err error) {
	if err != nil {
		j.retrier.later(j.stop, j.work, j.delivery, err, func() { j.end(false) })
		return
	}
	j.end(true)
}
