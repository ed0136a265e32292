package deadset

import (
	"context"
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
	var oldest []found
	seen, err := s.look(ctx, count, nil, func(f found) { oldest = append(oldest, f) })
	if err != nil {
		return Page{}, fmt.Errorf("peek: %w", err)
	}
	page = Page{Messages: s.values.entries(ctx, oldest), Depth: seen.depth}
	s.recent.keepPage(page, count, changes)
	return page, nil
}
