package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/queue"
)

// errLate is told to who waited for an entry that did not come back.
var errLate = errors.New("the log of records did not answer in time")

// Change replaces a record by what change makes of it. It is given the record, without a value
// where there is none, and says what it is to be, a record without a value removing it; an error of
// its own ends Change. It is called again where another process changed the record meanwhile. Kind
// and name stay as they are.
//
// Nil: the record is stored, and each process finds it with Latest from here on, with Get some
// milliseconds later. An error that wraps [ErrRefused] says that nothing was stored; after any
// other it may have been.
func (s *Store) Change(ctx context.Context, kind, name string, change func(Record) (Record, error)) error {
	if err := s.writers.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	defer s.writers.Release(1)
	if s.most(kind) > MostValue {
		if err := s.large.Acquire(ctx, 1); err != nil {
			return fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		defer s.large.Release(1)
	}
	if known, _ := s.Status(); !known { // what was read is needed, and is on its way
		if err := s.Sync(ctx); err != nil {
			return err
		}
	}
	for {
		if err := s.renew(ctx); err != nil {
			return err
		}
		e, err := s.next(kind, name, change)
		if err != nil {
			return err
		}
		if counts, err := s.write(ctx, e); err != nil || counts {
			return err
		}
	}
}

// most is how many bytes a value of the kind has at most.
func (s *Store) most(kind string) int { return max(MostValue, s.cfg.Large[kind]) }

// next is the entry that makes the change, of what is known now.
func (s *Store) next(kind, name string, change func(Record) (Record, error)) (*entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known {
		return nil, s.unknown()
	}
	now, old := time.Now(), Record{Kind: kind, Name: name}
	h := s.fold.kinds[kind][name]
	if h.counts(now) {
		old = h.Record
	}
	r, err := change(old)
	r.Kind, r.Name = kind, name
	switch {
	case err != nil:
		return nil, err
	case kind == "" || name == "" || len(kind)+len(name) > MostName:
		return nil, fmt.Errorf("%w: the name of a record has 1 to %d bytes", ErrRefused, MostName)
	case len(r.Value) > s.most(kind):
		return nil, fmt.Errorf("%w: the value of record %s has %d bytes, and at most %d fit", ErrRefused, name, len(r.Value), s.most(kind))
	case r.Value == nil:
		return newEntry(&r, s.fold.next-1), nil
	}
	// As the log has it: without spaces between, and some characters take six bytes.
	if r.Value, err = json.Marshal(r.Value); err != nil {
		return nil, fmt.Errorf("%w: the value of record %s is not JSON", ErrRefused, name)
	}
	if !s.fold.fits(&r, now) {
		return nil, fmt.Errorf("%w: there is no room for record %s: there are at most %d of a kind, and %d MiB of all; room comes as others end", ErrRefused, name, Most, room(kind)>>20)
	}
	return newEntry(&r, s.fold.next-1), nil
}

// renew writes again what the log would drop before long, and returns when that is there: what is
// written now may push it out. Where somebody else has done so, or changed the record, the entry
// does not count, which is as good. One at a time does it: that leaves the others room enough.
func (s *Store) renew(ctx context.Context) error {
	if !s.renewing.TryAcquire(1) {
		return nil
	}
	defer s.renewing.Release(1)
	s.mu.Lock()
	old := s.fold.old(time.Now())
	s.mu.Unlock()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(mostBehind / 10) // with more at a time the last would be too far behind
	for _, h := range old {
		g.Go(func() error {
			if e := s.again(h); e != nil {
				_, err := s.write(ctx, e)
				return err
			}
			return nil
		})
	}
	return g.Wait()
}

// again is the entry that says once more what is held; nil: it is not held any more.
func (s *Store) again(h *held) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fold.kinds[h.Kind][h.Name] != h {
		return nil
	}
	return newEntry(&h.Record, s.fold.next-1)
}

// newEntry is what is written of a record by one who has read up to the offset.
func newEntry(r *Record, seen int64) *entry {
	e := &entry{Kind: r.Kind, Name: r.Name, Seen: seen, Value: r.Value}
	if !r.Until.IsZero() {
		e.Until = r.Until.Unix()
	}
	return e
}

// write publishes the entry and waits until it has come back, which tells whether it counts.
func (s *Store) write(ctx context.Context, e *entry) (counts bool, err error) {
	body, err := json.Marshal(e)
	if err != nil {
		return false, fmt.Errorf("%w: record %s: %w", ErrRefused, e.Name, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.patience, errLate)
	defer cancel()
	id, echo, stored := strconv.FormatUint(rand.Uint64(), 36), make(chan bool, 1), make(chan error, 1)
	s.mu.Lock()
	s.echoes[id] = echo
	before := s.fold.bytes
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.echoes, id)
		s.mu.Unlock()
	}()
	s.publisher.Publish(ctx, s.cfg.Log, queue.Message{ID: id, Body: body}, func(err error) { stored <- err })
	notKnown := func(why error) (bool, error) { return false, fmt.Errorf("write record %s: %w", e.Name, why) }
	select {
	case err := <-stored:
		if err != nil {
			return notKnown(err)
		}
	// A publish tells nothing before it is confirmed, and under an alarm nothing is confirmed.
	case <-ctx.Done():
		return notKnown(late(ctx, s.cfg.Broker))
	case <-s.over:
		return notKnown(queue.ErrClosed)
	}
	failpoint.Hit("recorded")
	select {
	case counts = <-echo:
		return counts, nil
	case <-ctx.Done():
		if context.Cause(ctx) == errLate { //nolint:errorlint // the cause is that very value
			s.stalled(before)
		}
		return notKnown(late(ctx, s.cfg.Broker))
	case <-s.over:
		return notKnown(queue.ErrClosed)
	}
}

// late is why nobody answered until ctx ended, with what is wrong with the broker by then.
func late(ctx context.Context, broker queue.Broker) error {
	if at := broker.Status(); !at.Up || at.Blocked {
		return fmt.Errorf("%s: %w", at.Detail, context.Cause(ctx))
	}
	return context.Cause(ctx)
}
