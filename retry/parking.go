package retry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/outcomes"
	"github.com/stepwell/stepwell/internal/queue"
)

// parking puts messages into the queues of their next waits, and into the dead set.
type parking struct {
	channel   string // empty: the stream's own handler
	by        string // this process: see Config.By
	topology  Topology
	publisher queue.Publisher
	ladder    *ladder
	telemetry Telemetry
	tell      func(Death)
	outcome   func(outcomes.Event)
}

func newParking(cfg Config, t Topology) *parking {
	return &parking{cfg.Channel, cfg.By, t, cfg.Broker.Publisher(cfg.App + "." + cfg.line()), newLadder(t, cfg.Broker, cfg.Logger), cfg.Telemetry, cfg.Died, cfg.Outcome}
}

// pack makes a parcel of a message whose try failed.
func (k *parking) pack(e *envelope.Envelope, f Failure) *parcel {
	f.At = cmp.Or(f.At, time.Now())
	p := &parcel{envelope: e, made: max(1, e.Message.Attempt)}
	p.fail(f, k.by, k.topology)
	return p
}

// putOff makes a parcel of a message that was snoozed.
func (k *parking) putOff(e *envelope.Envelope, d time.Duration) *parcel {
	p := &parcel{envelope: e, made: max(1, e.Message.Attempt)}
	p.snooze(d, k.topology)
	return p
}

// takeOver makes a parcel of a message that another handler hands over.
func (k *parking) takeOver(e *envelope.Envelope, traceParent, traceState string) *parcel {
	e.HandOver(k.channel)
	p := k.forInstant(e, traceParent, traceState)
	p.handed = true
	return p
}

// enqueue makes a parcel of a message that no handler had before.
func (k *parking) enqueue(e *envelope.Envelope, after time.Duration, traceParent, traceState string) *parcel {
	p := k.forInstant(e, traceParent, traceState)
	p.enqueued, p.wait = true, after
	return p
}

// forInstant makes a parcel of a message whose first try here is to come.
func (k *parking) forInstant(e *envelope.Envelope, traceParent, traceState string) *parcel {
	if e.TraceParent == "" {
		e.TraceParent, e.TraceState = traceParent, traceState
	}
	return &parcel{envelope: e, made: 1, queue: k.topology.Instant, traceParent: traceParent, traceState: traceState}
}

// park posts the parcel. done is called once; a nil error means that the message is safe.
func (k *parking) park(ctx context.Context, p *parcel, done func(error)) {
	k.post(ctx, p, k.watched(p, done))
}

// watched tells telemetry that the parcel is being parked. What it returns tells the outcome, and
// then calls done.
func (k *parking) watched(p *parcel, done func(error)) func(error) {
	failpoint.Hit("publish")
	told := func(error) {}
	if !p.snoozed {
		told = k.telemetry.Publish(p.envelope.Message.ID, p.traceParent, p.traceState)
	}
	return func(err error) {
		told(err)
		failpoint.Hit("parked")
		done(err)
	}
}

// post publishes the parcel, made smaller where the broker does not take it. Queues of its wait are
// declared before.
func (k *parking) post(ctx context.Context, p *parcel, done func(error)) {
	if p.wait == 0 {
		k.send(ctx, p, done)
		return
	}
	whole := envelope.Wait{Remaining: p.wait, Whole: p.wait}
	k.ladder.prepare(whole, func() {
		name, left, ok := k.ladder.step(whole, "")
		if !ok {
			done(fmt.Errorf("message %s cannot wait for %s: the stream has no delay queue, and none could be declared", p.envelope.Message.ID, p.wait))
			return
		}
		p.queue, p.envelope.Wait = name, left
		k.send(ctx, p, done)
	})
}

func (k *parking) send(ctx context.Context, p *parcel, done func(error)) {
	k.publisher.Publish(ctx, p.queue, p.envelope.Encode(), func(err error) {
		switch {
		case err == nil:
			k.count(p)
			done(nil)
		case errors.Is(err, queue.ErrTooLarge) && p.shrink(k.topology):
			k.send(ctx, p, done)
		case errors.Is(err, queue.ErrTooLarge) && !p.envelope.HasPosition():
			done(fmt.Errorf("park message %s in %s, which is in no log that could be pointed to, so that the broker must take it whole: %w", p.envelope.Message.ID, p.queue, err))
		default:
			done(fmt.Errorf("park message %s in %s: %w", p.envelope.Message.ID, p.queue, err))
		}
	})
}

// Bury puts a message into the dead set, uncalled.
func (k *parking) Bury(ctx context.Context, e *envelope.Envelope, reason, text string, done func(error)) {
	e.Failure = envelope.Failure{At: time.Now(), Error: text} // and nothing of the try before
	e.AttemptsTotal++                                         // this one: it ended the process, or could not be made
	p := &parcel{envelope: e, made: e.Message.Attempt}
	p.bury(reason, k.topology)
	k.post(ctx, p, done)
}

// BuryUnreadable puts a message that cannot be decoded into the dead set as it is.
func (k *parking) BuryUnreadable(ctx context.Context, m queue.Message, problem error, done func(error)) {
	f := envelope.Failure{Reason: stepwell.ReasonUndecodable, Error: problem.Error(), At: time.Now()}
	short := f
	short.Error = ""
	// The message fitted when it came: what says why it is buried goes first. What does not fit
	// even so has headers that are too large.
	forms := []queue.Message{
		envelope.Broken(m, f), envelope.Broken(m, short), envelope.Broken(m, envelope.Failure{}),
		envelope.Broken(queue.Message{ID: m.ID, Body: m.Body}, f),
	}
	k.publishFirst(ctx, forms, func(err error) {
		if err == nil {
			k.died(Death{ID: m.ID, Reason: f.Reason, Error: f.Error})
		}
		done(err)
	})
}

// publishFirst publishes the first of the forms of a dead message that is not too large.
func (k *parking) publishFirst(ctx context.Context, forms []queue.Message, done func(error)) {
	k.publisher.Publish(ctx, k.topology.DeadSet, forms[0], func(err error) {
		if errors.Is(err, queue.ErrTooLarge) && len(forms) > 1 {
			k.publishFirst(ctx, forms[1:], done)
			return
		}
		done(err)
	})
}

// count counts a message that is parked.
func (k *parking) count(p *parcel) {
	switch {
	case p.snoozed:
	case p.handed:
		k.telemetry.HandedOver()
	case p.enqueued:
		k.telemetry.Enqueued()
	case !p.dead():
		k.telemetry.Retried()
		k.tellOutcome(p.envelope, p.made, outcomes.Failed)
	default:
		k.tellOutcome(p.envelope, p.made, outcomes.Died)
		of := p.envelope.Failure
		k.died(Death{
			ID: p.envelope.Message.ID, Reason: of.Reason, Attempts: p.made, Error: of.Error, ErrorType: of.ErrorType, Stack: of.Stack, Group: of.Group,
			TraceParent: p.traceParent, TraceState: p.traceState,
		})
	}
}

// tellOutcome tells what became of a message, where an operation replayed it.
func (k *parking) tellOutcome(e *envelope.Envelope, attempt int, kind outcomes.Kind) {
	mark := e.Mark()
	if mark.Operation == "" {
		return
	}
	told := outcomes.Event{Operation: mark.Operation, Attempt: attempt, Kind: kind}
	if mark.Canary {
		told.Canary = e.Message.ID
	}
	k.outcome(told)
}

func (k *parking) died(d Death) {
	k.telemetry.Died(d.Reason)
	k.tell(d)
}
