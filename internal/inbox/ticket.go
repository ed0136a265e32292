package inbox

import (
	"context"
	"sync/atomic"

	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/task"
)

// Ticket settles a message that was handed out. Call Settle or Park, once, from any goroutine, and
// return [task.Pending]; or return another Outcome.
type Ticket struct {
	task.Ticket
	job *job
}

// Came is the message as it came, to be read as long as it was not parked.
func (t Ticket) Came() *envelope.Envelope { return t.job.envelope }

// Park settles the message when it is safe in another queue. park is given the message as it came,
// with all that is known of its earlier tries, to change and to publish: what the handler changed
// in its own Message has no effect. It calls done once. An error means that the message is not
// known to be safe: it rests where it is, and is handed out again.
func (t Ticket) Park(park func(ctx context.Context, e *envelope.Envelope, done func(error))) {
	park(t.Context(), t.job.envelope, t.job.parked)
}

// job is a delivery whose message is being handled. It is the [task.Origin] of its ticket.
type job struct {
	delivery delivery
	envelope *envelope.Envelope // the message as it came; the handler has a copy
	try      try                // begun in the memory, until end
	alone    bool               // the message is a suspect
	ended    atomic.Bool        // the delivery is acked or released
}

// Settle says that the message is done, or safe elsewhere.
func (j *job) Settle(int64) { j.end(true) }

// Context lives as long as the message can still be settled.
func (j *job) Context() context.Context { return j.delivery.run.work }

// Trace is the trace context of the first try, empty where there was none.
func (j *job) Trace() (parent, state string) { return j.envelope.TraceParent, j.envelope.TraceState }

// Alone says that the message is a suspect.
func (j *job) Alone(int64) bool { return j.alone }

// end acks the message or gives it back; only the first call does.
func (j *job) end(settled bool) {
	if !j.ended.CompareAndSwap(false, true) {
		return
	}
	// The memory before the ack: a connection may break in between, and the message that then comes
	// again has to be found as settled.
	j.delivery.run.memory.end(j.try, settled)
	if settled {
		j.delivery.ack()
		return
	}
	j.delivery.release()
}

// deserted is for a message whose handler ended its goroutine, and with it this process. It becomes
// a suspect with that death, which is certain though the process is seen while it drains, so that
// one which does this each time is found: where its session is over by then, by the returns that
// the broker counts. Where deaths are not counted it goes back.
func (j *job) deserted() {
	s := j.delivery.run.suspects
	if s.cfg.Limit == 0 {
		j.end(false)
		return
	}
	if j.ended.CompareAndSwap(false, true) {
		s.in.memory.end(j.try, false)
		known := suspicionOf(j.delivery.Delivery).by(s.name + certain)
		j.delivery.move(s.in.cfg.Queue, known.bereaved(s.cfg.Limit+1).with(j.delivery.Message), nil)
	}
}

// parked is called when the message is safe in another queue, or could not be put there.
func (j *job) parked(err error) {
	if err != nil {
		j.delivery.rest(j.envelope.Message.ID, err, func() { j.end(false) })
		return
	}
	j.end(true)
}

// incomplete sends the message to the end of its queue after a minute: what it points to cannot be
// read now. It is not given back, since the broker would hand it out before all others, and count a
// return, as of a message that kills the process. At a stop it is, at once.
func (j *job) incomplete(err error) {
	r, d := j.delivery.run, j.delivery
	if r.stop.Err() != nil {
		j.end(false)
		return
	}
	r.cfg.Trouble.restUnread(r.stop, err, func() {
		r.cfg.Logger.Error("what a message points to cannot be read now, and it goes to the end of its queue in a minute", "queue", d.Queue, "id", d.ID, "error", err)
	}, func() {
		if j.alone || r.stop.Err() != nil || d.isOver() || !j.ended.CompareAndSwap(false, true) {
			j.end(false)
			return
		}
		r.memory.end(j.try, false)
		d.move(r.cfg.Queue, d.Message, nil)
	})
}
