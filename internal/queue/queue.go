// Package queue has the words that the retry queues, the dead set and their brokers (RabbitMQ, or
// memory) share.
//
// The contract of [Broker] is written down once more as a suite of tests, package queuetest, which
// every broker passes.
package queue

import (
	"context"
	"errors"
	"time"
)

// Message is what rests in a queue.
type Message struct {
	// ID is the AMQP message-id, at most 255 bytes.
	ID string
	// Headers have flat values only: nil, bool, int64, string, []byte, time.Time, and []any of
	// these.
	Headers map[string]any
	Body    []byte
}

// Kind says what a queue is for; it decides the queue's arguments.
type Kind int

// The kinds of queue.
const (
	// Instant holds what is to be tried now.
	Instant Kind = iota + 1
	// Delay holds what waits; after TTL the broker moves it to Target.
	Delay
	// DeadSet holds what has no tries left. It has one active consumer at a time. Where it has a
	// TTL, what is older is gone.
	DeadSet
	// Log keeps what was published in its order, and drops the oldest where it grows too large. It
	// is read with [Broker.Follow], by anybody, as often as they like, and never consumed.
	Log
	// Source has what strangers publish to an exchange.
	Source
)

// LogSize is how many bytes a [Log] keeps at least.
const LogSize = 256 << 20

// Spec describes one queue to declare.
type Spec struct {
	Name string
	Kind Kind
	// TTL is how long a message waits in a Delay queue, or is kept in a DeadSet; 0 there: for good.
	TTL time.Duration
	// Target is the queue that the broker moves messages to: for Delay the instant queue, for
	// Instant the dead set.
	Target string
	// Exchange is what a Source is bound to, which must be there, with each of Keys. It stays bound
	// by what it was declared with before.
	Exchange string
	Keys     []string
}

// Delivery is a message that a broker handed out. It stays in its queue until it is acked.
type Delivery struct {
	Message
	Queue string
	// From is the delay queue that the broker moved the message from; empty: it was published to
	// Queue.
	From string
	// Redelivered says that the broker handed it out before.
	Redelivered bool
	// Returns is how often the broker counted it as handed out before; 0 unless Redelivered.
	Returns int64
	// Foreign says how a message came that a stranger published; nil unless [Consumption.Foreign].
	Foreign *Foreign

	// Tag and Session are for brokers: they lead an ack to the session that handed the message out.
	Tag     uint64
	Session Session
	// Life ends when the session has ended, and the message is not ours any more; nil for a
	// window's, which ends with its walk.
	Life context.Context
}

// Entry is a message in a [Log]. Offsets count up by one; the first that is left need not have 0.
type Entry struct {
	Message
	Offset int64
}

// Foreign is what a stranger's message has beside headers and body.
type Foreign struct {
	// Exchange and RoutingKey are those it was published with.
	Exchange, RoutingKey string
	// Time is the property timestamp; zero where there is none.
	Time time.Time
	// Properties are the others that there are, by their names in AMQP ("content-type"), in the
	// order in which AMQP has them, each with its value as text.
	Properties []Property
}

// Property is one of a [Foreign]'s.
type Property struct{ Name, Value string }

// Session is the life of one consumer on one connection.
type Session interface {
	// Ack removes the message; Release gives it back to its queue: at once, but where a stop or a
	// pause has begun, once the consumer can be handed nothing more, and at a stop behind the acks
	// of what is handled still, a second later at most. Both are dropped when the session is over.
	Ack(tag uint64)
	Release(tag uint64)
	// Flush returns when the broker has taken what was acked before, or with an error when the
	// session or ctx ended. A window's acks are taken when it is closed.
	Flush(ctx context.Context) error
}

// Ack removes the message from its queue: call it only when the message is settled. It does not
// wait, and is dropped when the delivery's session is over, since the broker then hands the message
// out again. Call Ack or Release once.
func (d Delivery) Ack() { d.Session.Ack(d.Tag) }

// Flush waits until the broker has taken the ack: acks go out a little later, many at once, and are
// lost with the process until then.
func (d Delivery) Flush(ctx context.Context) error { return d.Session.Flush(ctx) }

// Release gives the message back to its queue.
func (d Delivery) Release() { d.Session.Release(d.Tag) }

// Errors of a broker that callers branch on.
var (
	// ErrTooLarge: the broker would refuse the message for its size.
	ErrTooLarge = errors.New("message is larger than the broker takes")
	// ErrLeased: another walk holds the queue's lease.
	ErrLeased = errors.New("another walk is under way")
	// ErrUnavailable: the broker cannot be reached, or takes nothing (alarm), or a queue is not
	// there now.
	ErrUnavailable = errors.New("queues are not available")
	// ErrMissing: there is no such queue. Depth, of a broker and of a lease, and Examine return it.
	ErrMissing = errors.New("there is no such queue")
	// ErrClosed: the broker's Run has ended.
	ErrClosed = errors.New("queues are closed")
)

// Broker keeps queues. Its methods may be called from any goroutine, also before Run, and wait for
// a connection where they need one.
type Broker interface {
	// Run owns all connections and goroutines of the broker until ctx ends. It connects again for
	// ever, and returns early only for what cannot heal by itself (a broker that is too old).
	Run(ctx context.Context) error

	// Declare makes the queues that are missing, targets before those that point to them, and
	// remembers them: a queue that vanishes is declared again and reported to the log. It returns
	// when all are there and safe to use, or with an error that names the queue whose arguments
	// differ.
	Declare(ctx context.Context, specs []Spec) error

	// Prove makes the queues that are missing, one after the other, and returns how many of the
	// first are there with our arguments, as the broker itself has compared, and safe to use. The
	// error says why not all are. Unlike Declare it remembers none: one that vanishes stays away.
	Prove(ctx context.Context, specs []Spec) (proven int, err error)

	// Publisher returns a pipelined publisher; callers that must not wait for one another take one
	// each. name is for the log.
	Publisher(name string) Publisher

	// Consume hands out the queue's messages until stop ends, through all reconnects; then it hands
	// out nothing more, waits until all it handed out is acked or released, or work ends, and gives
	// the rest back. An error names the queue.
	Consume(stop, work context.Context, c Consumption) error

	// Lease takes the right to walk the queue, on a connection of its own; ErrLeased when it is
	// taken. There need not be such a queue: the name is then all that is leased.
	Lease(ctx context.Context, queue string) (Lease, error)

	// Show lets all who use the broker see that somebody of that name lives, as soon as there is a
	// connection, until Run ends. It does not wait. A broker in memory shows nobody, whose users
	// live and die together; so this is not in queuetest.
	Show(name string)

	// Shown says whether somebody shows that name now. Who died does so no more from about when the
	// messages that it held are handed out again; who was cut off does not until it is connected
	// again. The error is [ErrUnavailable] where that cannot be seen now.
	Shown(ctx context.Context, name string) (bool, error)

	// Accepts waits until the broker takes what is published, as Lease waits for one that is away,
	// and for as long under an alarm, when nothing is confirmed. The error is ErrUnavailable. A
	// process that has published nothing since an alarm began does not know of it.
	Accepts(ctx context.Context) error

	// Follow hands out what a [Log] has from the offset on, 0 being the oldest that there is, and
	// what comes later, in order and one at a time, until ctx ends or it cannot go on: it always
	// returns an error. One that is [ErrUnavailable] and not [ErrMissing] says that the connection
	// ended, and that the same log goes on where it was. After any other the log may be another one
	// of that name.
	Follow(ctx context.Context, log string, from int64, handle func(Entry)) error

	// Depth returns how many messages are ready in the queue; ErrUnavailable where the queue itself
	// does not tell, or the connection is lost meanwhile.
	Depth(ctx context.Context, queue string) (int, error)

	// Consumers returns how many consumers the queue has, of all processes, without those that a
	// pause holds back.
	Consumers(ctx context.Context, queue string) (int, error)

	// Examine says whether a queue that is somebody else's can be consumed message by message: nil,
	// or an error, which is ErrMissing where there is none. It changes nothing.
	Examine(ctx context.Context, queue string) error

	// Trouble is why nothing is consumed from a queue that Consume was called for, as far as it is
	// known; else "".
	Trouble(queue string) string

	// ReturnLimit is how many returns of a message the queue bears before it drops it, as far as
	// that is certain: less where nobody could compare the queue's arguments with ours.
	ReturnLimit(queue string) int64

	// Status tells whether the broker can be used now.
	Status() Status
}

// Publisher sends messages with many confirms in flight. What it holds is bounded by its callers,
// who wait for done.
type Publisher interface {
	// Publish takes m over and returns at once. It calls done exactly once, from another goroutine,
	// never holding a lock: nil when the broker confirmed m in exactly that queue. Nacks, returns,
	// lost connections and alarms are no errors: m is published again. An error means that m is not
	// known to be stored and will not be tried again: ErrTooLarge, or ctx ended while m was unsent
	// or its session broke, or ErrClosed.
	Publish(ctx context.Context, queue string, m Message, done func(error))
}

// Consumption says what to consume and how.
type Consumption struct {
	Queue string
	// Prefetch is asked when a consumer starts and now and then later; a consumer is opened anew
	// when the answer has changed by more than a factor of two.
	Prefetch func() int
	// Another, when not nil, is asked now and then while none of the last Prefetch deliveries is
	// settled, and told how many are held in all: it says whether to hand out Prefetch more.
	Another func(held int) bool
	// Told, when not nil, is called with what the broker was told.
	Told func(prefetch int)
	// Handle takes a delivery over. It may block until ctx ends, which it does with the delivery's
	// session or with stop; it reports whether it took the delivery. It is asked also for what came
	// ahead of a stop or a pause, with a ctx that has ended.
	Handle func(ctx context.Context, d Delivery) bool
	// Paused, when not nil, is asked whether to hold the consumer back: prefetched messages are
	// given back and none are handed out while it says true. Changed is signalled when the answer
	// may have changed.
	Paused  func() bool
	Changed <-chan struct{}
	// Foreign says that the queue is somebody else's: headers come as they are, those of the broker
	// among them, [Delivery.Foreign] has the rest, and the broker may have reasons of its own to
	// hand out nothing.
	Foreign bool
}

// WindowSize is how many messages a window holds at most.
const WindowSize = 2000

// Lease is the right to walk a queue, and others that belong to it. It ends with Release, or with
// its connection: no window of it acts on anything after that.
type Lease interface {
	// On is this lease for another queue, a DeadSet, which need not be there: its windows end with
	// the lease. Only the lease itself is to be released.
	On(spec Spec) Lease
	// Depth waits until nobody holds messages of the queue, be it a process that has just died, and
	// returns how many there are. The error is ErrMissing where there is no such queue.
	Depth(ctx context.Context) (int, error)
	// Drop deletes the queue, which must not be the one that was leased, if it is empty. Whoever
	// may publish to it has to have the same lease.
	Drop(ctx context.Context) error
	// Ended is closed when the lease has ended. Who is cut off may be told later than another who
	// has the lease by then.
	Ended() <-chan struct{}
	// Window opens a window of at most max messages (1 or more) of the queue and about maxBytes of
	// bodies and headers held at a time (but one message always). One window of a queue at a time.
	// The error is ErrUnavailable where nothing can be published and the queue bears few returns.
	Window(ctx context.Context, max, maxBytes int) (Window, error)
	// Narrow opens a window that holds no more than few at a time (1 or more). The others do not
	// come back to the queue when it is closed; what it gives back itself may come behind them.
	Narrow(ctx context.Context, max, few, maxBytes int) (Window, error)
	// Release gives the lease back.
	Release()
}

// Window holds the oldest part of a queue, and moves on as its head is acked.
type Window interface {
	// Deliveries hands out the messages, oldest first, none that came after the window was opened.
	// No more than WindowSize are held at a time: acks make room for the next. It is closed when as
	// many were handed out as were asked for or were there, when the next one does not fit into the
	// bytes, and when the broker ended the window, which Close tells. Of a queue with a TTL fewer
	// may come than were there: the others are gone.
	Deliveries() <-chan Delivery
	// Depth is how many messages were in the queue when the window was opened.
	Depth() int
	// Close sends the acks, gives back what was not acked, in order, and waits until the queue
	// shows what it must. It returns the depth then, and an error when that is not the depth at the
	// start less the acks plus what arrived. Where nobody could look, the depth is that of the
	// start less the acks that the broker is known to have taken.
	Close(ctx context.Context) (depth int, err error)
}

// Each reads a window to its end, and calls f for each message as it comes.
func Each(ctx context.Context, w Window, f func(Delivery)) error {
	for {
		select {
		case d, ok := <-w.Deliveries():
			if !ok {
				return nil
			}
			f(d)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Gather reads a window of at most WindowSize messages to its end.
func Gather(ctx context.Context, w Window) (all []Delivery, err error) {
	err = Each(ctx, w, func(d Delivery) { all = append(all, d) })
	return all, err
}

// Status is the state of a broker's connections.
type Status struct {
	// Up: connected for publishing and for consuming.
	Up bool
	// Blocked: the broker takes no publishes now (memory or disk alarm).
	Blocked bool
	// Detail says what is wrong, or names the product and version.
	Detail string
}
