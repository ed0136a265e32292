// Package inbox works one queue off: it hands each message of the queue to a handler, and acks the
// message when it is done, or confirmed in another queue.
//
// An [Inbox] knows nothing of Kafka, of policies or of names of queues. Who owns the queue says in
// [Config] which queue it is, decodes what is in it, and has the place where dead messages rest.
// Package retry owns the queue of retries.
//
// # The way of a delivery
//
//	broker -> run.offer: what Config.Divert names is moved to another queue: run.go, delivery.go
//	  -> a worker:
//	    1. Owner.Decode    what is it? Junk and messages of newer versions: unreadable.go
//	    2. suspects.admit  may it have killed a process? Then it waits for its turn: suspects.go
//	    3. memory.begin    does its try run, or was it settled? Then it is not called: memory.go
//	    4. Owner.Complete  is there more to it, elsewhere?
//	    5. Seats.Take      may the handler be called now, beside the calls of others?
//	    6. Handle          the call: it ends with a [task.Outcome], or with Ticket.Park: ticket.go
//
// Each step either passes the delivery on or decides its end, and there are three ends: it is
// acked, since its message is done or confirmed elsewhere; it is released, and the broker hands it
// out again; or it rests for a minute, because of an error that may last, and is released then. One
// of somebody else's queue that is too large to be parked rests until stop: it is held.
//
// # Map
//
//	inbox.go       Config, Owner, Inbox, its status and pause
//	run.go         one Run: the consumption and its workers
//	worker.go      the six steps above
//	delivery.go    the three ends, and the move to another queue
//	ticket.go      how a handler settles its message
//	gathering.go   how one settles many that it was called with
//	memory.go      which tries run, and which were settled last
//	prefetch.go    how many deliveries may wait here without reaching the consumer time-out
//	trouble.go     what rests or is held, and why
//	unreadable.go  messages that cannot be decoded
//	suspicion.go   what the headers of a suspect say, and what follows from it: pure
//	suspects.go    suspects run one at a time, each announced to other processes first
//	trial.go       the trial of a suspect that a process died of
//	turn.go        the token that a suspect holds while it runs
//
// # Glossary
//
//	delivery    a message that the broker handed out and that is neither acked nor released yet
//	try         one attempt of one message, as a hash: a repeat has the same
//	repeat      a delivery whose try runs, or was settled by this process
//	suspect     a message that was returned more than ten times, or whose handler ended its
//	            goroutine: it may kill the process
//	token       held by the one suspect of a process that runs, or is about to
//	announce    to publish a copy of a suspect that names the process which will run it
//	death       an announced copy was returned, and came to another process than it names, which
//	            the broker does not show to live when a trial looks
//	trial       what a suspect that a process died of goes through before it runs again
//	probation   how long a process must have lived, with no suspect running, before a trial ends
//	condemn     to send a suspect to the dead set, uncalled, after too many deaths
//	row         the messages that were condemned since a suspect came to its end
//	stop        the context whose end means: take no more deliveries
//	work        the context whose end means: cancel the calls, and give back what is not settled
//
// # Locks
//
// memory, slowest, gathering, turn, passed, row and Trouble have a lock each, and guard nothing but
// their own fields; Inbox.gatherings guards which gathering is that of now. There is no order among
// them: whoever holds one takes no other, and calls neither the broker, nor the owner, nor a
// handler.
//
// # Contexts
//
// A delivery may be settled until work ends: calls have that, and what parks or buries a try that
// memory knows. What moves a delivery ends with its session as well. Whatever waits for something
// else (a seat, a trial, the end of a rest) waits no longer than until stop.
package inbox

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

// Config describes an Inbox. Queue, Broker, Publisher and Owner are required.
type Config struct {
	// Queue is worked off. It is declared by its owner.
	Queue string
	// Wait is a queue that brings a message of a newer version back to Queue after a while. Empty:
	// there is none.
	Wait string
	// Broker hands out what is in Queue.
	Broker Consumer
	// Presence shows which processes live, once suspects run. Nil: each death counts.
	Presence Presence
	// Publisher sends what is moved.
	Publisher queue.Publisher
	// Owner decodes what is in the queue, and buries what is dead.
	Owner Owner
	// Divert says of a delivery that it is not for a handler here: m goes to the queue to in its
	// place. It is asked before a worker is waited for, of one delivery after another, and must be
	// quick. Where ctx ends meanwhile its answer does not count, and the delivery goes back. Nil:
	// all are for the handler.
	Divert func(ctx context.Context, d queue.Delivery) (to string, m queue.Message, divert bool)
	// Foreign says that the queue is somebody else's: nobody knows how many returns of a message it
	// bears, so one that is too large to be parked is held until a stop, and not given back before.
	Foreign bool
	// Gather is set where messages wait for calls that they have together: the handle returns
	// [task.Gathered].
	Gather *Gather
	// Workers is how many messages run at once. Default 16.
	Workers int
	// FirstLane is the number of the first worker's lane; the others follow. A call tells its lane
	// by [task.Ticket.Running].
	FirstLane int
	// Seats are taken for calls, so that others who call the same handler can be counted in. Nil:
	// nobody else does.
	Seats Seats
	// Prefetch is the most to hold at once; never less than one more than Workers.
	Prefetch Prefetch
	// HandlerTimeout is the longest a call takes. Default 5 minutes.
	HandlerTimeout time.Duration
	// Grace is how long a call may take to return that was cancelled by the end of work, before it
	// is left behind. Default a second.
	Grace time.Duration
	// Suspects says how messages that may kill the process are found.
	Suspects Suspects
	// Trouble counts what rests or is held; others who park messages may share it. Nil: the Inbox
	// has its own.
	Trouble *Trouble
	// Repeated is told of each repeat that was removed without a call. Nil: nobody is.
	Repeated func()
	// Ended is told, on the worker's goroutine, how long each call took: all is the time of the
	// calls of a lane since it was told last, and last that of the last one; here both are of one
	// call. Nil: nobody is told.
	Ended func(lane int, all, last time.Duration)
	// Logger receives what no caller can be told. Nil: slog's default.
	Logger *slog.Logger
}

// Consumer is all that an Inbox asks of a broker beside its Publisher: a [queue.Broker] is one.
type Consumer interface {
	// Consume is that of [queue.Broker].
	Consume(stop, work context.Context, c queue.Consumption) error
}

// Presence tells a cut from a death: a [queue.Broker] does, where it is one of many processes.
type Presence interface {
	// Show and Shown are those of [queue.Broker].
	Show(name string)
	Shown(ctx context.Context, name string) (bool, error)
}

// Prefetch bounds what an Inbox holds at once.
type Prefetch struct {
	// Messages is how many at most. Default 1000.
	Messages int
	// Bytes is how much at most, as though all were as large as the largest lately. Default: no
	// limit.
	Bytes int
	// ConsumerTimeout is how long the broker waits for an ack. Default 30 minutes, as RabbitMQ's.
	ConsumerTimeout time.Duration
}

// Owner knows what the messages of the queue are, and has a place for the dead. Its methods are
// called from many goroutines.
type Owner interface {
	// Decode says what a delivery holds. An error that wraps [envelope.ErrVersion] means that
	// another program may read it; any other, that nobody can.
	Decode(d queue.Delivery) (*envelope.Envelope, error)
	// Complete fetches what an envelope only points to. An error without a reason means "not now":
	// the message rests, and then goes to the end of its queue. With a reason it is "never": the
	// message is buried for it, with the error's text.
	Complete(ctx context.Context, e *envelope.Envelope) (reason string, err error)
	// Bury puts a message into the dead set, uncalled. It calls done once: a nil error means that
	// the message is safe there, ack it.
	Bury(ctx context.Context, e *envelope.Envelope, reason, text string, done func(error))
	// BuryUnreadable does the same for a message that nobody can decode, which is kept as it is.
	BuryUnreadable(ctx context.Context, m queue.Message, problem error, done func(error))
}

// Seats are shared by all who call the same handler.
type Seats interface {
	// Take waits for a seat. It reports false, and there is none, when over is closed first.
	Take(over <-chan struct{}) bool
	// Leave gives it back.
	Leave()
}

// Inbox works one queue off.
type Inbox struct {
	cfg Config
	// memory, slow and suspects outlive a Run, each with a lock of its own: what was settled in one
	// Run is a repeat in the next.
	memory   *memory
	slow     *slowest
	largest  largest
	suspects *suspects
	// ahead is how many deliveries the broker hands out at once; prefetch may be another number by
	// now.
	ahead atomic.Int64
	// gathering is that of now; nil: no message is gathered, or no Run has begun. Who puts another
	// one there, or halts it, has the lock.
	gathering  atomic.Pointer[gathering]
	gatherings sync.Mutex

	paused  atomic.Bool
	changed chan struct{} // signalled when paused has changed
	// inFlight counts what Status tells; each delivery is added when it is picked up, and taken off
	// at its end, whichever of the three that is.
	inFlight atomic.Int64
}

// Status is what an Inbox does now.
type Status struct {
	Paused bool
	// InFlight counts deliveries that were picked up and are neither acked nor released.
	InFlight int
	// Suspect is the id of the suspect that runs, or is on trial before it runs again; empty: none
	// is. TriedUntil is when that trial ends; zero: it runs.
	Suspect    string
	TriedUntil time.Time
	// Oldest is the call that runs for the longest; zero: none does, or messages are gathered.
	Oldest Call
}

// Call is one of a handler that runs.
type Call struct {
	ID      string // of its message
	Attempt int
	Began   time.Time
}

// New makes an Inbox. It connects nowhere.
func New(cfg Config) *Inbox {
	cfg.Workers = cmp.Or(cfg.Workers, 16)
	cfg.Prefetch.Messages = cmp.Or(cfg.Prefetch.Messages, 1000)
	cfg.HandlerTimeout = cmp.Or(cfg.HandlerTimeout, 5*time.Minute)
	cfg.Prefetch.ConsumerTimeout = cmp.Or(cfg.Prefetch.ConsumerTimeout, 30*time.Minute)
	cfg.Grace = cmp.Or(cfg.Grace, time.Second)
	cfg.Trouble = cmp.Or(cfg.Trouble, &Trouble{})
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.Seats == nil {
		cfg.Seats = unlimited{}
	}
	if cfg.Divert == nil {
		cfg.Divert = func(context.Context, queue.Delivery) (string, queue.Message, bool) { return "", queue.Message{}, false }
	}
	if cfg.Presence == nil {
		cfg.Presence = nobody{}
	}
	if cfg.Repeated == nil {
		cfg.Repeated = func() {}
	}
	if cfg.Ended == nil {
		cfg.Ended = func(int, time.Duration, time.Duration) {}
	}
	in := &Inbox{
		cfg:     cfg,
		slow:    newSlowest(cfg.Workers, cfg.HandlerTimeout),
		changed: make(chan struct{}, 1),
	}
	if !cfg.Foreign { // whose messages are new to us each time: what came back is diverted
		in.memory = newMemory(remembered)
	}
	in.suspects = newSuspects(in, cfg.Suspects)
	return in
}

// Pause stops picking deliveries up; those that were not started go back to their queue.
func (in *Inbox) Pause() { in.setPaused(true) }

// Resume ends a pause.
func (in *Inbox) Resume() { in.setPaused(false) }

func (in *Inbox) setPaused(paused bool) {
	in.paused.Store(paused)
	if paused {
		in.halt()
	} else {
		in.anew()
	}
	select {
	case in.changed <- struct{}{}:
	default: // a signal waits already
	}
}

// Status tells what is going on.
func (in *Inbox) Status() Status {
	s := Status{Paused: in.paused.Load(), InFlight: int(in.inFlight.Load()), Oldest: in.slow.oldest()}
	s.Suspect, s.TriedUntil = in.suspects.turn.whose()
	return s
}

type nobody struct{}

func (nobody) Show(string)                                 {}
func (nobody) Shown(context.Context, string) (bool, error) { return false, nil }

type unlimited struct{}

func (unlimited) Take(<-chan struct{}) bool { return true }
func (unlimited) Leave()                    {}
