package actor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/seats"
	"github.com/stepwell/stepwell/internal/solo"
	"github.com/stepwell/stepwell/internal/telemetry"
	"github.com/stepwell/stepwell/retry"
	"github.com/stepwell/stepwell/streams"
)

// stream is one stream of an actor: its reader, its retries, its dead set.
type stream struct {
	id        string
	app       *config.Config
	cfg       config.Stream
	log       *slog.Logger
	plain     *slog.Logger // for the reader, which names the stream itself
	telemetry *telemetry.Stream
	dispatch  *dispatch
	retrier   *retry.Retrier   // nil where RETRY_ENABLED is false
	left      *left            // nil where retries are on, or no RabbitMQ is configured
	deadSet   *deadset.Set     // nil where there are neither
	broker    queue.Broker     // nil likewise
	seats     *seats.Seats     // for calls
	extra     func() []kgo.Opt // options for clients, from the app
	token     *solo.Token      // of the process, for suspects
	process   uint32
	paused    atomic.Bool
	progress  progress

	reader  atomic.Pointer[streams.Reader] // nil until the brokers are known
	trouble atomic.Pointer[string]         // why the stream waits before it reads; nil: it does not
}

func (a *Actor) newStream(id string, s Stream) (*stream, error) {
	cfg := a.cfg.Stream(id)
	t := a.telemetry.Stream(id)
	st := &stream{id: id, app: a.cfg, cfg: cfg, log: a.log.With("stream", id), plain: a.log, telemetry: t, seats: seats.New(cfg.Concurrency), token: &a.token, process: a.process}
	st.extra = func() []kgo.Opt {
		if a.app.Kafka == nil {
			return nil
		}
		return a.app.Kafka(id)
	}
	if err := streams.CheckOptions(st.extra()); err != nil {
		return nil, fmt.Errorf("App.Kafka of stream %s: %w", id, err)
	}
	st.waitsFor("its turn to start")
	st.dispatch = &dispatch{
		caller: caller{
			handler:   stepwell.Chain(stepwell.Chain(s.Handler, s.Use...), a.app.Use...),
			timeout:   cfg.HandlerTimeout,
			telemetry: t,
			calls:     newCalls(cfg.Concurrency),
			copies:    cfg.HandlerCopy,
			failures:  newFailureLog(st.log, a.cfg.Log, cfg, a.kept),
		},
		inPlace: inPlace{drop: cfg.OnFailure == "drop", pause: cfg.Retry.Delay, longest: max(cfg.Retry.Delay, 30*time.Second)},
	}
	if !*cfg.Retry.Enabled {
		if st.left = a.newLeft(st); st.left != nil {
			a.openDeadSet(st)
		}
		return st, nil
	}
	var err error
	st.retrier, err = retry.New(retry.Config{
		App: a.cfg.App.Name, Stream: id,
		Delays: retry.Linear(cfg.Retry.Delay, cfg.Retry.Step, *cfg.Retry.Count), DelayQueues: cfg.Retry.DelayQueues,
		Broker: a.queues, Source: records{a.brokers, st.extra},
		Workers: cfg.Concurrency, Seats: st.seats.Retry(), Prefetch: cfg.Retry.Prefetch,
		CrashLimit: *cfg.CrashLimit, Token: st.token, Process: st.process, Living: st.living,
		AloneFor: aloneFor(cfg), Probation: cfg.CrashProbation,
		HandlerTimeout: cfg.HandlerTimeout, ConsumerTimeout: a.cfg.RabbitMQ.ConsumerTimeout,
		Died: st.dispatch.failures.died, Telemetry: t, Logger: st.log,
	})
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", id, err)
	}
	st.dispatch.retrier = st.retrier
	a.openDeadSet(st)
	return st, nil
}

func (a *Actor) openDeadSet(s *stream) {
	s.broker = a.queues
	s.deadSet = deadset.New(deadset.Config{
		App: a.cfg.App.Name, Stream: s.id, Queue: s.topology().DeadSet, Instant: s.topology().Instant,
		Broker: a.queues, Source: records{a.brokers, s.extra}, WalkBytes: a.cfg.DeadSet.WalkBytes, Logger: s.log,
	})
}

// topology is that of the queues; there are some.
func (s *stream) topology() retry.Topology {
	if s.retrier == nil {
		return s.left.topology
	}
	return s.retrier.Topology()
}

// queueNames are the queues whose depths are shown.
func (s *stream) queueNames() []string {
	if s.retrier == nil {
		return s.left.names()
	}
	var names []string
	for _, spec := range s.retrier.Topology().Specs() {
		names = append(names, spec.Name)
	}
	return append(names, s.retrier.Former()...)
}

// aloneFor is how long a suspect may hold the token: no call that heeds its context takes as long.
func aloneFor(cfg config.Stream) time.Duration { return 2 * cfg.HandlerTimeout }

// living says which processes live, as far as the stream's group shows.
func (s *stream) living(ctx context.Context) (map[uint32]bool, error) {
	r := s.reader.Load()
	if r == nil {
		return nil, errors.New("the stream does not read yet")
	}
	return r.Living(ctx)
}

// open makes the reader; kafka are the options that lead to the cluster.
func (s *stream) open(kafka []kgo.Opt) error {
	forgotten := func(string, int32) {}
	if s.retrier != nil {
		forgotten = s.retrier.Forget
	}
	order, err := streams.ParseOrder(s.cfg.Order)
	if err != nil {
		return fmt.Errorf("stream %s: %w", s.id, err)
	}
	r, err := streams.New(streams.Config{
		Stream: s.id, Group: s.cfg.Group, ClientID: s.app.Kafka.ClientID,
		Topics: s.cfg.Topics, Pattern: s.cfg.TopicPattern, Start: s.cfg.Start, MaxAge: s.cfg.MaxAge,
		Concurrency: s.cfg.Concurrency, Seats: s.seats.First(), Order: order,
		WindowMessages: s.cfg.WindowMessages, WindowBytes: s.cfg.WindowBytes, WindowSpan: s.cfg.WindowSpan, Fetchers: s.cfg.Fetchers,
		LeaveTimeout: leaving(s.app), SessionTimeout: s.app.Kafka.SessionTimeout, GroupProtocol: s.app.Kafka.GroupProtocol,
		ReadUncommitted: s.app.Kafka.Isolation == "read_uncommitted",
		Kafka:           kafka, Extra: s.extra, ConfirmsHealthy: s.confirmsHealthy, Forgotten: forgotten, Logger: s.plain, Telemetry: s.telemetry,
		Ended: s.dispatch.ended, Held: s.dispatch.held, CrashLimit: *s.cfg.CrashLimit, Condemn: s.dispatch.condemn(), Escaped: s.dispatch.escaped,
		Token: s.token, Process: s.process, AloneFor: aloneFor(s.cfg), Probation: s.cfg.CrashProbation,
	}, s.dispatch.first)
	if err != nil {
		return fmt.Errorf("stream %s: %w", s.id, err)
	}
	s.reader.Store(r)
	return nil
}

// confirmsHealthy tells whether it is worth while to wait for confirms.
func (s *stream) confirmsHealthy() bool {
	if s.retrier == nil {
		return true
	}
	status := s.broker.Status()
	return status.Up && !status.Blocked && s.retrier.Status().Hopeful
}

// run declares the queues, then reads and retries until stop ends.
func (s *stream) run(stop, work context.Context) error {
	reader := s.reader.Load()
	if s.retrier == nil {
		s.trouble.Store(nil)
		return s.runWithout(stop, work)
	}
	if !s.declare(stop) {
		return nil
	}
	s.log.Info("failed messages are tried again", "waits", s.retrier.Topology().Waits())
	s.trouble.Store(nil)
	g, stop := errgroup.WithContext(stop)
	g.Go(func() error { return s.retrier.Run(stop, work, s.dispatch.again) })
	g.Go(func() error { return reader.Run(stop, work) })
	return g.Wait()
}

// runWithout reads, and looks beside that whether something waits from before retries were off.
func (s *stream) runWithout(stop, work context.Context) error {
	g, stop := errgroup.WithContext(stop)
	if s.left != nil {
		g.Go(func() error {
			s.left.look(stop, s.log)
			return nil
		})
	}
	g.Go(func() error { return s.reader.Load().Run(stop, work) })
	return g.Wait()
}

// declare makes the queues. What is in the way may be removed by an operator at any time, so it tries for ever; it reports false when stop ended.
func (s *stream) declare(stop context.Context) bool {
	const pause = 5 * time.Second
	s.waitsFor("RabbitMQ, to declare its queues")
	for said := ""; ; {
		err := s.retrier.Declare(stop)
		if err == nil {
			return true
		}
		if stop.Err() != nil {
			return false
		}
		s.waitsFor("its queues: " + err.Error())
		if err.Error() != said {
			said = err.Error()
			s.log.Error("the stream waits until its queues can be declared", "error", err)
		}
		if !sleep(stop, pause) {
			return false
		}
	}
}

func (s *stream) waitsFor(what string) { s.trouble.Store(&what) }

// Pause holds the stream's Kafka reader and retries back on this instance.
func (s *stream) Pause() {
	s.paused.Store(true)
	if r := s.reader.Load(); r != nil {
		r.Pause()
	}
	if s.retrier != nil {
		s.retrier.Pause()
	}
}

// Resume ends a pause.
func (s *stream) Resume() {
	s.paused.Store(false)
	if r := s.reader.Load(); r != nil {
		r.Resume()
	}
	if s.retrier != nil {
		s.retrier.Resume()
	}
}
