package actor

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/call"
	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/internal/telemetry"
	"github.com/stepwell/stepwell/retry"
)

// dispatch decides what becomes of a stream's messages once the handler returned: the one switch on
// verdicts. Its fields do not change once the line is made; many goroutines call it.
type dispatch struct {
	calls     *call.Caller
	telemetry *telemetry.Stream
	failures  *failureLog
	copies    bool // the handler may write into key, value and headers
	// retrier takes failures, after the tries in place. Nil: the stream has no queues, and hold is
	// for it.
	retrier *retry.Retrier
	// channels are those to which messages may be handed over, by name.
	channels map[string]*retry.Retrier
	inPlace  inPlace
	hold     hold
	fallback *fallback // nil: there is none
}

// fromLog is the handle of a source whose messages were in no queue yet.
func (d *dispatch) fromLog(ctx context.Context, m *stepwell.Message, t task.Ticket) task.Outcome {
	o, f := d.run(ctx, m, t)
	if f == nil {
		return o
	}
	return d.tryInPlace(ctx, f, t)
}

// tryInPlace is for a message of the source that failed or was put off: it is tried again in place
// as long as its waits are spent there, and then parked.
func (d *dispatch) tryInPlace(ctx context.Context, f *failed, t task.Ticket) task.Outcome {
	past, spent := &retry.Past{}, time.Duration(0)
	for {
		what, wait := d.inPlace.after(f, spent, rand.Float64())
		if what != rests {
			if safe := d.park(f, past, what, t); safe != nil {
				// Where this ends early, so does the partition: nothing more of it is called.
				t.RestUntil(ctx, safe, &stepwell.Message{Origin: f.message.Origin})
			}
			return task.Pending
		}
		spent += wait
		kept := f.again(past)
		if f.snooze() == 0 {
			d.telemetry.RetriedInPlace()
		}
		t = t.After(f.answer.Trace.Parent, f.answer.Trace.State) // before the rest: f holds what was fetched with the message
		failpoint.Hit("rests")
		if !t.Rest(ctx, wait, kept) {
			return task.Abandoned
		}
		failpoint.Hit("rested")
		var o task.Outcome
		if o, f = d.run(ctx, kept, t); f == nil {
			return o
		}
	}
}

// park publishes the message to a delay queue, the dead set or a channel's queue. Where order is
// kept the message is to hold its key until safe is closed, once it is there: if a later message of
// the key were called before that, and the process died then, this one would be called once more,
// after the later one. Nil: it holds nothing.
func (d *dispatch) park(f *failed, past *retry.Past, what next, t task.Ticket) (safe <-chan struct{}) {
	if what == tooLong {
		d.telemetry.OrderGivenUp()
		d.failures.orderGivenUp(f)
	}
	if !d.inPlace.order || what != dies && what != isHanded {
		d.hand(t.Context(), f, past, settles(t))
		return nil
	}
	there := make(chan struct{})
	d.hand(t.Context(), f, past, func(err error) {
		if err == nil {
			t.Settle()
			close(there)
		}
	})
	return there
}

// hand parks a message that was in no queue yet; past are its tries before the last one.
func (d *dispatch) hand(ctx context.Context, f *failed, past *retry.Past, done func(error)) {
	switch {
	case f.to != nil:
		f.to.Hand(ctx, &f.message, past, f.answer.Trace.Parent, f.answer.Trace.State, done)
	case f.snooze() > 0:
		d.retrier.Snooze(ctx, &f.message, past, f.snooze(), done)
	default:
		d.retrier.Fail(ctx, &f.message, past, f.failure(), done)
	}
}

// fromQueue is the handle of what comes from a queue: retries, and a queue that is the source.
func (d *dispatch) fromQueue(ctx context.Context, m *stepwell.Message, t retry.Ticket) task.Outcome {
	o, f := d.run(ctx, m, t.Ticket.Ticket)
	switch {
	case f == nil:
	case f.to != nil:
		t.Hand(f.to, f.answer.Trace.Parent, f.answer.Trace.State)
	case f.snooze() > 0:
		t.Snooze(f.snooze())
	default:
		t.Fail(f.failure())
	}
	return o
}

// parkCondemned is the handle for a message that killed the process; it goes to the dead set.
func (d *dispatch) parkCondemned(ctx context.Context, m *stepwell.Message, t task.Ticket) task.Outcome {
	return d.tryInPlace(ctx, newFailed(*m, condemned()), t)
}

// dropCondemned is that where there is no dead set, and failures are dropped.
func (d *dispatch) dropCondemned(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
	d.drop(m, condemned())
	return task.Settled
}

// condemned is the answer for a message that is not called again.
func condemned() *call.Answer {
	return &call.Answer{Kind: stepwell.Dead, Reason: stepwell.ReasonCrashLoop, Failure: &call.Failure{Text: task.Killed}}
}

// settles settles the message once it is safe in a queue. Where it is not there is a stop, or the
// partition is another's now, or nobody takes a message of a queue. It is not known to be stored
// and stays unsettled: Kafka hands it out again, here or elsewhere, and a queue has it back. What
// the broker refuses is tried, and told, by the retrier.
func settles(t task.Ticket) func(error) {
	return func(err error) {
		if err == nil {
			t.Settle()
		} else {
			t.Refused(err)
		}
	}
}

// run calls the handler and says what its source is to do, and, where the message is to be parked,
// with what failure.
func (d *dispatch) run(ctx context.Context, m *stepwell.Message, t task.Ticket) (task.Outcome, *failed) {
	came := *m // what is parked is the message as it came, whatever the handler does to its fields
	if d.copies {
		m = m.Clone()
	} else if len(m.Headers) > 0 {
		// The list is copied, its values are shared: a handler may append to the list or reorder
		// it, and must not write into the bytes unless HANDLER_COPY is set.
		came.Headers = d.calls.Headers(t, m.Headers)
	}
	a, ok := d.calls.Call(ctx, m, t)
	switch {
	// What the handler said under a context that had ended is no verdict.
	case !ok:
		return task.Abandoned, nil
	case a == nil:
		return task.Settled, nil
	}
	return d.follow(ctx, came, a, t)
}

// follow says what the source is to do with a message on which there is an answer, and, where the
// message is to be parked, with what failure.
func (d *dispatch) follow(ctx context.Context, came stepwell.Message, a *call.Answer, t task.Ticket) (task.Outcome, *failed) {
	switch a.Kind { // without a default: lint finds the kind that nobody thought of here
	case stepwell.Done, stepwell.Skipped:
		return task.Settled, nil
	case stepwell.HandedOver:
		return task.Pending, d.handOver(came, a)
	case stepwell.Retry, stepwell.Dead, stepwell.Snoozed:
	}
	if d.retrier == nil {
		return d.keepTrying(ctx, came, a, t)
	}
	return d.fail(ctx, came, a, t)
}

// handOver is for what goes to a channel. That there is one was asked when the call was judged.
func (d *dispatch) handOver(m stepwell.Message, a *call.Answer) *failed {
	f := newFailed(m, a)
	f.to = d.channels[a.Channel]
	return f
}

// fail is for what is to be parked, unless somebody takes it over before it dies.
func (d *dispatch) fail(ctx context.Context, came stepwell.Message, a *call.Answer, t task.Ticket) (task.Outcome, *failed) {
	a, ok := d.fallback.takeOver(ctx, came, a, t)
	switch {
	case !ok:
		return task.Abandoned, nil
	case a == nil:
		d.telemetry.TakenOver()
		return task.Settled, nil
	}
	return task.Pending, newFailed(came, a)
}

// failed is a try that failed, put its message off, or handed it over, with the message as it came.
type failed struct {
	message stepwell.Message
	answer  *call.Answer
	at      time.Time
	// to is the retrier of the channel that gets the message; nil: it is not handed over.
	to *retry.Retrier
}

// newFailed is a function of its own so that m moves to the heap for failures only.
func newFailed(m stepwell.Message, a *call.Answer) *failed {
	return &failed{message: m, answer: a, at: time.Now()}
}

// snooze is for how long the handler put the message off; 0: it failed.
func (f *failed) snooze() time.Duration {
	if f.answer.Kind == stepwell.Snoozed {
		return f.answer.After
	}
	return 0
}

// failure is what the queues are told.
func (f *failed) failure() retry.Failure {
	a := f.answer
	told := retry.Failure{
		After: a.After,
		Err:   a.Failure, ErrorType: a.Failure.Type, Stack: a.Failure.Stack, Group: a.Failure.Group, At: f.at, Took: a.Took,
		TraceParent: a.Trace.Parent, TraceState: a.Trace.State,
	}
	if a.Kind == stepwell.Dead {
		told.Reason = a.Reason
	}
	return told
}

// again is the message as it is called next, on its own memory.
func (f *failed) again(past *retry.Past) *stepwell.Message {
	kept := f.message.Clone()
	if f.snooze() > 0 {
		kept.Snoozes++
		return kept
	}
	past.Failed(max(1, kept.Attempt), f.failure())
	kept.Attempt = max(1, kept.Attempt) + 1
	kept.FirstFailed = cmp.Or(kept.FirstFailed, f.at)
	return kept
}

// drop counts and tells a message that is gone.
func (d *dispatch) drop(m *stepwell.Message, a *call.Answer) {
	d.telemetry.Dropped()
	reason := a.Reason
	if a.Kind == stepwell.Retry {
		reason = stepwell.ReasonExhausted
	}
	d.failures.dropped(event{
		id: m.ID, attempts: m.Attempt, reason: reason, text: a.Failure.Text, kind: a.Failure.Type, stack: a.Failure.Stack,
		group: a.Failure.Group, trace: a.Trace,
	})
}
