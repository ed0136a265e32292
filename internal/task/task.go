// Package task has what the sources of messages, those who run the calls, and dispatch share: how a
// call ended, and a message's way back to where it came from.
package task

import (
	"context"
	"time"

	"github.com/stepwell/stepwell"
)

// Outcome is what a handle says about its message. One that was forgotten counts as Abandoned.
type Outcome int

// The outcomes.
const (
	// Settled: the message is done, or safe elsewhere. Its offset may be committed, its delivery
	// acked.
	Settled Outcome = iota + 1
	// Pending: [Ticket.Settle] is or will be called once the message is safe.
	Pending
	// Abandoned: there is no verdict. Nothing is committed or acked, and the message is handed out
	// again: by Kafka to the partition's next owner, by RabbitMQ at once.
	Abandoned
	// Gathered: the message waits for a call that it has together with others, on another
	// goroutine. It counts as one whose call runs until [Gatherable.Ended] is told.
	Gathered
)

// Killed is the error of a message that is condemned.
const Killed = "the process died each time the message ran"

// Handle does the work for one message. Its context lives through a stop, for the drain, and ends
// with a cause.
type Handle func(ctx context.Context, m *stepwell.Message, t Ticket) Outcome

// Origin is where messages came from: the assignment of a partition, a delivery, or deliveries that
// are gathered. Its methods may be called from any goroutine.
type Origin interface {
	// Settle says that the message at that offset is safe.
	Settle(offset int64)
	// Context ends, with a cause, when what came from here can no longer be settled.
	Context() context.Context
	// Trace is the W3C trace context of the first try; empty where this is the first, or there was
	// none.
	Trace() (parent, state string)
	// Alone says that the message at that offset is suspected of killing the process.
	Alone(offset int64) bool
}

// Gatherable is an [Origin] whose messages may be [Gathered].
type Gatherable interface {
	Origin
	// Calls is the context of its calls. It ends, with a cause, when what they return is no longer
	// wanted: what waits for a call then is not called.
	Calls() context.Context
	// Halted says that nothing more is handed out, since the messages are about to be another's:
	// what was gathered is to be called now, or to be told as [Abandoned].
	Halted() bool
	// Ended says how the call of messages ended that were Gathered, by their offsets, in ascending
	// order. They may be settled already.
	Ended(offsets []int64, o Outcome)
	// Rest says that a message rests, and until when: then it is called again. With the zero time
	// it has rested. A suspect keeps its turn: no other runs meanwhile.
	Rest(offset int64, until time.Time)
	// Desert says that their call ended its goroutine, and that they will never be done. The error
	// names the first.
	Desert(offsets []int64) error
}

// Keeper is an [Origin] to which a message that cannot be parked goes back; of any other such a
// message stays unsettled.
type Keeper interface {
	// Refused says that a message which is Pending will not be parked: nobody takes it, or there is
	// a stop. It stays where it is.
	Refused(offset int64, err error)
}

// Call is the call of a handle that is under way. Its methods are for the goroutine that runs it.
type Call interface {
	// Running is the number of the goroutine, its lane, which no other call has at the same time,
	// and when the call began, or up to a few milliseconds before: fast calls in a row share that.
	Running() (lane int, began time.Time)
	// Rest is [Ticket.Rest] for the message at that offset.
	Rest(ctx context.Context, offset int64, d time.Duration, m *stepwell.Message) bool
	// RestUntil is [Ticket.RestUntil] for the message at that offset.
	RestUntil(ctx context.Context, offset int64, over <-chan struct{}, m *stepwell.Message)
}

// Ticket is a message's way back. It is a value, so that it costs no allocation. What is asked of
// it for each message is a pointer's method: the processor waits for the copy of a value that was
// only just written, as long as a fast handler takes.
type Ticket struct {
	origin Origin
	offset int64
	call   Call
}

// NewTicket is the ticket of the message at that offset. Deliveries have none: one passes 0, those
// that are gathered the order in which they came.
func NewTicket(origin Origin, offset int64, call Call) Ticket { return Ticket{origin, offset, call} }

// Place says where the message came from, for who gathers it: nil where its origin does not allow
// that.
func (t *Ticket) Place() (Gatherable, int64) {
	of, _ := t.origin.(Gatherable)
	return of, t.offset
}

// Settle says that the message is safe. It may be called from any goroutine, also before the
// [Handle] returned Pending, and more than once. It has no effect once the message is no longer
// ours.
func (t Ticket) Settle() { t.origin.Settle(t.offset) }

// Refused says that the message, which is Pending, will not be parked; see [Keeper].
func (t Ticket) Refused(err error) {
	if keeper, ok := t.origin.(Keeper); ok {
		keeper.Refused(t.offset, err)
	}
}

// Context ends, with a cause, when the message can no longer be settled: what was not sent by then
// need not be, since it is handed out again. It outlives the context of the handler.
func (t Ticket) Context() context.Context { return t.origin.Context() }

// Trace is the W3C trace context of the message's first try; empty where this is it, or there was
// none.
func (t Ticket) Trace() (parent, state string) {
	if t.origin == nil {
		return "", ""
	}
	return t.origin.Trace()
}

// After is the ticket for a further try on the spot, after one with that W3C trace context. The
// first try's stays what it is once it is known.
func (t Ticket) After(parent, state string) Ticket {
	if known, _ := t.Trace(); known == "" && parent != "" {
		t.origin = tried{t.origin, parent, state}
	}
	return t
}

// tried is an origin whose message had its first try on the spot.
type tried struct {
	Origin
	parent, state string
}

func (o tried) Trace() (parent, state string) { return o.parent, o.state }

// Alone says that the message is suspected of killing the process, and runs with no other suspect
// beside it.
func (t *Ticket) Alone() bool { return t.origin != nil && t.origin.Alone(t.offset) }

// Running is the number of the goroutine that runs the [Handle], its lane, and when the call began.
// It is to be asked during the call, and the lane again after a [Ticket.Rest].
func (t *Ticket) Running() (lane int, began time.Time) { return t.call.Running() }

// Rest sleeps for so long during a call, on its goroutine, and gives its place to other calls
// meanwhile; only its key waits. After it a suspect waits for another turn. It reports false, at
// once, when ctx ends or nothing more is handed out from where the message came from: then the call
// has no place, and is to return without doing more. m is the message as it is kept from here on:
// what came with it is let go.
func (t Ticket) Rest(ctx context.Context, d time.Duration, m *stepwell.Message) bool {
	return t.call.Rest(ctx, t.offset, d, m)
}

// RestUntil is [Ticket.Rest] until over is closed, for a message whose way is decided and that
// holds what waits for it until it is there. The call has nothing more to do after it, however the
// rest ended.
func (t Ticket) RestUntil(ctx context.Context, over <-chan struct{}, m *stepwell.Message) {
	t.call.RestUntil(ctx, t.offset, over, m)
}

// Wait waits until over is closed, or ctx ends.
func Wait(ctx context.Context, over <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-over:
	}
}

// Sleep reports whether it slept the whole time.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
