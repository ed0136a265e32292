package deadset

import (
	"context"
	"errors"
	"fmt"

	"github.com/stepwell/stepwell/internal/queue"
)

// Page is what a peek saw.
type Page struct {
	// Messages are the oldest, oldest first, at most 2000.
	Messages []Entry
	// Depth is how many there were.
	Depth int
}

// Peek returns the count oldest messages and changes nothing. It holds them, and the lease, for
// some moments more than it takes: a replay, a delete or another peek of this Set waits for that.
// Peeks that come within a second share a walk, unless a replay or delete of this process came
// between. The error is queue.ErrLeased while another walk is under way, queue.ErrUnavailable when
// the broker is, and ErrRefused.
func (s *Set) Peek(ctx context.Context, count int) (Page, error) {
	select {
	case <-s.peeking:
	case <-ctx.Done():
		return Page{}, fmt.Errorf("peek: wait for another peek: %w", ctx.Err())
	}
	defer func() { s.peeking <- struct{}{} }()
	if s.closed.Load() {
		return Page{}, fmt.Errorf("peek: %w", queue.ErrClosed)
	}
	page, fresh, changes := s.recent.pageFor(count)
	if fresh {
		return page, nil
	}
	seen, err := s.look(ctx, count)
	if err != nil {
		return Page{}, fmt.Errorf("peek: %w", err)
	}
	page = Page{Messages: s.values.entries(ctx, seen.all), Depth: seen.depth}
	s.recent.keepPage(page, count, changes)
	return page, nil
}

// sight is what a look at the queue saw.
type sight struct {
	all    []found
	depth  int
	worn   bool         // some messages came back so often that the queue might drop them one day
	window queue.Window // holds them still; nil: none was opened
}

// whole says that the page has all that was asked for. Where it has not, the broker may have ended
// the window, which only its Close tells.
func (see *sight) whole(count int) bool {
	return len(see.all) == min(count, see.depth, queue.WindowSize)
}

// look returns the oldest messages as soon as they are known. What it held is given back in the
// background.
func (s *Set) look(ctx context.Context, count int) (sight, error) {
	lease, err := s.lease(ctx, 0)
	if err != nil {
		return sight{}, err
	}
	seen, err := s.read(ctx, lease, count)
	if err == nil && seen.worn {
		seen, err = s.renew(ctx, lease, seen.window, count)
	}
	if err == nil && seen.whole(count) {
		s.giveBack(ctx, lease, seen.window)
		return seen, nil
	}
	// What follows is for a page that is not whole: it is no answer before its window's end was
	// seen.
	defer lease.Release()
	if seen.window != nil {
		_, closeErr := seen.window.Close(ctx)
		err = errors.Join(err, closeErr)
	}
	return seen, err
}

// renew publishes what is worn anew, and looks again: what is shown is what the next delete would
// act on.
func (s *Set) renew(ctx context.Context, lease queue.Lease, w queue.Window, count int) (sight, error) {
	if _, err := w.Close(ctx); err != nil {
		return sight{}, err
	}
	if err := s.renewAll(ctx, lease); err != nil {
		return sight{}, err
	}
	return s.read(ctx, lease, count)
}

// read shows the oldest messages, and leaves the window open.
func (s *Set) read(ctx context.Context, lease queue.Lease, count int) (see sight, err error) {
	see.window, err = lease.Window(ctx, min(count, queue.WindowSize), s.cfg.WalkBytes)
	if err != nil {
		return sight{}, err
	}
	see.depth = see.window.Depth()
	all, err := queue.Gather(ctx, see.window)
	for _, d := range all {
		see.all = append(see.all, find(d))
		see.worn = see.worn || s.isWorn(d.Returns)
	}
	return see, err
}
