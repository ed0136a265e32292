package actor

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/internal/solo"
	"github.com/stepwell/stepwell/internal/telemetry"
	"github.com/stepwell/stepwell/server"
	"github.com/stepwell/stepwell/streams"
)

// kafka is a stream's source in Kafka.
type kafka struct {
	app   *config.Config
	extra func() []kgo.Opt // options for clients, from the app
	log   *slog.Logger     // the reader names the stream itself
	// setting is the name of a setting, for what the reader says.
	setting func(key string) string
	// token is that of the process: suspects of all streams take turns.
	token   *solo.Token
	process uint32
	// batches gathers what is read; nil: each record is handled by itself.
	batches *batches
	// reader is nil until it is known how to reach the cluster, which may take as long as the
	// brokers are away.
	reader atomic.Pointer[streams.Reader]
}

func (a *Actor) newKafka(id string) *kafka {
	return &kafka{app: a.cfg, log: a.log, setting: func(key string) string { return settingOf(a, key) }, token: &a.token, process: a.process, extra: func() []kgo.Opt {
		if a.app.Kafka == nil || !a.cfg.HasTopics(id) {
			return nil
		}
		return a.app.Kafka(id)
	}}
}

// open makes the reader, which hands what it reads to the stream's line; opts lead to the cluster.
func (k *kafka) open(opts []kgo.Opt, s *stream) error {
	l, cfg := s.line, s.cfg
	order, err := streams.ParseOrder(cfg.Order)
	if err != nil {
		return fmt.Errorf("stream %s: %w", l.id, err)
	}
	config := streams.Config{
		Stream: l.id, Topics: cfg.Topics, Pattern: cfg.TopicPattern, Start: cfg.Start, MaxAge: cfg.MaxAge,
		ReadUncommitted: k.app.Kafka.Isolation == "read_uncommitted",
		Kafka:           streams.Kafka{Options: opts, Extra: k.extra, ClientID: k.app.Kafka.ClientID, Fetchers: cfg.Fetchers},
		Group: streams.Group{
			ID: cfg.Group, Protocol: k.app.Kafka.GroupProtocol,
			SessionTimeout: k.app.Kafka.SessionTimeout, LeaveTimeout: leaving(k.app),
		},
		Window: streams.Window{Messages: cfg.WindowMessages, Bytes: cfg.WindowBytes, Span: cfg.WindowSpan},
		Calls: streams.Calls{
			Concurrency: cfg.Concurrency, Order: order, Seats: l.seats.First(),
			Ended: l.dispatch.calls.Ended, Held: l.dispatch.calls.Held,
		},
		Guard: streams.Guard{
			CrashLimit: *cfg.CrashLimit, Process: k.process, AloneFor: aloneFor(cfg), Probation: cfg.CrashProbation,
			Condemn: l.condemn, Token: k.token,
		},
		ConfirmsHealthy: s.confirmsHealthy, Numbered: s.numbered(),
		Setting: k.setting, Logger: k.log, Telemetry: l.telemetry,
	}
	handle := l.dispatch.fromLog
	if k.batches = l.batches; k.batches != nil { // who gathers takes no seat and measures nothing, and one is enough
		handle = k.batches.gather
		config.Calls = streams.Calls{
			Concurrency: 1, Order: order, Gather: k.batches.gatherAll, Flush: k.batches.Flush, Fetched: k.batches.Fetched,
		}
	}
	r, err := streams.New(config, handle)
	if err != nil {
		return fmt.Errorf("stream %s: %w", l.id, err)
	}
	k.reader.Store(r)
	return nil
}

// Run reads until stop ends.
func (k *kafka) Run(stop, work context.Context) error {
	if k.batches != nil {
		return k.batches.run(stop, work, k.reader.Load().Run)
	}
	return k.reader.Load().Run(stop, work)
}

// Pause holds the reader back.
func (k *kafka) Pause() {
	if r := k.reader.Load(); r != nil {
		r.Pause()
		if k.batches != nil {
			k.batches.Pause()
		}
	}
}

// Resume ends a pause.
func (k *kafka) Resume() {
	if r := k.reader.Load(); r != nil {
		r.Resume()
		if k.batches != nil {
			k.batches.Resume()
		}
	}
}

// Status is the reader's.
func (k *kafka) Status() (s sourceStatus) {
	s.Waits = "has not joined its consumer group yet"
	r := k.reader.Load()
	if r == nil {
		return s
	}
	of := r.Status()
	if k.batches != nil {
		of.Waiting += int64(k.batches.held())
	}
	s.Status = server.Status{
		Joined: of.Joined, Partitions: of.Partitions,
		InFlight: int(of.InFlight), InFlightBytes: int(of.InFlightBytes),
		LastProgress: of.LastProgress, Error: of.Err, Resting: int(of.Resting), Suspects: of.Suspects, Suspect: of.Suspect, SuspectTriedUntil: of.TriedUntil.Truncate(time.Second),
	}
	if of.Joined {
		s.Waits = ""
	}
	if of.Joined && (of.Err == "" || of.Partitions > 0) { // else nobody knows it
		s.Lag = &of.Lag
	}
	s.Says = fmt.Sprintf("%d partitions, lag %d", of.Partitions, of.Lag)
	s.Behind, s.Held = behind(of), held(of)
	if o := of.Oldest; o != nil {
		s.Oldest = &server.Oldest{
			Topic: o.Topic, Partition: o.Partition, Offset: o.Offset, Behind: o.Behind,
			Since: o.Since, AgeSeconds: time.Since(o.Since).Round(time.Millisecond).Seconds(), NextTry: o.NextTry,
		}
		s.First = recordID(s.Oldest)
	}
	return s
}

// behind says that there are records that were not read. The end of a transaction takes an offset
// that no record has: where nobody produces any more, each partition may show a lag of one for
// ever.
func behind(s streams.Status) bool { return s.Lag > int64(s.Partitions) }

// held says that all there is to do are messages that rest until they are tried again, and others
// that wait for them: what was read beside them is settled, and nothing waits to be read.
func held(s streams.Status) bool {
	return s.Resting > 0 && s.InFlight <= s.Resting+s.Waiting && s.Lag-s.Span <= int64(s.Partitions)
}

// lags are those of each partition.
func (k *kafka) lags() (all []telemetry.PartitionLag) {
	if r := k.reader.Load(); r != nil {
		for _, p := range r.Lags() {
			all = append(all, telemetry.PartitionLag(p))
		}
	}
	return all
}
