// Package records keeps named records that every process of an app can look up: operations on dead
// sets and what became of what they replayed, pauses of the whole app, workflows that were made at
// run time, calls that are cancelled. They are settings, wishes and counts, never messages.
//
// All processes read one [queue.Log], from its beginning, and come to the same records, since they
// read the same in the same order. Who changes a record publishes the new one with the offset up to
// which it had read; it counts if nothing of that name came in between. So there is no process that
// has to be alive, nothing to take over, and of two that change one record the second is told.
//
// A log drops its oldest entries as it grows. Before it comes to that, who writes, be it only to
// ask where the log ends, writes again what is old and still counts. docs/adr/0044 says why it is a
// log.
package records

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/stepwell/stepwell/internal/queue"
)

// Bounds of records.
const (
	// MostName is how many bytes kind and name have together at most.
	MostName = 512
	// MostValue is how many bytes a value has at most, unless [Config].Large says otherwise.
	MostValue = 16 << 10
	// Most is how many records of a kind there are at most, without those that are out of date.
	Most = 10_000
)

var (
	// ErrUnknown says that this process does not know the records at present: it has not read all
	// of the log yet, which it needs RabbitMQ for.
	ErrUnknown = errors.New("the records that all processes share are not known at present")
	// ErrAnew is why the records are not known for a moment though nothing is wrong.
	ErrAnew = errors.New("the log is read anew: what was read is perhaps of one that is gone")
	// ErrRefused is wrapped by errors of a change that no other try can help.
	ErrRefused = errors.New("refused")
)

// Record is a value under a kind and a name.
type Record struct {
	Kind, Name string
	// Value is JSON; nil: there is no such record.
	Value json.RawMessage
	// Until is when the record is out of date, to the second; zero: never.
	Until time.Time
}

// Config are the parts of a store.
type Config struct {
	Broker queue.Broker
	// Log is the name of the log.
	Log string
	// Logger is told once why the log is not read. Nil: slog's default.
	Logger *slog.Logger
	// Large are the kinds whose values may have more than MostValue bytes, and how many. One change
	// of such a kind is under way at a time: entries on their way must stay few megabytes.
	Large map[string]int
	// patience is how long an entry may take to come back, and pause how long the one who asks for
	// the end of the log waits before the next question; zero: 30 s and 50 ms.
	patience, pause time.Duration
}

// Store has the records of an app. Its methods may be called from any goroutine; they know
// something while Run runs.
type Store struct {
	cfg       Config
	publisher queue.Publisher
	// writers bounds the changes under way at a time: entries that are too far behind the end of
	// the log when they come do not count.
	writers *semaphore.Weighted
	// renewing is held by the one who writes old records again, large by the one who writes a large
	// one.
	renewing, large *semaphore.Weighted
	// wanted is readable when somebody waits for the end of the log.
	wanted chan struct{}
	// declared is closed when the log is there, over when Run ends.
	declared, over chan struct{}

	mu   sync.Mutex
	fold *fold
	// last is the id of the entry that was read last.
	last string
	// known: all that was in the log when it was first read has been read.
	known bool
	// trouble is why they are not known; nil: nothing is wrong, as far as is known.
	trouble error
	// end ends the reading; nil before it began. lost says that the next begins anew.
	end  context.CancelFunc
	lost bool
	// echoes are told when an entry comes back, by its id: whether it counts.
	echoes map[string]chan bool
	// news are closed when a record of their kind has changed, or all may have.
	news map[string]chan struct{}
	// asking are told when the log was read up to where it ended after they asked.
	asking []chan error
}

// New makes a store. It reads nothing: Run does.
func New(cfg Config) *Store {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	cfg.patience, cfg.pause = cmp.Or(cfg.patience, 30*time.Second), cmp.Or(cfg.pause, 50*time.Millisecond)
	return &Store{
		cfg: cfg, publisher: cfg.Broker.Publisher("records"), writers: semaphore.NewWeighted(100), renewing: semaphore.NewWeighted(1), large: semaphore.NewWeighted(1),
		wanted: make(chan struct{}, 1), declared: make(chan struct{}), over: make(chan struct{}), fold: newFold(), echoes: map[string]chan bool{}, news: map[string]chan struct{}{},
	}
}

// Run reads the log until ctx ends; then it returns nil. It begins again for ever. Run it once.
func (s *Store) Run(ctx context.Context) error {
	defer close(s.over)
	var parts sync.WaitGroup
	parts.Go(func() { s.read(ctx) })
	parts.Go(func() { s.mark(ctx) })
	parts.Wait()
	return nil
}

// read declares the log and follows it, until ctx ends.
func (s *Store) read(ctx context.Context) {
	declared := sync.OnceFunc(func() { close(s.declared) })
	for ctx.Err() == nil {
		err := s.cfg.Broker.Declare(ctx, []queue.Spec{{Name: s.cfg.Log, Kind: queue.Log}})
		if err == nil {
			declared()
			s.ask(nil) // somebody has to, that it be known where the log ends
			err = s.follow(ctx)
		}
		s.told(ctx, err)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// told notes why the log is not read, and logs it unless it is a connection that was lost: that is
// logged where it was noticed.
func (s *Store) told(ctx context.Context, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.trouble != nil && s.trouble.Error() == err.Error()
	if ctx.Err() == nil && !known && (!errors.Is(err, queue.ErrUnavailable) || errors.Is(err, queue.ErrMissing)) {
		s.cfg.Logger.Warn("the records that all processes share are not read", "log", s.cfg.Log, "error", err)
	}
	s.trouble = err
	if !known { // who waits for records may not want to wait for these
		s.tellLocked()
	}
}

// follow reads on from where it was, or from the beginning where the log may be another one: it
// begins with the entry that was read last, by which it knows the log again.
func (s *Store) follow(ctx context.Context) error {
	reading, end := context.WithCancel(ctx)
	defer end()
	s.mu.Lock()
	s.end, s.lost = end, false
	from, last := s.fold.next-1, s.last
	s.mu.Unlock()
	first := from >= 0
	err := s.cfg.Broker.Follow(reading, s.cfg.Log, max(from, 0), func(e queue.Entry) {
		is := first && e.Offset == from && e.ID == last
		if !is {
			s.apply(&e, first) // what should come first has been dropped, or never was in this log
		}
		first = false
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost && ctx.Err() == nil { // it was ended here, which is all that err says
		err = ErrAnew
	}
	if s.lost || errors.Is(err, queue.ErrMissing) || !errors.Is(err, queue.ErrUnavailable) {
		s.fold, s.known = newFold(), false
		s.tellLocked()
	}
	return err
}

// stalled has the log read anew where nothing came since so much had been read. Who reads slowly is
// not sent back to the beginning: it would never come to the end.
func (s *Store) stalled(read int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fold.bytes == read {
		s.rereadLocked()
	}
}

// rereadLocked has the log read from its beginning: what is read is perhaps a log that is gone.
func (s *Store) rereadLocked() {
	if s.end != nil {
		s.lost = true
		s.end()
	}
}

// apply takes an entry in and tells who waits for it. anew says that the log is to be read from its
// beginning instead.
func (s *Store) apply(e *queue.Entry, anew bool) {
	var in entry
	if err := json.Unmarshal(e.Body, &in); err != nil {
		s.cfg.Logger.Warn("an entry of the log of records cannot be read, and is left out", "log", s.cfg.Log, "offset", e.Offset, "error", err)
		in = entry{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if anew {
		s.rereadLocked()
	}
	if s.lost {
		return
	}
	counts := s.fold.apply(e.Offset, len(e.Body), &in)
	s.last = e.ID
	if counts && s.news[in.Kind] != nil {
		close(s.news[in.Kind])
		delete(s.news, in.Kind)
	}
	echo := s.echoes[e.ID]
	if echo == nil {
		return
	}
	delete(s.echoes, e.ID)
	// Here, and not where the mark is waited for: the log may be read anew by then.
	if in.Kind == "" {
		if !s.known {
			s.tellLocked()
		}
		s.known, s.trouble = true, nil
	}
	echo <- counts // it has room for the one answer
}

// Get returns a record as this process knows it, which may be some milliseconds old; false: there
// is none. The error is [ErrUnknown].
func (s *Store) Get(kind, name string) (Record, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known {
		return Record{}, false, s.unknown()
	}
	h := s.fold.kinds[kind][name]
	if !h.counts(time.Now()) {
		return Record{}, false, nil
	}
	return h.Record, true, nil
}

// Current is Get for who must not take as it was what others may have changed since: while the log
// is not read, and until it was read to its end again, the error is [ErrUnknown].
func (s *Store) Current(kind, name string) (Record, bool, error) {
	if _, trouble := s.Status(); trouble != nil {
		return Record{}, false, fmt.Errorf("%w: %w", ErrUnknown, trouble)
	}
	return s.Get(kind, name)
}

// Latest returns a record as it was when Latest was called, or later: it first reads up to the end
// of the log, which takes some milliseconds, and at most as long as ctx lives.
func (s *Store) Latest(ctx context.Context, kind, name string) (Record, bool, error) {
	if err := s.Sync(ctx); err != nil {
		return Record{}, false, err
	}
	return s.Get(kind, name)
}

// All returns the records of a kind, in no order. The error is [ErrUnknown].
func (s *Store) All(kind string) (all []Record, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known {
		return nil, s.unknown()
	}
	now := time.Now()
	for _, h := range s.fold.kinds[kind] {
		if h.counts(now) {
			all = append(all, h.Record)
		}
	}
	return all, nil
}

// Changed returns a channel that is closed when a record of the kind is other than it is now, or
// when this process comes to know the records, does not know them any more, or learns why not.
func (s *Store) Changed(kind string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.news[kind] == nil {
		s.news[kind] = make(chan struct{})
	}
	return s.news[kind]
}

// tellLocked tells all who wait for a change of any kind.
func (s *Store) tellLocked() {
	for kind, news := range s.news {
		close(news)
		delete(s.news, kind)
	}
}

// Status says whether the records are known to this process, and why the log is not read; nil:
// nothing is wrong, as far as is known. What is known is told while the log is not read, too.
func (s *Store) Status() (known bool, trouble error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known, s.trouble
}

// unknown is the error of who cannot be answered; it has the lock.
func (s *Store) unknown() error {
	if s.trouble != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, s.trouble)
	}
	return fmt.Errorf("%w: they are being read", ErrUnknown)
}
