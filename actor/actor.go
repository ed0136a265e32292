package actor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/internal/outcomes"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/solo"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/internal/telemetry"
	"github.com/stepwell/stepwell/server"
)

// Actor is an app with its configuration, ready to run once.
type Actor struct {
	app       App
	cfg       *config.Config
	log       *slog.Logger
	telemetry *telemetry.Telemetry
	brokers   Brokers
	producer  *producer
	// shared is nil where the app shares nothing.
	shared *sharing
	// queues is nil where no RabbitMQ is configured.
	queues queue.Broker
	// retries: some stream has retries or channels, so that the actor is not ready without
	// RabbitMQ.
	retries bool
	// streams are sorted by id.
	streams []*stream
	server  *server.Server
	wishes
	// started is set when the user's start function has returned without an error. Probes read it.
	started atomic.Bool
	// token is held by the one message of the process that runs though it may kill it.
	token solo.Token
	// process tells this process from others, in commits and in headers; never 0, which means none.
	process uint32
	depths  depths
	// index bounds what is remembered of the pages of all dead sets.
	index *deadset.Index
	// kept is readable when a failure log has kept something for tellFailures.
	kept chan struct{}
	// ends is readable when a handler has ended its goroutine, which ends the actor.
	ends chan struct{}
	// over is when the budget of the stop ends; zero before the stop began. The goroutine of Run
	// sets it, and parts read it only once their contexts have ended.
	over time.Time
}

// wishes are what people want of the whole app, and what came of it: all its processes share that.
type wishes struct {
	// operations replays and deletes chosen messages of all dead sets.
	operations operator
	// outcomes are those of replayed messages.
	outcomes *outcomes.Book
	// pauses hold streams back in all processes.
	pauses *pauses
}

// New puts an actor together. It connects nowhere; the error is about the app or its configuration.
func New(cfg *config.Config, app App) (*Actor, error) {
	a := &Actor{app: app, cfg: cfg, log: app.Logger, process: rand.Uint32() | 1, kept: make(chan struct{}, 1), ends: make(chan struct{}, 1), index: deadset.NewIndex(cfg.DeadSet.Index)}
	if a.log == nil {
		a.log = newLogger(cfg.Log, os.Stderr)
	}
	var err error
	if a.telemetry, err = telemetry.New(telemetry.Options{
		App: cfg.App.Name, TracerProvider: app.Telemetry.Tracer, MeterProvider: app.Telemetry.Meter,
	}); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	if err := a.openBrokers(); err != nil {
		return nil, err
	}
	if a.shared, err = newSharing(&app, a.queues, cfg, keepsOperations(a), a.log); err != nil {
		return nil, err
	}
	a.outcomes = newOutcomes(a.shared, a.process, a.log)
	a.producer = a.newProducer()
	errs := []error{app.checkKafka(cfg)} // [Load] has said it, but the configuration may be from elsewhere
	for _, id := range slices.Sorted(maps.Keys(app.Streams)) {
		s, err := a.newStream(id, app.Streams[id])
		errs = append(errs, err)
		a.streams = append(a.streams, s)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := a.telemetry.Observe(a.snapshot); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	a.operations = newOperations(a)
	a.pauses = newPauses(a)
	a.server, err = a.newServer()
	return a, err
}

// openBrokers takes the app's brokers, or makes clients of what the configuration names. It
// connects nowhere.
func (a *Actor) openBrokers() error {
	for id := range a.app.Streams {
		of := a.cfg.Stream(id)
		a.retries = a.retries || *of.Retry.Enabled || len(of.Channels) > 0
	}
	a.brokers = a.app.Brokers
	if a.brokers == nil {
		c, err := newConfigured(a.cfg, a.retries, a.log)
		if err != nil {
			return err
		}
		a.brokers = c
	}
	a.queues = a.brokers.Queues()
	return nil
}

// Address is where the HTTP server listens; empty before it does, and when it is off.
func (a *Actor) Address() string { return a.server.Addr() }

// Run runs the actor until ctx ends and stops it against the flow: reading first, then the user's
// functions, then the connections, HTTP last. It is nil for a stop that was asked for and came to
// its end within SHUTDOWN_TIMEOUT. Else the error names what still runs then, a start or stop
// function that does not return among it; its goroutine is left behind.
//
// Under testing/synctest set SERVER_ADDRESS=off, and have brokers without sockets
// (VirtualNetwork of embedded.Options): a bubble's clock stands still while somebody waits on a
// real socket.
func (a *Actor) Run(ctx context.Context) error {
	attrs := []any{"app", a.cfg.App.Name}
	if m := (modes{a.cfg}); !m.all() {
		attrs = append(attrs, "modes", strings.Join(m.Modes, ","))
	}
	if retired := (modes{a.cfg}).retired(); len(retired) > 0 {
		attrs = append(attrs, "retired", strings.Join(retired, ","))
	}
	a.log.Info("start", attrs...)
	if notice := noticeOf(a); notice != "" {
		a.log.Warn(notice)
	}
	for _, warning := range slices.Concat(a.cfg.Warnings(), unexported(a.app.Telemetry, os.Getenv)) {
		a.log.Warn(warning)
	}
	parts := newStack()
	err := a.start(ctx, parts)
	if err == nil {
		select {
		case <-ctx.Done():
		case p := <-parts.failed:
			err = p.tell(a.log)
		}
	}
	// From here the budget runs, however the stop came about.
	a.stopBegins()
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) && !parts.hasFailed() {
		err = nil // the stop came while we were starting
	}
	budget, cancel := context.WithDeadline(context.WithoutCancel(ctx), a.over)
	defer cancel()
	// Telemetry last: the stop itself is measured, too.
	err = errors.Join(err, parts.unwind(budget), a.telemetry.Shutdown(budget))
	a.log.Info("stopped")
	return err
}

// start brings the parts up, each when those it needs are there.
func (a *Actor) start(ctx context.Context, parts *stack) error {
	// The order is that of need: each part may use those above it, and a stop goes the other way.
	// HTTP is first so that probes answer from the beginning to the end.
	parts.push(ctx, "http", a.server.Run)
	parts.push(ctx, "brokers", a.brokers.Run)
	parts.push(ctx, "shared records", a.shared.run)
	parts.push(ctx, "pauses of the app", a.pauses.run)
	parts.push(ctx, "dead sets", a.closeDeadSets)
	parts.push(ctx, "operations", untilStop(ctx, a.operations.Run))
	parts.push(ctx, "producer", a.producer.run)
	parts.push(ctx, "outcomes", a.outcomes.Run)
	parts.push(ctx, "stop function", a.stopFunction) // the user's stop runs when all above it is gone
	// What follows may wait for a part that fails meanwhile, as brokers do that never come up.
	up, over := parts.watch(ctx, a.log)
	err := a.startFunction(up)
	if err == nil {
		a.started.Store(true)
		// Only now: a request to /v1 may need what the start function has opened.
		parts.push(ctx, "requests", a.server.Open)
		err = openStreams(up, a.brokers, a.streams)
	}
	if err := errors.Join(over(), err); err != nil {
		return err
	}
	parts.push(ctx, "depths", a.watchDepths)
	parts.push(ctx, "streams", a.runStreams)
	return nil
}

// openStreams makes the readers of what is read here.
func openStreams(ctx context.Context, brokers Brokers, streams []*stream) error {
	for _, s := range streams {
		if !s.reads {
			continue
		}
		kafka, err := brokers.Kafka(ctx)
		if err != nil {
			return fmt.Errorf("kafka: %w", err)
		}
		if err := s.open(kafka); err != nil {
			return err
		}
	}
	return nil
}

var errShutdown = errors.New("the actor stops and the handler's time is up")

// runStreams runs all readers and retry workers until ctx ends, or a handler ends its goroutine;
// other handlers may then go on for their part of the budget.
func (a *Actor) runStreams(ctx context.Context) error {
	// Two contexts: stop ends the taking of messages, work the calls that are under way, so that
	// what was begun can be settled.
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	ctx, end := context.WithCancel(ctx)
	defer end()
	all, stop := newTogether(ctx)
	// The stream of a handler that ended its goroutine comes to its end once its other calls have,
	// with the error; but one of them may never return.
	all.run(func() error {
		task.Wait(stop, a.ends)
		end()
		return nil
	})
	defer context.AfterFunc(stop, func() { // also where one of them failed: the calls of the others are not waited for any longer
		time.AfterFunc(a.cfg.Shutdown.Timeout-lastPart(a.cfg), func() { cancel(errShutdown) })
	})()
	all.run(func() error {
		a.watchProgress(stop)
		return nil
	})
	all.run(func() error {
		a.tellFailures(stop)
		return nil
	})
	for _, s := range a.streams {
		all.run(func() error { return s.run(stop, work, a.pauses.await) })
	}
	err := all.wait()
	// The failures that are still kept are told with the last of them.
	for _, l := range linesOf(a.streams) {
		l.dispatch.failures.tell(time.Time{})
	}
	return err
}

// linesOf are those of streams and of their channels.
func linesOf(streams []*stream) (all []*line) {
	for _, s := range streams {
		all = append(all, s.lines()...)
	}
	return all
}
