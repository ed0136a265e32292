package deadset

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// Page is what a peek saw.
type Page struct {
	// Messages are the oldest, oldest first, at most 2000.
	Messages []Entry
	// Depth is how many there were.
	Depth int

	pointers []pointed
}

const (
	// worn is how often a message may have been handed out before it is published anew: below the queue's delivery limit of a million.
	worn = 100_000
	// pageLife is for how long the peeks of one process share a walk.
	pageLife = time.Second
)

// shared is a page and the count it answers.
type shared struct {
	page  Page
	count int
}

// Peek returns the count oldest messages and changes nothing. Peeks that come within a second share a walk, unless a replay or
// delete of this process came between. The error is queue.ErrLeased while another walk is under way, queue.ErrUnavailable when
// the broker is.
func (s *Set) Peek(ctx context.Context, count int) (Page, error) {
	select {
	case <-s.peeking:
	case <-ctx.Done():
		return Page{}, fmt.Errorf("peek: wait for another peek: %w", ctx.Err())
	}
	defer func() { s.peeking <- struct{}{} }()
	page, fresh, changes := s.remembered(count)
	if fresh {
		return page, nil
	}
	page, err := s.look(ctx, count)
	if err != nil {
		return Page{}, fmt.Errorf("peek: %w", err)
	}
	s.resolve(ctx, &page)
	s.remember(page, count, changes)
	return page, nil
}

// remembered is a page that is younger than a second and says enough. changes is for remember.
func (s *Set) remembered(count int) (page Page, ok bool, changes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		return page, false, s.changes
	}
	page = s.last.page
	if s.last.count < count && len(page.Messages) < page.Depth {
		return Page{}, false, s.changes
	}
	page.Messages = page.Messages[:min(count, len(page.Messages))]
	return page, true, s.changes
}

// remember keeps the page for a second, unless the dead set was changed since.
func (s *Set) remember(page Page, count, changes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes != changes {
		return
	}
	mine := &shared{page, count}
	s.last = mine
	time.AfterFunc(pageLife, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.last == mine {
			s.last = nil
		}
	})
}

func (s *Set) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = nil
	s.changes++
}

func (s *Set) look(ctx context.Context, count int) (Page, error) {
	lease, err := s.cfg.Broker.Lease(ctx, s.cfg.Queue)
	if err != nil {
		return Page{}, err
	}
	defer lease.Release()
	page, old, err := s.read(ctx, lease, count)
	if err != nil || !old {
		return page, err
	}
	// What is published anew goes to the end of the queue. So look again: what is shown is what the next delete would act on.
	if _, err := s.step(ctx, lease, s.renewal(), queue.WindowSize); err != nil {
		return Page{}, err
	}
	page, _, err = s.read(ctx, lease, count)
	return page, err
}

// read shows the oldest messages. old says that some were handed out too often.
func (s *Set) read(ctx context.Context, lease queue.Lease, count int) (page Page, old bool, err error) {
	w, err := lease.Window(ctx, min(count, queue.WindowSize), s.cfg.WalkBytes)
	if err != nil {
		return page, false, err
	}
	page.Depth = w.Depth()
	all, err := queue.Gather(ctx, w)
	for _, d := range all {
		entry, pointer := view(d)
		if pointer != nil {
			page.pointers = append(page.pointers, pointed{len(page.Messages), pointer})
		}
		page.Messages = append(page.Messages, entry)
		old = old || d.Returns > worn
	}
	_, closeErr := w.Close(ctx)
	return page, old, errors.Join(err, closeErr)
}
