package actor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/internal/operations"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/records"
	"github.com/stepwell/stepwell/server"
)

// ErrUnknown is wrapped by errors of [Shared]: this process does not know the values at present,
// since it has not been able to read them from RabbitMQ.
var ErrUnknown = errors.New("not known at present")

// Shared are values by name that all processes of an app can look up: what is configured while they
// run, marks, decisions. They are no place for messages. Values outlive the kill of any process and
// of RabbitMQ. They are in a stream of RabbitMQ (x-queue-type), which is not flushed to disk with
// each write: where the power fails on all of its nodes, the last seconds may be gone. A value that
// is returned is the caller's, to write into.
type Shared struct {
	store  *records.Store
	kind   string
	status func() queue.Status // RabbitMQ's
}

// sharing is the store of what an app's processes share; it reads nothing before somebody wants it
// to.
type sharing struct {
	store  *records.Store
	status func() queue.Status // RabbitMQ's
	own    bool                // the app itself has values in it: see [App.Shared]
	once   sync.Once
	used   chan struct{} // closed then
}

// Shared returns the values of a kind, which may be any text but must not begin with "stepwell". It
// is for apps with [App].Shared; else it returns nil.
func (e *Env) Shared(kind string) *Shared {
	if e.shared == nil || !e.shared.own || kind == "" || records.Reserved(kind) {
		return nil
	}
	e.shared.use()
	return &Shared{store: e.shared.store, kind: kind, status: e.shared.status}
}

// Get returns a value as this process knows it, which is what others set until some milliseconds
// ago; longer while RabbitMQ is away. It does not wait. The error wraps [ErrUnknown], as it does
// until all was read after the start.
func (s *Shared) Get(name string) (value json.RawMessage, ok bool, err error) {
	r, ok, err := s.store.Get(s.kind, name)
	return bytes.Clone(r.Value), ok, s.failed(err)
}

// Current is Get for values that must not be out of date for longer than some milliseconds: while
// this process cannot read what others set, as while RabbitMQ is away, the error wraps
// [ErrUnknown], too.
func (s *Shared) Current(name string) (value json.RawMessage, ok bool, err error) {
	r, ok, err := s.store.Current(s.kind, name)
	return bytes.Clone(r.Value), ok, s.failed(err)
}

// Latest returns a value as it is now: what was set before Latest was called, in any process, it
// finds. That takes some milliseconds, and it waits until ctx ends, at most 30 s. The error wraps
// [ErrUnknown].
func (s *Shared) Latest(ctx context.Context, name string) (value json.RawMessage, ok bool, err error) {
	r, ok, err := s.store.Latest(ctx, s.kind, name)
	return bytes.Clone(r.Value), ok, s.failed(err)
}

// All returns all values of this kind by name, of which there are 10,000 at most, as Latest returns
// one.
func (s *Shared) All(ctx context.Context) (map[string]json.RawMessage, error) {
	if err := s.store.Sync(ctx); err != nil {
		return nil, s.failed(err)
	}
	found, err := s.store.All(s.kind)
	if err != nil {
		return nil, s.failed(err)
	}
	all := make(map[string]json.RawMessage, len(found))
	for _, r := range found {
		all[r.Name] = bytes.Clone(r.Value)
	}
	return all, nil
}

// Set stores a value, which is JSON of at most 16 KiB, until a time, to the second; zero: for ever.
// A nil value removes it. Nil means that it is stored, and that every process finds it with Latest.
// An error that wraps [ErrRefused] says that it cannot be stored, as when there are 10,000 of the
// kind already, or 24 MiB of all; after any other it may be stored, or not.
func (s *Shared) Set(ctx context.Context, name string, value json.RawMessage, until time.Time) error {
	return s.failed(s.store.Change(ctx, s.kind, name, func(r records.Record) (records.Record, error) {
		r.Value, r.Until = value, until
		return r, nil
	}))
}

// failed makes an error one of this package, which says why where RabbitMQ is away.
func (s *Shared) failed(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, records.ErrRefused):
		return inWords{err, ErrRefused} // which says so already
	}
	why := ""
	if !errors.Is(err, queue.ErrUnavailable) { // which says why
		why = away(s.status())
	}
	if errors.Is(err, records.ErrUnknown) {
		return fmt.Errorf("%w%s: %w", ErrUnknown, why, err)
	}
	return fmt.Errorf("not known to be stored%s: %w", why, err)
}

// sharedLog is the queue that has what an app's processes share.
func sharedLog(app string) queue.Spec { return queue.Spec{Name: app + ".records", Kind: queue.Log} }

// newSharing makes the store of an app, and nil where there is no RabbitMQ. One that shares no
// values of its own has it for what becomes of replayed messages. operating says that operations on
// dead sets need it, from the start.
func newSharing(app *App, queues queue.Broker, cfg *config.Config, operating bool, log *slog.Logger) (*sharing, error) {
	switch {
	case queues == nil && !app.Shared:
		return nil, nil
	case queues == nil:
		return nil, fmt.Errorf("the app shares values between its processes, which needs RabbitMQ: set %s", cfg.Variable("rabbitmq.url"))
	}
	s := &sharing{status: queues.Status, own: app.Shared, used: make(chan struct{}), store: records.New(records.Config{
		Broker: queues, Log: sharedLog(cfg.App.Name).Name, Logger: log, Large: operations.Large(),
	})}
	if operating {
		s.use()
	}
	return s, nil
}

// wanted says that the app shares values of its own, and has asked for them. Others go on without
// the store, where RabbitMQ does not let them have it: it is nothing to be called for at night.
func (s *sharing) wanted() bool {
	if s == nil || !s.own {
		return false
	}
	select {
	case <-s.used:
		return true
	default:
		return false
	}
}

// read says whether this process knows what is shared, and hears of changes.
func (s *sharing) read() bool {
	known, trouble := s.store.Status()
	return known && trouble == nil
}

// missing is why nothing is shared, where that is not for a moment: the queue is not there and not
// to be made here, a right is missing, it is another queue. Nil: it is not so, as far as is known.
func (s *sharing) missing() error {
	known, trouble := s.store.Status()
	passing := errors.Is(trouble, queue.ErrUnavailable) && !errors.Is(trouble, queue.ErrMissing) ||
		errors.Is(trouble, records.ErrAnew) || errors.Is(trouble, context.Canceled) // this process stops
	if known || trouble == nil || passing {
		return nil
	}
	return trouble
}

// use has the values be read, from the first call on.
func (s *sharing) use() { s.once.Do(func() { close(s.used) }) }

// check says whether this process knows what is shared; nothing, where the app has not asked for
// it. It makes no actor unready: most of one goes on without, and no other instance would do
// better.
func (s *sharing) check() []server.Check {
	if !s.wanted() {
		return nil
	}
	c := server.Check{Name: "shared records", Ready: true, Detail: "known"}
	known, trouble := s.store.Status()
	if !known {
		c.Detail = "not known yet: they are being read"
	}
	if trouble != nil {
		c.Stuck = true
		c.Detail = "not known: " + trouble.Error()
		if known {
			c.Detail = "not read any more, what was known is still used: " + trouble.Error()
		}
	}
	return []server.Check{c}
}

// run reads what the processes share, where the app uses it, until ctx ends.
func (s *sharing) run(ctx context.Context) error {
	if s != nil {
		select {
		case <-s.used:
			return s.store.Run(ctx)
		case <-ctx.Done():
		}
	}
	<-ctx.Done()
	return nil
}
