// Package retry brings failed messages back: it parks them in the queue of their next delay, picks them up when the broker has
// moved them to the instant queue, and puts those without a try left into the dead set.
//
// What decides is pure (policy, topology, prefetch); a [Retrier] acts on it for one stream.
package retry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/solo"
)

// Config describes the retries of one stream. App, Stream and Broker are required.
type Config struct {
	App, Stream string
	// Delays are the waits before each further try. Empty: the first failure goes to the dead set.
	Delays []time.Duration
	// DelayQueues is how many queues each delay has, at most [MaxWidth]. Default 1. Messages of one key share one.
	DelayQueues int
	// Broker keeps the queues.
	Broker queue.Broker
	// Source has the records that were too large for the broker, so that a replay of their pointers can handle them. Nil: such a pointer goes back
	// to the dead set.
	Source Source
	// Workers is how many messages run at once. Default 16.
	Workers int
	// Seats are taken for calls, so that others who call the same handler can be counted in. Nil: nobody else does.
	Seats Seats
	// Prefetch is the most messages to hold at once. Default 200; never less than one more than Workers.
	Prefetch int
	// HandlerTimeout is the longest a call takes. Default 5 minutes.
	HandlerTimeout time.Duration
	// ConsumerTimeout is how long the broker waits for an ack. Default 30 minutes, as RabbitMQ's.
	ConsumerTimeout time.Duration
	// Remember is how many settled tries are remembered, so that a repeat is not called. Default [DefaultRemember].
	Remember int
	// CrashLimit is how many deaths of the process, each while a suspected message ran, are not enough to
	// condemn it. 0: nothing is suspected.
	CrashLimit int
	// Token is held by the suspect that runs. Nil: nobody else has suspects in this process.
	Token *solo.Token
	// Process tells the process from others. 0: a number of the Retrier's own.
	Process uint32
	// Living says which processes live, by their numbers; their deaths were none. Nil: of none it is known.
	Living func(context.Context) (map[uint32]bool, error)
	// AloneFor is how long a suspect that runs holds up other suspects. Default: 10 minutes.
	AloneFor time.Duration
	// Probation is how long a process must have lived, with no suspect running, before a message that ran
	// while another died runs in it again. It must be longer than Living takes to notice a death. Default: a
	// minute.
	Probation time.Duration
	// Died is told of each message that is in the dead set now. Nil: nobody is. It must not wait.
	Died func(Death)
	// Telemetry counts what happens. Nil: nobody does.
	Telemetry Telemetry
	// Logger receives what no caller can be told. Nil: slog's default.
	Logger *slog.Logger
}

// Death is why a message is in the dead set.
type Death struct {
	// ID is the message's, or the delivery's where the message cannot be read.
	ID       string
	Reason   string
	Attempts int // 0: not known
	// Error, ErrorType and Stack are those of its last try.
	Error, ErrorType, Stack string
	// TraceParent and TraceState are the W3C trace context of that try.
	TraceParent, TraceState string
}

// Seats are shared by retries and others who call the same handler.
type Seats interface {
	// Take waits for a seat. It reports false, and there is none, when over is closed first.
	Take(over <-chan struct{}) bool
	// Leave gives it back.
	Leave()
}

// Telemetry counts what becomes of failed messages.
type Telemetry interface {
	// Retried: the message is stored and waits for this attempt.
	Retried(attempt int)
	// Died: the message is in the dead set for this reason.
	Died(reason string)
	// Duplicate: a message that was settled already was removed without a call.
	Duplicate()
	// Publish: the message with that id is being parked; the returned function hears the outcome. traceParent and traceState are the W3C
	// trace context of the try that failed.
	Publish(id, traceParent, traceState string) (end func(error))
}

// Retrier runs the retries of one stream.
type Retrier struct {
	cfg       Config
	topology  Topology
	publisher queue.Publisher
	memory    *memory
	logs      logs
	slow      *slowest
	turn      *turn
	tried     trial
	trials    sync.WaitGroup
	row       atomic.Int32 // how many were condemned since a suspect came to its end
	former    *former
	trouble   trouble
	name      string // of this process

	declared atomic.Bool
	paused   atomic.Bool
	changed  chan struct{}
	inFlight atomic.Int64
}

// Status is what a Retrier does now.
type Status struct {
	Paused bool
	// InFlight counts messages that were picked up and are not settled.
	InFlight int
	// Trouble says that messages cannot be parked, and why; empty: nothing is wrong.
	Trouble string
	// Suspect is the id of the suspected message that runs, or is tried before it runs again; empty: none is.
	Suspect string
	// Hopeful says that no message that Fail has is left, or that one of them may be parked any moment: it is worth while to wait.
	Hopeful bool
}

// New makes a Retrier. It connects nowhere.
func New(cfg Config) (*Retrier, error) {
	cfg.Workers = cmp.Or(cfg.Workers, 16)
	cfg.Prefetch = cmp.Or(cfg.Prefetch, 200)
	cfg.HandlerTimeout = cmp.Or(cfg.HandlerTimeout, 5*time.Minute)
	cfg.ConsumerTimeout = cmp.Or(cfg.ConsumerTimeout, 30*time.Minute)
	cfg.Remember = cmp.Or(cfg.Remember, DefaultRemember)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.Seats == nil {
		cfg.Seats = unlimited{}
	}
	cfg.Token = cmp.Or(cfg.Token, &solo.Token{})
	cfg.Process = cmp.Or(cfg.Process, rand.Uint32()|1)
	cfg.AloneFor = cmp.Or(cfg.AloneFor, 10*time.Minute)
	cfg.Probation = cmp.Or(cfg.Probation, time.Minute)
	if cfg.Living == nil {
		cfg.Living = func(context.Context) (map[uint32]bool, error) { return nil, nil }
	}
	if cfg.Telemetry == nil {
		cfg.Telemetry = uncounted{}
	}
	if cfg.Died == nil {
		cfg.Died = func(Death) {}
	}
	topology, err := NewTopology(cfg.App, cfg.Stream, cfg.Delays, cmp.Or(cfg.DelayQueues, 1))
	if cfg.HandlerTimeout > cfg.ConsumerTimeout/2 {
		err = errors.Join(err, fmt.Errorf("handler time-out %s of stream %s is more than half of the broker's consumer time-out %s",
			cfg.HandlerTimeout, cfg.Stream, cfg.ConsumerTimeout))
	}
	if err != nil {
		return nil, err
	}
	return &Retrier{
		cfg:       cfg,
		topology:  topology,
		publisher: cfg.Broker.Publisher(cfg.App + "." + cfg.Stream),
		memory:    newMemory(cfg.Remember),
		slow:      newSlowest(cfg.Workers, cfg.HandlerTimeout),
		former:    newFormer(topology),
		turn:      newTurn(cfg.Token),
		name:      nameOf(cfg.Process),
		changed:   make(chan struct{}, 1),
	}, nil
}

// Topology is the stream's queues.
func (r *Retrier) Topology() Topology { return r.topology }

// Declare makes the queues that are missing and returns when they are safe to use.
func (r *Retrier) Declare(ctx context.Context) error {
	if err := r.cfg.Broker.Declare(ctx, r.topology.Specs()); err != nil {
		return fmt.Errorf("declare the queues of stream %s: %w", r.cfg.Stream, err)
	}
	r.declared.Store(true)
	return nil
}

// Pause stops picking messages up; those that were not started go back to their queue. Failures are still parked.
func (r *Retrier) Pause() { r.setPaused(true) }

// Resume ends a pause.
func (r *Retrier) Resume() { r.setPaused(false) }

func (r *Retrier) setPaused(paused bool) {
	r.paused.Store(paused)
	select {
	case r.changed <- struct{}{}:
	default: // a signal waits already
	}
}

// Status tells what is going on.
func (r *Retrier) Status() Status {
	return Status{Paused: r.paused.Load(), InFlight: int(r.inFlight.Load()), Trouble: r.trouble.text(), Suspect: r.turn.whose(), Hopeful: r.trouble.hopeful()}
}

// Forget says that the positions of a partition no longer mean the messages that they meant before: call it when its log was cut, its topic made anew,
// or an operator rewound it. What fails there from now on bears a number that no process has seen, so that none takes its tries for those it remembers.
func (r *Retrier) Forget(topic string, partition int32) { r.logs.begin(topic, partition) }

type unlimited struct{}

func (unlimited) Take(<-chan struct{}) bool { return true }
func (unlimited) Leave()                    {}

type uncounted struct{}

func (uncounted) Retried(int) {}
func (uncounted) Died(string) {}
func (uncounted) Duplicate()  {}

func (uncounted) Publish(_, _, _ string) func(error) { return func(error) {} }
