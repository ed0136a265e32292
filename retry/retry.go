package retry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/outcomes"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/task"
)

// Config describes the retries of one stream, or of a channel of a stream. App, Stream and Broker
// are required.
type Config struct {
	App, Stream string
	// Channel names the one whose messages they are; empty: they are those of the stream's own
	// handler.
	Channel string
	// Delays are the waits before each further try. Empty: the first failure goes to the dead set.
	Delays []time.Duration
	// DelayQueues is how many queues each delay has, at most [MaxWidth]. Default 1. Messages of one
	// key share one.
	DelayQueues int
	// Jitter is how much shorter a wait may be, as a part of it: 0 (the default) to [MaxJitter].
	// See [NewTopology].
	Jitter float64
	// Broker keeps the queues.
	Broker queue.Broker
	// Source has the records that were too large for the broker, so that a replay of their pointers
	// can handle them. Nil: such a pointer goes back to the dead set.
	Source Source
	// Workers is how many messages run at once. Default 16.
	Workers int
	// Seats are taken for calls, so that others who call the same handler can be counted in. Nil:
	// nobody else does.
	Seats inbox.Seats
	// Prefetch is the most to hold at once; never less than one more than Workers.
	Prefetch inbox.Prefetch
	// HandlerTimeout is the longest a call takes. Default 5 minutes.
	HandlerTimeout time.Duration
	// Grace is that of [inbox.Config].
	Grace time.Duration
	// Suspects says how messages that may kill the process are found.
	Suspects inbox.Suspects
	// FirstLane is the number of the first worker's lane; the others follow.
	FirstLane int
	// Ended is told how long the calls of a lane took. Nil: nobody is.
	Ended func(lane int, all, last time.Duration)
	Telling
	// Telemetry counts what happens. Nil: nobody does.
	Telemetry Telemetry
	// Logger receives what no caller can be told. Nil: slog's default.
	Logger *slog.Logger
}

// Telling is what is told of failures, and to whom.
type Telling struct {
	// By names the process in what a message says of a try that failed, as [envelope.By] makes it.
	// Empty: it is not told.
	By string
	// Died is told of each message that is in the dead set now. Nil: nobody is. It must not wait.
	Died func(Death)
	// Outcome is told what becomes of messages that an operation replayed. Nil: nobody is. It must
	// not wait.
	Outcome func(outcomes.Event)
	// Setting is how users call a setting, by its key, say "rabbitmq.max_message_size". Nil: by
	// that.
	Setting func(key string) string
}

// Death is why a message is in the dead set.
type Death struct {
	// ID is the message's, or the delivery's where the message cannot be read.
	ID       string
	Reason   string
	Attempts int // 0: not known
	// Error, ErrorType and Stack are those of its last try.
	Error, ErrorType, Stack string
	// Group is what that error itself calls its cause; empty: it does not.
	Group string
	// TraceParent and TraceState are the W3C trace context of that try.
	TraceParent, TraceState string
}

// Telemetry counts what becomes of failed messages.
type Telemetry interface {
	// Retried: the message is stored and waits for its next try.
	Retried()
	// HandedOver: the message is stored for its channel.
	HandedOver()
	// Enqueued: the message is stored, and no handler had it before.
	Enqueued()
	// Died: the message is in the dead set for this reason.
	Died(reason string)
	// Duplicate: a message that was settled already was removed without a call.
	Duplicate()
	// Publish: the message with that id is being parked; the returned function hears the outcome.
	// traceParent and traceState are the W3C trace context of the try that failed.
	Publish(id, traceParent, traceState string) (end func(error))
}

// line is the name of the handler, with which its queues' names begin: the stream's, or LineOf its
// channel.
func (c Config) line() string {
	if c.Channel == "" {
		return c.Stream
	}
	return LineOf(c.Stream, c.Channel)
}

// LineOf is the name of a channel among the handlers of an app: its queues begin with it, behind
// the app's name. Streams and channels have no dots in their names, so no two are the same.
func LineOf(stream, channel string) string { return stream + ".channel." + channel }

// Retrier runs the retries of one stream, or of a channel.
type Retrier struct {
	cfg      Config
	topology Topology
	parking  *parking
	inbox    *inbox.Inbox
	trouble  *inbox.Trouble
	former   *former
	logs     logs
	firsts   *firsts
	declared atomic.Bool
}

// Status is what a Retrier does now.
type Status struct {
	inbox.Status
	// Trouble says that messages cannot be parked, and why; empty: nothing is wrong.
	Trouble string
	// Hopeful says that it is worth while to wait for what is being parked: of the messages that
	// Fail was given all are parked, or one at least does not rest and may be confirmed any moment.
	Hopeful bool
}

// mostTurn is how long the wait of a delay queue may be where suspects wait for their turn. Few of
// those that come back at one time get one, and the others wait all of it once more: a hundred
// would take a day with a wait of an hour.
const mostTurn = 5 * time.Second

// New makes a Retrier. It connects nowhere.
func New(cfg Config) (*Retrier, error) {
	cfg.HandlerTimeout = cmp.Or(cfg.HandlerTimeout, 5*time.Minute)
	cfg.Prefetch.ConsumerTimeout = cmp.Or(cfg.Prefetch.ConsumerTimeout, 30*time.Minute)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.Telemetry == nil {
		cfg.Telemetry = uncounted{}
	}
	if cfg.Setting == nil {
		cfg.Setting = func(key string) string { return key }
	}
	if cfg.Died == nil {
		cfg.Died = func(Death) {}
	}
	if cfg.Outcome == nil {
		cfg.Outcome = func(outcomes.Event) {}
	}
	topology, err := NewTopology(cfg.App, cfg.line(), cfg.Delays, cmp.Or(cfg.DelayQueues, 1), cfg.Jitter)
	if cfg.HandlerTimeout > cfg.Prefetch.ConsumerTimeout/2 {
		err = errors.Join(err, fmt.Errorf("handler time-out %s of stream %s is more than half of the broker's consumer time-out %s",
			cfg.HandlerTimeout, cfg.line(), cfg.Prefetch.ConsumerTimeout))
	}
	if err != nil {
		return nil, err
	}
	parking, trouble := newParking(cfg, topology), &inbox.Trouble{SizeSetting: cfg.Setting("rabbitmq.max_message_size")}
	r := &Retrier{
		cfg:      cfg,
		topology: topology,
		parking:  parking,
		trouble:  trouble,
		firsts:   &firsts{parking: parking, trouble: trouble, log: cfg.Logger},
		former:   newFormer(topology, cfg.Logger),
	}
	wait, takes, _ := topology.Shortest()
	suspects := cfg.Suspects
	if takes <= mostTurn {
		suspects.Wait = wait
	}
	owner := &owner{parking: parking, stream: cfg.Stream, channel: cfg.Channel, former: r.former, source: cfg.Source}
	r.inbox = inbox.New(inbox.Config{
		Queue: topology.Instant, Wait: wait,
		Broker: cfg.Broker, Presence: cfg.Broker, Publisher: parking.publisher, Owner: owner, Divert: owner.divert,
		Workers: cfg.Workers, FirstLane: cfg.FirstLane, Seats: cfg.Seats, Prefetch: cfg.Prefetch,
		HandlerTimeout: cfg.HandlerTimeout, Grace: cfg.Grace,
		Suspects: suspects, Trouble: trouble,
		Repeated: cfg.Telemetry.Duplicate, Ended: cfg.Ended, Logger: cfg.Logger,
	})
	return r, nil
}

// Topology is the stream's queues.
func (r *Retrier) Topology() Topology { return r.topology }

// Declare makes the queues that are missing and returns when they are safe to use.
func (r *Retrier) Declare(ctx context.Context) error {
	if err := r.cfg.Broker.Declare(ctx, r.topology.Specs()); err != nil {
		return fmt.Errorf("declare the queues of stream %s: %w", r.cfg.line(), err)
	}
	if err := r.FindRungs(ctx); err != nil {
		return err
	}
	r.declared.Store(true)
	return nil
}

// FindRungs looks for queues of free waits that other processes have declared since.
func (r *Retrier) FindRungs(ctx context.Context) error {
	if err := r.parking.ladder.find(ctx); err != nil {
		return fmt.Errorf("look for the queues of free waits of stream %s: %w", r.cfg.line(), err)
	}
	return nil
}

// Last says that no retry is left once the attempt has failed.
func (r *Retrier) Last(attempt int) bool {
	_, left := r.topology.budget.Wait(max(1, attempt))
	return !left
}

// Rungs names the queues, beside those of the policy, through which waits go that handlers asked
// for.
func (r *Retrier) Rungs() []string { return r.parking.ladder.names() }

// Close ends what Fail, Snooze and Enqueue began in the background, and waits for it. Of these only
// Enqueue may be called after it: a wait then goes through the queues that there are.
func (r *Retrier) Close() { r.parking.ladder.close() }

// Handle works on one message, as [inbox.Handle] does.
type Handle func(ctx context.Context, m *stepwell.Message, t Ticket) task.Outcome

// Ticket settles a message that came from a queue: that of retries, or that of an [Intake]. Call
// Settle, Fail, Snooze or Hand, once, from any goroutine, and return [task.Pending]; or return
// another Outcome.
type Ticket struct {
	inbox.Ticket
	parking *parking
}

// Fail parks the message for its next try or in the dead set, as [Retrier.Fail] does, with all that
// is known of its earlier tries, and settles it when it is safe there. What the handler changed in
// its Message's fields has no effect.
func (t Ticket) Fail(f Failure) {
	t.Park(func(ctx context.Context, e *envelope.Envelope, done func(error)) {
		t.parking.park(ctx, t.parking.pack(e, f), done)
	})
}

// Snooze puts the message off, as [Retrier.Snooze] does, and settles it when it is safe there.
func (t Ticket) Snooze(d time.Duration) {
	t.Park(func(ctx context.Context, e *envelope.Envelope, done func(error)) {
		t.parking.park(ctx, t.parking.putOff(e, d), done)
	})
}

// Hand hands the message over to the channel whose Retrier it is given, as [Retrier.Hand] does, and
// settles it when it is safe there.
func (t Ticket) Hand(to *Retrier, traceParent, traceState string) {
	t.Park(func(ctx context.Context, e *envelope.Envelope, done func(error)) {
		to.parking.park(ctx, to.parking.takeOver(e, traceParent, traceState), done)
	})
}

// Run declares the queues, unless Declare has, and calls handle for each message that comes to the
// instant queue, until stop ends; it returns when all calls have, and is nil for a stop that was
// asked for. When work ends, calls are cancelled and what is not settled goes back. A handle that
// ends its goroutine with runtime.Goexit ends the run with an error.
func (r *Retrier) Run(stop, work context.Context, handle Handle) error {
	if !r.declared.Load() {
		err := r.Declare(stop)
		switch {
		case stop.Err() != nil:
			return nil
		case err != nil:
			return err
		}
	}
	return r.inbox.Run(stop, work, func(ctx context.Context, m *stepwell.Message, t inbox.Ticket) task.Outcome {
		o := handle(ctx, m, Ticket{t, r.parking})
		if came := t.Came(); o == task.Settled {
			r.parking.tellOutcome(came, came.Message.Attempt, outcomes.Handled)
		}
		return o
	})
}

// Pause stops picking messages up; those that were not started go back to their queue. Failures are
// still parked.
func (r *Retrier) Pause() { r.inbox.Pause() }

// Resume ends a pause.
func (r *Retrier) Resume() { r.inbox.Resume() }

// Status tells what is going on.
func (r *Retrier) Status() Status {
	return Status{Status: r.inbox.Status(), Trouble: r.trouble.Text(), Hopeful: r.firsts.hopeful()}
}

// Number says which number the log of a partition has: what fails there from now on bears it. All
// processes take the same position for the same message as long as the number is the same; so it
// has to be another where the log was cut, the topic made anew, or the group rewound by an
// operator: else a process that remembers a try acks that of another message uncalled.
func (r *Retrier) Number(topic string, partition int32, log uint32) {
	r.logs.set(topic, partition, log)
}

type uncounted struct{}

func (uncounted) Retried()    {}
func (uncounted) HandedOver() {}
func (uncounted) Enqueued()   {}
func (uncounted) Died(string) {}
func (uncounted) Duplicate()  {}

func (uncounted) Publish(_, _, _ string) func(error) { return func(error) {} }
