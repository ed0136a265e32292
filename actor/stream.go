package actor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/server"
)

// stream is one stream of an actor: a line, the source whose messages it handles, and a line for
// each channel.
type stream struct {
	*line
	channels []*line // by name
	source   source
	// kafka is the source that reads, for what there is in Kafka alone: its options, its
	// partitions. It is there also where source is another one, which reads nothing.
	kafka *kafka
	// consumes is the queue of RabbitMQ that is the source here; empty: none is.
	consumes string
	setting  func(key string) string
	bound    leftBound
	// reads: the stream's topics are read in this process.
	reads bool
	// ahead is for how long a delivery waits for a worker at most.
	ahead time.Duration
	// pausing is held by who pauses, resumes, or makes the reader, so that a pause cannot slip in
	// between.
	pausing sync.Mutex
	// pauses are what holds the stream back, one of a scope; they outlive the reader, which may be
	// made after a pause. Nil: there was none yet.
	pauses   atomic.Pointer[[]server.Pause]
	progress progress
	drain    drain // of a retired one
	// trouble is why the stream waits before it reads; nil: it does not.
	trouble atomic.Pointer[string]
}

// source is where messages come from first, and hands them to the line's dispatch, with tickets:
// Kafka, which has positions to commit, or a queue of RabbitMQ, whose messages an inbox of the line
// acks one by one.
type source interface {
	// Run hands messages out until stop ends; nil is a stop that was asked for. What is under way
	// may go on until work ends.
	Run(stop, work context.Context) error
	Pause()
	Resume()
	Status() sourceStatus
}

// sourceStatus is how a source is doing.
type sourceStatus struct {
	server.Status            // as far as it is the source's
	Waits         string     // for what it waits before it hands anything out; empty: it does not
	Says          string     // how it is, in a few words
	Behind        bool       // there is something that it has not handed out
	Held          bool       // all there is to do waits for messages that rest until a known time
	Call          inbox.Call // of a queue: the one that runs for the longest
	First         string     // names the message that holds the window; empty: there is none
}

// newStream puts a stream together, with its channels first: the stream's own line hands over to
// theirs.
func (a *Actor) newStream(id string, s Stream) (*stream, error) {
	k := a.newKafka(id)
	c := lineConfig{
		id: id, handler: Channel{Handler: s.Handler, Use: s.Use, OnDead: s.OnDead}, batch: s.Batch, enqueued: s.Enqueued, cfg: a.cfg.Stream(id),
		fromKafka: kafkaRecords{a.brokers, k.extra},
		logger:    a.log.With("stream", id),
	}
	channels, to, ofChannels := newChannels(a, c, s.Channels)
	c.others = to
	if s.Enqueued || a.cfg.SourceQueue(id) != "" {
		c.metrics = a.telemetry.Queue(id)
	} else {
		c.metrics = a.telemetry.Stream(id)
	}
	l, err := a.newLine(c)
	if err := errors.Join(err, ofChannels); err != nil {
		return nil, err
	}
	st := &stream{line: l, channels: channels, source: modes{a.cfg}.source(id, s, k, l), kafka: k, setting: a.cfg.Variable, bound: leftBound{a.cfg.BoundQueue(id), a.cfg.Variable("streams." + id + ".exchange")}, reads: a.cfg.Reads(id), ahead: inbox.Ahead(a.cfg.RabbitMQ.ConsumerTimeout)}
	if a.cfg.Consumes(id) {
		st.consumes = a.cfg.SourceQueue(id)
	}
	st.waitsFor("its turn to start")
	return st, nil
}

// open makes the source, as soon as it is known how to reach the cluster. A pause may have come
// before.
func (s *stream) open(opts []kgo.Opt) error {
	s.pausing.Lock()
	defer s.pausing.Unlock()
	if err := s.kafka.open(opts, s); err != nil {
		return err
	}
	if len(s.Pauses()) > 0 {
		s.source.Pause()
	}
	return nil
}

// run declares the queues, then reads and retries, as far as that is done here, until stop ends;
// known waits until it is known what is paused in the whole app.
func (s *stream) run(stop, work context.Context, known func(context.Context)) error {
	// A stop came before there was a place for failures: nothing was read.
	if !s.begins(stop, known) {
		return nil
	}
	defer func() {
		for _, l := range s.lines() {
			l.retries.Close()
		}
	}()
	work = handlersOf(work, s)
	all, stop := newTogether(stop)
	for _, l := range s.lines() {
		if l.works || !l.retries.on() { // else another process does
			all.run(func() error { return l.retries.work(stop, work) })
		}
	}
	if s.broker != nil && s.cfg.Exchange == "" {
		all.run(func() error { s.bound.tell(stop, s.line); return nil })
	}
	all.run(func() error { return s.source.Run(stop, work) })
	return all.wait()
}

// lines are the stream's own and those of its channels.
func (s *stream) lines() []*line { return append([]*line{s.line}, s.channels...) }

// declareAll makes the queues of all lines: before the first message there is a place for failures,
// and one for what is handed over. It reports false when stop ended.
func (s *stream) declareAll(stop context.Context) bool {
	s.waitsFor("RabbitMQ, to declare its queues")
	var all sync.WaitGroup
	for _, l := range s.lines() {
		all.Go(func() { l.declare(stop, func(why string) { s.waitsFor("its queues: " + why) }) })
	}
	all.Wait()
	return stop.Err() == nil
}

// confirmsHealthy tells whether it is worth while to wait for what is being parked or handed over.
func (s *stream) confirmsHealthy() bool {
	return !slices.ContainsFunc(s.lines(), func(l *line) bool { return !l.confirmsHealthy() })
}

// numbered returns what is told the numbers of logs; nil: nothing is ever parked, and nobody
// remembers positions.
func (s *stream) numbered() func(topic string, partition int32, log uint32) {
	if !slices.ContainsFunc(s.lines(), func(l *line) bool { return l.retries.on() }) {
		return nil
	}
	return func(topic string, partition int32, log uint32) {
		for _, l := range s.lines() {
			l.retries.Number(topic, partition, log)
		}
	}
}

// waitsFor says what the stream waits for before it reads; it makes the actor unready.
func (s *stream) waitsFor(what string) { s.trouble.Store(&what) }
