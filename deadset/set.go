// Package deadset looks into a stream's dead set, and replays or deletes what rests there, by count, oldest first.
//
// A walk holds the queue's lease from its first look to the moment at which the queue shows what it must, so that what one person
// sees is what the next command acts on. A message is published and confirmed before it is removed: a crash at any point leaves it
// where it was, or in both places, never in none.
package deadset

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// Config says which dead set.
type Config struct {
	App, Stream string
	// Queue is the dead set, Instant the queue that takes what is replayed.
	Queue, Instant string
	Broker         queue.Broker
	// WalkBytes bounds the memory that a walk keeps; 0: 64 MiB.
	WalkBytes int
}

// Result is what a replay or a delete did.
type Result struct {
	// Requested is the count that was asked for, Done how many messages it was done to, Left how many were in the dead set afterwards.
	Requested, Done, Left int
	// Stopped says why it stopped half way; empty: it did not.
	Stopped string
}

// Page is what a peek saw.
type Page struct {
	// Messages are the oldest, oldest first.
	Messages []Entry
	// Depth is how many there were.
	Depth int
}

const (
	windowSize   = 2000
	defaultBytes = 64 << 20
	// worn is how often a message may have been handed out before it is published anew: below the queue's delivery limit of a million.
	worn = 100_000
	// pageLife is for how long the peeks of one process share a walk.
	pageLife = time.Second
)

// Set is the dead set of one stream.
type Set struct {
	cfg       Config
	publisher queue.Publisher

	peeking chan struct{} // holds a token while nobody peeks

	mu    sync.Mutex
	page  Page
	asked int       // the count that page answers
	at    time.Time // zero: no page
}

// New makes a Set. It connects nowhere.
func New(cfg Config) *Set {
	if cfg.WalkBytes == 0 {
		cfg.WalkBytes = defaultBytes
	}
	s := &Set{cfg: cfg, publisher: cfg.Broker.Publisher(cfg.App + "." + cfg.Stream + " replay"), peeking: make(chan struct{}, 1)}
	s.peeking <- struct{}{}
	return s
}

// Peek returns the count oldest messages and changes nothing. Peeks that come within a second share a walk. The error is
// queue.ErrLeased while another walk is under way, queue.ErrUnavailable when the broker is.
func (s *Set) Peek(ctx context.Context, count int) (Page, error) {
	select {
	case <-s.peeking:
	case <-ctx.Done():
		return Page{}, fmt.Errorf("peek: wait for another peek: %w", ctx.Err())
	}
	defer func() { s.peeking <- struct{}{} }()
	if page, fresh := s.remembered(count); fresh {
		return page, nil
	}
	page, err := s.look(ctx, count)
	if err != nil {
		return Page{}, fmt.Errorf("peek: %w", err)
	}
	s.mu.Lock()
	s.page, s.asked, s.at = page, count, time.Now()
	s.mu.Unlock()
	return page, nil
}

// remembered is a page that is younger than a second and says enough.
func (s *Set) remembered(count int) (Page, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.IsZero() || time.Since(s.at) > pageLife || s.asked < count && len(s.page.Messages) < s.page.Depth {
		return Page{}, false
	}
	return Page{Messages: s.page.Messages[:min(count, len(s.page.Messages))], Depth: s.page.Depth}, true
}

func (s *Set) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Time{}
}

func (s *Set) look(ctx context.Context, count int) (page Page, err error) {
	lease, err := s.cfg.Broker.Lease(ctx, s.cfg.Queue)
	if err != nil {
		return page, err
	}
	defer lease.Release()
	w, err := lease.Window(ctx, min(count, windowSize), s.cfg.WalkBytes)
	if err != nil {
		return page, err
	}
	page.Depth = w.Depth()
	for _, d := range w.Deliveries() {
		page.Messages = append(page.Messages, view(d))
	}
	if _, err := w.Close(ctx); err != nil {
		return page, err
	}
	return page, s.renew(ctx, w.Deliveries())
}

// Replay gives the count oldest messages a full new budget: each is published to the instant queue, and removed here when that is confirmed.
// The result is true also beside an error.
func (s *Set) Replay(ctx context.Context, count int) (Result, error) {
	r, err := s.walk(ctx, count, s.republish)
	if err != nil {
		return r, fmt.Errorf("replay: %w", err)
	}
	return r, nil
}

// Delete removes the count oldest messages for good. The result is true also beside an error.
func (s *Set) Delete(ctx context.Context, count int) (Result, error) {
	r, err := s.walk(ctx, count, func(_ context.Context, all []queue.Delivery) (int, error) {
		for _, d := range all {
			d.Ack()
		}
		return len(all), nil
	})
	if err != nil {
		return r, fmt.Errorf("delete: %w", err)
	}
	return r, nil
}

// walk acts on the count oldest messages, window by window, and on no more than there were at the start. act removes what it is done with,
// oldest first, and says how many.
func (s *Set) walk(ctx context.Context, count int, act func(context.Context, []queue.Delivery) (int, error)) (r Result, err error) {
	s.forget()
	defer s.forget()
	r.Requested = count
	lease, err := s.cfg.Broker.Lease(ctx, s.cfg.Queue)
	if err != nil {
		return r, err
	}
	defer lease.Release()
	for left := count; left > 0 && err == nil; left = min(left, count-r.Done) {
		var step step
		step, err = s.step(ctx, lease, left, act)
		if r.Done == 0 && step.depth < count {
			count = step.depth // those that arrive meanwhile are not ours
		}
		r.Done += step.done
		r.Left = step.after
		if step.done == 0 {
			break
		}
	}
	if err != nil {
		r.Stopped = err.Error()
	}
	return r, err
}

type step struct{ depth, done, after int }

func (s *Set) step(ctx context.Context, lease queue.Lease, limit int, act func(context.Context, []queue.Delivery) (int, error)) (st step, err error) {
	w, err := lease.Window(ctx, min(limit, windowSize), s.cfg.WalkBytes)
	if err != nil {
		return st, err
	}
	st.depth = w.Depth()
	done, err := act(ctx, w.Deliveries())
	// Also after an error, and without a context that is over: what was confirmed must be removed.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	after, closeErr := w.Close(closing)
	if closeErr != nil {
		done = min(done, max(0, w.Depth()-after)) // acks have no confirm: only what is seen to be gone counts
	}
	st.done, st.after = done, after
	return st, errors.Join(err, closeErr)
}

const closeTime = 30 * time.Second
