package actor

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell/server"
)

// stream is one stream of an actor: a line, and the source whose messages it handles.
type stream struct {
	*line
	source   source
	kafka    *kafka // the source, for what there is in Kafka alone: its options, its partitions
	setting  func(key string) string
	pausing  sync.Mutex // held by who pauses, goes on, or makes the source
	paused   atomic.Bool
	progress progress
	trouble  atomic.Pointer[string] // why the stream waits before it reads; nil: it does not
}

// source is where messages come from first, if it has positions to commit: what acks each message
// is an inbox of the line instead. It hands its messages to the line's dispatch, with tickets.
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
	server.Status        // as far as it is the source's
	Waits         string // for what it waits before it hands anything out; empty: it does not
	Says          string // how it is, in a few words
	Behind        bool   // there is something that it has not handed out
	First         string // names the message that holds the window; empty: there is none
}

func (a *Actor) newStream(id string, s Stream) (*stream, error) {
	k, err := a.newKafka(id)
	if err != nil {
		return nil, err
	}
	l, err := a.newLine(lineConfig{
		id: id, stream: s, source: records{a.brokers, k.extra}, living: k.living,
		logger: a.log.With("stream", id), metrics: a.telemetry.Stream(id),
	})
	if err != nil {
		return nil, err
	}
	st := &stream{line: l, source: k, kafka: k, setting: a.cfg.Variable}
	st.waitsFor("its turn to start")
	return st, nil
}

// open makes the source, as soon as it is known how to reach the cluster. A pause may have come
// before.
func (s *stream) open(opts []kgo.Opt) error {
	s.pausing.Lock()
	defer s.pausing.Unlock()
	if err := s.kafka.open(opts, s.line); err != nil {
		return err
	}
	if s.paused.Load() {
		s.source.Pause()
	}
	return nil
}

// run declares the queues, then reads and retries until stop ends.
func (s *stream) run(stop, work context.Context) error {
	s.waitsFor("RabbitMQ, to declare its queues")
	if !s.declare(stop, s.waitsFor) {
		return nil
	}
	s.trouble.Store(nil)
	defer s.retries.Close()
	g, stop := errgroup.WithContext(stop)
	g.Go(func() error { return s.retries.work(stop, work) })
	g.Go(func() error { return s.source.Run(stop, work) })
	return g.Wait()
}

func (s *stream) waitsFor(what string) { s.trouble.Store(&what) }

// Pause holds the stream's source and retries back on this instance.
func (s *stream) Pause() {
	s.pausing.Lock()
	defer s.pausing.Unlock()
	s.paused.Store(true)
	s.source.Pause()
	s.retries.Pause()
}

// Resume ends a pause.
func (s *stream) Resume() {
	s.pausing.Lock()
	defer s.pausing.Unlock()
	s.paused.Store(false)
	s.source.Resume()
	s.retries.Resume()
}
