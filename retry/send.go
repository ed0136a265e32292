package retry

import (
	"cmp"
	"context"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
)

// Failure is a try that failed.
type Failure struct {
	// Err is what the handler said; it may be nil.
	Err error
	// ErrorType names its type. Empty: what a method ErrorType of the error says, else the Go type.
	ErrorType string
	// Reason is empty for an ordinary failure, which is tried again while tries are left. Any other
	// sends the message to the dead set now: one of stepwell's Reason constants.
	Reason string
	// After is how long to wait before the next try in place of the policy's wait, at most
	// [stepwell.LongestWait]. 0: as the policy says.
	After time.Duration
	// Stack is where the handler panicked.
	Stack string
	// Group is what the error itself calls its cause; empty: it does not.
	Group string
	// At is when the try ended. Zero: now.
	At time.Time
	// Took is how long the try took; 0: not known.
	Took time.Duration
	// TraceParent and TraceState are the try's W3C trace context. That of the first try is kept
	// through all retries.
	TraceParent, TraceState string
}

// Fail parks a message that failed and comes to a queue for the first time: in the delay queue of
// its next try, or in the dead set. past are the tries before that one, if there were any. It does
// not wait, and calls done once, from another goroutine: done(nil) means that m is safe there. An
// error means that it is not, and will not be tried again: ctx ended, the broker was closed, or it
// is [queue.ErrTooLarge], for a message that is in no log. What the broker does not take otherwise
// is tried again every minute, and Status says so.
//
// A message too large for the broker is compressed; if that is not enough, the dead set gets a
// pointer to it, with reason too_large.
func (r *Retrier) Fail(ctx context.Context, m *stepwell.Message, past *Past, f Failure, done func(error)) {
	r.firsts.park(ctx, r.parking.pack(r.envelope(m, past), f), done)
}

// Snooze puts off a message that comes to a queue for the first time: it comes again after d, as
// the same try. Everything else is as for [Retrier.Fail].
func (r *Retrier) Snooze(ctx context.Context, m *stepwell.Message, past *Past, d time.Duration, done func(error)) {
	r.firsts.park(ctx, r.parking.putOff(r.envelope(m, past), d), done)
}

// Hand takes a message of the stream's over to the channel whose Retrier this is: it is published
// to the channel's instant queue as it came, as a first attempt without a failure. traceParent and
// traceState are the W3C trace context of the call that handed it over. Everything else is as for
// [Retrier.Fail]; what is too large goes to the channel's dead set, as a pointer.
func (r *Retrier) Hand(ctx context.Context, m *stepwell.Message, past *Past, traceParent, traceState string, done func(error)) {
	r.firsts.park(ctx, r.parking.takeOver(r.envelope(m, past), traceParent, traceState), done)
}

// envelope is that of a message that was in no queue yet. It is a clone: it may wait for long, and
// would keep alive what was fetched with it.
func (r *Retrier) envelope(m *stepwell.Message, past *Past) *envelope.Envelope {
	e := &envelope.Envelope{Message: *m.Clone(), Log: r.logs.of(m.Origin)}
	e.Message.Stream = r.cfg.Stream
	past.into(e, r.cfg.By)
	return e
}

// Enqueue publishes a message that comes from nowhere else, as a first attempt: to the instant
// queue, or, where after is above 0, through delay queues until so long is over; at most
// [stepwell.LongestWait]. Nil means that it is confirmed. An error means that it may be stored, or
// may not; it says [queue.ErrTooLarge] where it is not. Of m, which is copied, ID, Key, Value,
// Headers and Time are taken; without an ID the message gets one. Queues are declared first, unless
// they are. traceParent and traceState are the W3C trace context of who enqueues.
func (r *Retrier) Enqueue(ctx context.Context, m *stepwell.Message, after time.Duration, traceParent, traceState string) error {
	if !r.declared.Load() {
		if err := r.Declare(ctx); err != nil {
			return err
		}
	}
	// Before the message is handed over: whoever gives up while queues cannot be declared leaves
	// nothing behind.
	if err := r.parking.ladder.await(ctx, envelope.Wait{Remaining: after, Whole: after}); err != nil {
		return err
	}
	e := &envelope.Envelope{Token: envelope.NewToken(), Message: stepwell.Message{
		ID: m.ID, Key: m.Key, Value: m.Value, Headers: m.Headers, Time: m.Time, Stream: r.cfg.Stream, Channel: r.cfg.Channel, Attempt: 1,
	}}
	// A copy: a publish that is under way when ctx ends is not waited for.
	e.Message = *e.Message.Clone()
	e.Message.ID = cmp.Or(m.ID, e.Token)
	stored := make(chan error, 1)
	r.parking.park(ctx, r.parking.enqueue(e, after, traceParent, traceState), func(err error) { stored <- err })
	select {
	case err := <-stored:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-stored: // both came at once
		return err
	default:
		return context.Cause(ctx)
	}
}
