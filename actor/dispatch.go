package actor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/telemetry"
	"github.com/stepwell/stepwell/retry"
	"github.com/stepwell/stepwell/streams"
)

// dispatch decides what becomes of a stream's messages once the handler returned: the one switch on verdicts.
type dispatch struct {
	caller
	// retrier takes failures. Nil: the stream has no queues, and inPlace is for it.
	retrier *retry.Retrier
	inPlace inPlace
}

// errCrashLoop is written beside a message that is not called again.
var errCrashLoop = errors.New("the process died each time the message ran alone")

// outcome is what the source of a message is told. Streams and retry have the same three.
type outcome int

const (
	settled outcome = iota + 1
	pending
	abandoned
)

// ticket is a message's way to where failures go.
type ticket interface {
	// first is the trace context of the message's first try; empty where this is the first, or there is none.
	first() telemetry.TraceContext
	// fail parks the message and settles it when it is safe there. m is the message as it came.
	fail(m *stepwell.Message, f retry.Failure)
	// rest waits before the message is tried again in place, and reports false when it is not to be. m is all that is kept of it meanwhile.
	rest(ctx context.Context, d time.Duration, m *stepwell.Message) bool
}

// first is the handle of the stream's reader.
func (d *dispatch) first(ctx context.Context, m *stepwell.Message, t streams.Ticket) streams.Outcome {
	if t.IsZero() {
		return streams.Outcome(run(ctx, d, m, firstTry{t, d.retrier}, timing{}))
	}
	return streams.Outcome(run(ctx, d, m, firstTry{t, d.retrier}, timing{&d.calls.lanes[t.Lane()], t.Began()}))
}

// condemn is the handle for a record that killed the process; nil: there is no place for it, and it runs again.
func (d *dispatch) condemn() streams.Handle {
	switch {
	case d.retrier != nil:
		return func(_ context.Context, m *stepwell.Message, t streams.Ticket) streams.Outcome {
			firstTry{t, d.retrier}.fail(m, retry.Failure{Reason: stepwell.ReasonCrashLoop, Err: errCrashLoop})
			return streams.Pending
		}
	case d.inPlace.drop:
		return func(_ context.Context, m *stepwell.Message, _ streams.Ticket) streams.Outcome {
			d.drop(m, &answer{reason: stepwell.ReasonCrashLoop, failure: &failure{text: errCrashLoop.Error()}})
			return streams.Settled
		}
	}
	return nil
}

// escaped is the handle for a message whose handler called runtime.Goexit: a failure. The message is as the handler left it.
func (d *dispatch) escaped(ctx context.Context, m *stepwell.Message, t streams.Ticket) streams.Outcome {
	switch {
	case ctx.Err() != nil:
		return streams.Abandoned
	case d.retrier == nil:
		came := *m
		m.Attempt++ // should the next try end its goroutine too
		return streams.Outcome(until(ctx, d, came, escapedCall(), firstTry{t, nil}))
	}
	firstTry{t, d.retrier}.fail(m, retry.Failure{Err: retry.ErrGoexit})
	return streams.Pending
}

// again is the handle of the stream's retries.
func (d *dispatch) again(ctx context.Context, m *stepwell.Message, t retry.Ticket) retry.Outcome {
	return retry.Outcome(run(ctx, d, m, laterTry{t}, timing{}))
}

// ended is told how long first tries took.
func (d *dispatch) ended(lane int, all, last time.Duration) {
	d.calls.lanes[lane].ended(d.telemetry, all, last)
}

// held is told that a first try takes long, while others before it have ended.
func (d *dispatch) held(lane int) { d.calls.lanes[lane].held(d.telemetry, d.calls.now()) }

type firstTry struct {
	streams.Ticket
	retrier *retry.Retrier
}

func (t firstTry) fail(m *stepwell.Message, f retry.Failure) {
	t.retrier.Fail(t.Context(), m, f, func(err error) {
		if err == nil {
			t.Settle()
		}
		// Otherwise there is a stop, or the partition is another's now. The message is not known to be stored and stays unsettled: Kafka hands
		// it out again, here or elsewhere. What the broker refuses is tried, and told, by the retrier.
	})
}

func (t firstTry) rest(ctx context.Context, d time.Duration, m *stepwell.Message) bool {
	if t.IsZero() {
		return sleep(ctx, d)
	}
	return t.Rest(ctx, d, m)
}

func (firstTry) first() telemetry.TraceContext { return telemetry.TraceContext{} }

type laterTry struct{ retry.Ticket }

func (t laterTry) first() telemetry.TraceContext {
	parent, state := t.Trace()
	return telemetry.TraceContext{Parent: parent, State: state}
}

func (laterTry) rest(ctx context.Context, d time.Duration, _ *stepwell.Message) bool {
	return sleep(ctx, d)
}

func (t laterTry) fail(_ *stepwell.Message, f retry.Failure) { t.Fail(f) }

// run calls the handler and says what the source is to do. It is generic so that a ticket costs no allocation unless it is used.
func run[T ticket](ctx context.Context, d *dispatch, m *stepwell.Message, t T, at timing) outcome {
	came := *m // what is parked is the message as it came, whatever the handler does to its fields
	if d.copies {
		m = m.Clone()
	} else if len(m.Headers) > 0 {
		came.Headers = at.keep(m.Headers)
	}
	var before telemetry.TraceContext
	if d.telemetry.Tracing() {
		before = t.first()
	}
	a, err := d.call(ctx, m, before, at)
	switch {
	case err != nil:
		return abandoned
	case a == nil:
		return settled
	}
	switch a.kind {
	case stepwell.Skipped:
		return settled
	case stepwell.Retry, stepwell.Dead:
		if d.retrier == nil {
			return until(ctx, d, came, a, t)
		}
		park(came, a, t)
		return pending
	default:
		panic(fmt.Sprintf("a verdict of unknown kind %v", a.kind))
	}
}

// park is a function of its own so that m moves to the heap for failures only.
func park[T ticket](m stepwell.Message, a *answer, t T) {
	f := retry.Failure{
		Err: a.failure, ErrorType: a.failure.kind, Stack: a.failure.stack, At: time.Now(),
		TraceParent: a.trace.Parent, TraceState: a.trace.State,
	}
	if a.kind == stepwell.Dead {
		f.Reason = a.reason
	}
	t.fail(&m, f)
}

// inPlace is what a stream without queues does with a failing message: it tries again with a growing pause until it is done or no longer
// ours. Others are handled during the pause, but for those that must wait for it. There is no dead set to put it in, so it is dropped only where ON_FAILURE says so, and DeadLetter is a failure like any other.
type inPlace struct {
	drop    bool
	pause   time.Duration
	longest time.Duration
}

func until[T ticket](ctx context.Context, d *dispatch, came stepwell.Message, a *answer, t T) outcome {
	p := d.inPlace
	if p.drop {
		d.drop(&came, a)
		return settled
	}
	kept := came.Clone()
	kept.FirstFailed = time.Now()
	for pause := p.pause; ; pause = min(2*pause, p.longest) {
		if !t.rest(ctx, pause/2+rand.N(pause/2+1), kept) {
			return abandoned
		}
		kept.Attempt++
		var err error
		if a, err = d.call(ctx, kept.Clone(), telemetry.TraceContext{}, timing{}); err != nil {
			return abandoned
		}
		if a == nil || a.kind == stepwell.Skipped {
			return settled
		}
	}
}

// drop counts and tells a message that is gone.
func (d *dispatch) drop(m *stepwell.Message, a *answer) {
	d.telemetry.Dropped()
	reason := a.reason
	if a.kind == stepwell.Retry {
		reason = stepwell.ReasonExhausted
	}
	d.failures.dropped(event{m.ID, m.Attempt, reason, a.failure.text, a.failure.kind, a.failure.stack, a.trace})
}

// sleep reports whether it slept the whole time.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
