package actor

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/internal/call"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/seats"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/internal/telemetry"
	"github.com/stepwell/stepwell/retry"
	"github.com/stepwell/stepwell/streams"
)

// line is a handler with its queues: what is called, what becomes of its verdicts, where failures
// are parked and come back from, and where the dead rest. It knows nothing of where messages come
// from first. A stream has one line, and one source that hands messages to its dispatch.
//
// A channel of a stream is a line of its own, without a source. To hand a message over is to
// publish it to the instant queue of another line, and to settle the ticket on the confirm, as a
// first failure is parked. A job that is enqueued is such a publish, too.
//
// A queue of RabbitMQ that is a stream's source is a second inbox of the line, with the seats and
// lanes of first tries. What is asked before a message dies is asked in dispatch, before it is
// parked. A stream whose source is taken away goes on with its line until that is empty.
type line struct {
	id        string // of the stream
	channel   string // empty: the stream's own handler
	cfg       config.Stream
	log       *slog.Logger
	telemetry *telemetry.Stream
	traceURL  string
	dispatch  *dispatch
	// batches gathers the messages of a batch handler; nil: messages are handled one by one.
	batches *batches
	// seats are shared by all calls of the handler, first tries and retries: CONCURRENCY of them.
	seats *seats.Seats
	// works: this process works the line's instant queue off. enqueued: first tries come from
	// there, too.
	works, enqueued bool

	retries retries
	// broker and deadSet are nil where no RabbitMQ is configured.
	broker  queue.Broker
	deadSet *deadset.Set
	// condemn is for what killed the process; nil: there is no place for it, and it runs again.
	condemn task.Handle
}

// retries are the queues of a line: those of a Retrier, or what is left of them where retries are
// off.
type retries interface {
	on() bool
	// Declare returns when there is a place for failures.
	Declare(ctx context.Context) error
	// work works the instant queue off, until stop ends.
	work(stop, work context.Context) error
	// Close is called when nothing fails any more.
	Close()
	Pause()
	Resume()
	Status() retry.Status
	// Number says which number the log of a partition has from here on.
	Number(topic string, partition int32, log uint32)
	Topology() retry.Topology
	// names are the queues whose depths are shown.
	names() []string
	// FindRungs looks for queues of free waits that other processes have declared since.
	FindRungs(ctx context.Context) error
	// Gone says whether a queue that is missing need not be there.
	Gone(name string) bool
}

// who names the handler for people.
func (l *line) who() string {
	if l.channel == "" {
		return "stream " + l.id
	}
	return "channel " + l.channel + " of stream " + l.id
}

// name is what queues are called after.
func (l *line) name() string {
	if l.channel == "" {
		return l.id
	}
	return retry.LineOf(l.id, l.channel)
}

// lineConfig is what a line needs beside the actor.
type lineConfig struct {
	id      string
	handler Channel               // that of a channel, or of the stream itself
	batch   stepwell.BatchHandler // in place of the handler; nil: there is none
	channel string                // empty: it is the stream's own
	// enqueued: its messages are enqueued, and come from its own queue.
	enqueued  bool
	cfg       config.Stream             // its settings
	others    map[string]*retry.Retrier // to which it may hand over
	fromKafka kafkaRecords              // of what is too large for the queues
	logger    *slog.Logger
	metrics   *telemetry.Stream
}

// single is the handler of one message, with its middleware around it, and that of all outermost;
// nil where a middleware returned nil.
func (c *lineConfig) single(all []stepwell.Middleware) stepwell.Handler {
	if c.batch != nil {
		return call.Single(c.batch)
	}
	return stepwell.Chain(stepwell.Chain(c.handler.Handler, c.handler.Use...), all...)
}

// newLine puts a handler and its queues together. It connects nowhere; an error is about the
// settings of this line.
func (a *Actor) newLine(c lineConfig) (*line, error) {
	cfg := c.cfg
	failures, deserts := newFailureLog(c.logger, a.cfg.Log, cfg, a.kept), deserted(c.logger, a.ends)
	l := &line{
		id: c.id, channel: c.channel, enqueued: c.enqueued, cfg: cfg,
		log: c.logger, telemetry: c.metrics, traceURL: a.cfg.Server.TraceURL,
		seats: seats.New(cfg.Concurrency), broker: a.queues,
	}
	if c.handler.OnDead != nil && !a.cfg.HasOnDead(c.id, c.channel) {
		return nil, fmt.Errorf("%s has an OnDead that its configuration was not made for: take that of actor.Load, or name it in OnDead of config.Source", l.who())
	}
	handler := c.single(a.app.Use)
	if handler == nil {
		return nil, fmt.Errorf("%s has no handler: a middleware of it returned nil", l.who())
	}
	l.works = modes{a.cfg}.works(l)
	l.dispatch = &dispatch{
		calls: call.New(call.Config{
			Handler: handler, Batch: c.batch, Timeout: cfg.HandlerTimeout,
			// the source's, then those of retries
			Lanes: 2 * cfg.Concurrency, Telemetry: c.metrics, Tried: failures.tried,
			Direct: c.direct, Deserted: deserts,
		}),
		channels: c.others, telemetry: c.metrics, failures: failures, copies: cfg.HandlerCopy,
		inPlace: newInPlace(cfg),
		hold:    hold{drop: cfg.OnFailure == "drop", pause: cfg.Retry.Delay, longest: max(cfg.Retry.Delay, 30*time.Second)},
	}
	if c.batch != nil {
		if err := l.openBatches(a.cfg); err != nil {
			return nil, err
		}
	}
	l.dispatch.fallback = newFallback(c.handler.OnDead, cfg, deserts)
	// With retries a failure is parked and condemned messages go to the dead set. Without them a
	// failing message is held, or dropped where the stream is set so.
	if *cfg.Retry.Enabled {
		if err := a.openRetries(l, c); err != nil {
			return nil, err
		}
	} else {
		l.retries = a.newLeft(l)
		if l.dispatch.hold.drop {
			l.condemn = l.dispatch.dropCondemned
		}
	}
	if l.broker != nil {
		l.deadSet = newDeadSet(a, l, c.fromKafka)
	}
	return l, nil
}

// deserted has the streams stop for a handler that ends its goroutine, and then tells of it: the
// log may block.
func deserted(log *slog.Logger, ends chan<- struct{}) func(m *stepwell.Message, n int) {
	return func(m *stepwell.Message, n int) {
		select {
		case ends <- struct{}{}:
		default: // one is enough
		}
		attrs := []any{"id", m.ID, "attempts", m.Attempt}
		if n > 1 {
			attrs = append(attrs, "messages", n)
		}
		log.Error("a handler ended its goroutine with runtime.Goexit, which stops the actor", attrs...)
	}
}

// openBatches makes what gathers the messages of a batch handler.
func (l *line) openBatches(all *config.Config) error {
	cfg := l.cfg
	order, err := streams.ParseOrder(cfg.Order)
	if err != nil {
		return fmt.Errorf("stream %s: %w", l.id, err)
	}
	if all.SourceQueue(l.id) != "" {
		order = streams.OrderNone // a queue has no keys
	}
	l.batches = newBatches(l.dispatch, batchConfig{
		size: cfg.Batch.Size, wait: cfg.Batch.Wait, atOnce: cfg.Concurrency, order: order, seats: l.seats.First(),
	})
	return nil
}

// openRetries makes the queues of a line whose failures go through RabbitMQ.
func (a *Actor) openRetries(l *line, c lineConfig) error {
	cfg := l.cfg
	r, err := retry.New(retry.Config{
		App: a.cfg.App.Name, Stream: c.id, Channel: c.channel,
		Delays: budgetOf(cfg.Retry), DelayQueues: cfg.Retry.DelayQueues, Jitter: cfg.Retry.Jitter,
		Broker: a.queues, Source: c.fromKafka,
		Workers: cfg.Concurrency, FirstLane: cfg.Concurrency, Ended: l.dispatch.calls.Ended,
		Seats: l.seats.Retry(), Prefetch: inbox.Prefetch{Messages: cfg.Retry.Prefetch, Bytes: cfg.WindowBytes, ConsumerTimeout: a.cfg.RabbitMQ.ConsumerTimeout},
		Suspects: inbox.Suspects{
			Limit: *cfg.CrashLimit, Token: &a.token, Process: a.process,
			AloneFor: aloneFor(cfg), Probation: cfg.CrashProbation,
		},
		HandlerTimeout: cfg.HandlerTimeout, Grace: grace(a.cfg),
		Telling:   retry.Telling{By: envelope.By(instance(), versionOf(&a.app)), Died: l.dispatch.failures.died, Outcome: a.outcomes.Tell, Setting: a.cfg.Variable},
		Telemetry: c.metrics, Logger: c.logger,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", l.who(), err)
	}
	if l.dispatch.fallback != nil {
		l.dispatch.fallback.last = r.Last
	}
	batches := 0
	if c.batch != nil {
		batches = cfg.Concurrency
	}
	inPlace := l.dispatch.inPlace.says(
		bound{a.cfg.Variable("window_span"), cfg.WindowSpan}, bound{a.cfg.Variable("window_messages"), cfg.WindowMessages}, batches)
	l.dispatch.retrier, l.retries, l.condemn = r, queued{r, l.dispatch.fromQueue, inPlace, c.logger}, l.dispatch.parkCondemned
	return nil
}

// newDeadSet makes the dead set of a line. It is served also where retries are off: what died
// before is still there.
func newDeadSet(a *Actor, l *line, fromKafka kafkaRecords) *deadset.Set {
	topology := l.retries.Topology()
	return deadset.New(deadset.Config{
		App: a.cfg.App.Name, Stream: l.name(), Queue: topology.DeadSet, Instant: topology.Instant,
		Broker: a.queues, MaxEdited: a.cfg.RabbitMQ.MaxMessageSize - envelope.MaxHeaders, Source: fromKafka,
		Pages: a.cfg.DeadSet.Pages, TrashPages: a.cfg.DeadSet.TrashPages, KeepPages: a.cfg.RabbitMQ.Declare == "check",
		WalkBytes: a.cfg.DeadSet.WalkBytes, Index: a.index, Setting: a.cfg.Variable, Logger: l.log,
	})
}

// aloneFor is how long a suspect may hold the token: no call that heeds its context takes as long.
func aloneFor(cfg config.Stream) time.Duration { return 2 * cfg.HandlerTimeout }

// declare makes the queues. What is in the way may be removed by an operator at any time, so it
// tries until stop ends, and says what it waits for.
func (l *line) declare(stop context.Context, waits func(why string)) {
	const pause = 5 * time.Second
	for said := ""; ; {
		err := l.retries.Declare(stop)
		if err == nil || stop.Err() != nil {
			return
		}
		// The probe says it each time, the log only when the reason is another one.
		waits(err.Error())
		if err.Error() != said {
			said = err.Error()
			l.log.Error("the stream waits until its queues can be declared", "error", err)
		}
		if !task.Sleep(stop, pause) {
			return
		}
	}
}

// closeDeadSet waits until the last peek has given back what it held.
func (l *line) closeDeadSet(ctx context.Context) {
	if l.deadSet == nil {
		return
	}
	if err := l.deadSet.Close(ctx); err != nil {
		l.log.Warn("a peek has not given back all it held: the end of its connection does", "error", err)
	}
}

// confirmsHealthy tells whether it is worth while to wait for what is being parked.
func (l *line) confirmsHealthy() bool {
	if !l.retries.on() {
		return true
	}
	status := l.broker.Status()
	return status.Up && !status.Blocked && l.retries.Status().Hopeful
}

// queued are the retries of a line that has them.
type queued struct {
	*retry.Retrier
	handle  retry.Handle
	inPlace string // which waits are
	log     *slog.Logger
}

func (queued) on() bool { return true }

func (q queued) work(stop, work context.Context) error {
	q.log.Info("failed messages are tried again, after these waits where their handler names no other", "waits", q.Topology().Waits(), "in_place", q.inPlace)
	return q.Run(stop, work, q.handle)
}

func (q queued) names() []string {
	var names []string
	for _, spec := range q.Topology().Specs() {
		names = append(names, spec.Name)
	}
	return slices.Concat(names, q.Rungs(), q.Former())
}
