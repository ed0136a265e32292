package retry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/queue"
)

// Failure is a try that failed.
type Failure struct {
	// Err is what the handler said; it may be nil.
	Err error
	// ErrorType names its type. Empty: the Go type.
	ErrorType string
	// Reason is empty for an ordinary failure, which is tried again while tries are left. Any other sends the message to the dead
	// set now: one of stepwell's Reason constants.
	Reason string
	// Stack is where the handler panicked.
	Stack string
	// At is when the try ended. Zero: now.
	At time.Time
	// TraceParent and TraceState are the try's W3C trace context. That of the first try is kept through all retries.
	TraceParent, TraceState string
}

// Fail parks a message whose first try failed: in the delay queue of its next try, or in the dead set. It does not wait, and calls
// done once, from another goroutine: done(nil) means that m is safe there. An error means that it is not, and will not be tried
// again: ctx ended, or the broker was closed. What the broker does not take is tried again every minute, and Status says so.
//
// A message too large for the broker is compressed; if that is not enough, the dead set gets a pointer to it, with reason too_large.
func (r *Retrier) Fail(ctx context.Context, m *stepwell.Message, f Failure, done func(error)) {
	// It may wait for long, and would keep alive what was fetched with it.
	e := &envelope.Envelope{Message: *m.Clone(), Log: r.logs.of(m.Origin)}
	e.Message.Stream = r.cfg.Stream
	p, end := r.pack(e, f)
	r.trouble.parks(1)
	r.insist(ctx, p, func(err error) {
		r.trouble.parks(-1)
		end(err)
		done(err)
	})
}

// pack makes a parcel of a failure. end is to be called when it is parked, or will not be.
func (r *Retrier) pack(e *envelope.Envelope, f Failure) (p *parcel, end func(error)) {
	f.At = cmp.Or(f.At, time.Now())
	p = &parcel{envelope: e, made: max(1, e.Message.Attempt)}
	p.fail(f, r.topology)
	failpoint.Hit("publish")
	told := r.cfg.Telemetry.Publish(e.Message.ID, f.TraceParent, f.TraceState)
	return p, func(err error) {
		told(err)
		failpoint.Hit("parked")
	}
}

// post publishes the parcel, made smaller where the broker does not take it.
func (r *Retrier) post(ctx context.Context, p *parcel, done func(error)) {
	r.publisher.Publish(ctx, p.queue, p.envelope.Encode(), func(err error) {
		switch {
		case err == nil:
			r.count(p)
			done(nil)
		case errors.Is(err, queue.ErrTooLarge) && p.shrink(r.topology):
			r.post(ctx, p, done)
		default:
			done(fmt.Errorf("park message %s in %s: %w", p.envelope.Message.ID, p.queue, err))
		}
	})
}

func (r *Retrier) count(p *parcel) {
	if !p.dead() {
		r.cfg.Telemetry.Retried(p.envelope.Message.Attempt)
		return
	}
	of := p.envelope.Failure
	r.died(Death{
		ID: p.envelope.Message.ID, Reason: of.Reason, Attempts: p.made, Error: of.Error, ErrorType: of.ErrorType, Stack: of.Stack,
		TraceParent: p.traceParent, TraceState: p.traceState,
	})
}

func (r *Retrier) died(d Death) {
	r.cfg.Telemetry.Died(d.Reason)
	r.cfg.Died(d)
}

// parcel is an envelope on its way to a queue.
type parcel struct {
	envelope *envelope.Envelope
	made     int // the attempt that failed
	queue    string
	// traceParent and traceState are of that attempt.
	traceParent, traceState string
}

func (p *parcel) dead() bool { return !p.envelope.DiedAt.IsZero() }

// fail writes the failure down and decides where the message goes.
func (p *parcel) fail(f Failure, t Topology) {
	e := p.envelope
	p.traceParent, p.traceState = f.TraceParent, f.TraceState
	e.Failure = envelope.Failure{Reason: f.Reason, Stack: f.Stack, At: f.At}
	if f.Err != nil {
		e.Failure.Error = fmt.Sprint(f.Err) // survives an Error method that panics
		if e.Failure.ErrorType = f.ErrorType; f.ErrorType == "" {
			e.Failure.ErrorType = reflect.TypeOf(f.Err).String()
		}
	}
	e.AttemptsTotal++
	e.Of = 1 + len(t.budget)
	e.History = append(slices.Clip(e.History), envelope.Try{Attempt: p.made, At: f.At, Error: e.Failure.Error})
	e.Message.FirstFailed = cmp.Or(e.Message.FirstFailed, f.At)
	if e.TraceParent == "" {
		e.TraceParent, e.TraceState = f.TraceParent, f.TraceState
	}
	if name, left := t.Delay(p.made, &e.Message); left && f.Reason == "" {
		e.Message.Attempt, p.queue = p.made+1, name
		return
	}
	p.bury(cmp.Or(f.Reason, stepwell.ReasonExhausted), t)
}

func (p *parcel) bury(reason string, t Topology) {
	e := p.envelope
	e.Message.Attempt, e.Failure.Reason, e.DiedAt, p.queue = p.made, reason, e.Failure.At, t.DeadSet
}

// shrink makes less of the parcel; false when it is as small as can be.
func (p *parcel) shrink(t Topology) bool {
	e := p.envelope
	switch {
	case e.Pointer:
		return false
	case e.Compressed:
		e.Point()
		p.bury(stepwell.ReasonTooLarge, t)
	default:
		e.Compressed = true
	}
	return true
}
