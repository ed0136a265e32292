package deadset

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

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
	seen, err := s.look(ctx, count, func(f found) { oldest = append(oldest, f) })
	if err != nil {
		return Page{}, fmt.Errorf("peek: %w", err)
	}
	page = Page{Messages: s.values.entries(ctx, oldest), Depth: seen.depth}
	s.recent.keepPage(page, count, changes)
	return page, nil
}

// sight is what a look saw.
type sight struct {
	// depth is how many messages there were, seen how many of them were looked at.
	depth, seen int
	bytes       int64 // of those
}

// all is as many as there are.
const all = math.MaxInt

// look tells of the oldest messages, oldest first, and returns as soon as they are known. It reads
// one part after the other, and gives each back before it opens the next: what it held last is
// given back in the background. Where it did not see a part to its end it ends there, so that
// nothing older is left out of what it shows.
func (s *Set) look(ctx context.Context, most int, tell func(found)) (seen sight, err error) {
	lease, err := s.lease(ctx, 0)
	if err != nil {
		return sight{}, err
	}
	parts, err := s.pages.parts(ctx, lease)
	if err != nil {
		lease.Release()
		return sight{}, err
	}
	seen.depth = depthOf(parts)
	var w queue.Window
	var moved prints
	for i := 0; i < len(parts) && err == nil && most > seen.seen; i++ {
		if parts[i].depth == 0 && parts[i].isPage() {
			continue
		}
		if w != nil {
			if _, err = w.Close(ctx); err != nil {
				break
			}
		}
		var whole bool
		w, whole, err = s.read(ctx, parts[i], &moved, most-seen.seen, &seen, tell)
		if err != nil || !whole {
			break
		}
		if i == len(parts)-1 || most == seen.seen {
			s.giveBack(ctx, lease, w)
			return seen, nil
		}
	}
	// What follows is for a look that is not whole: it is no answer before its window's end was
	// seen.
	defer lease.Release()
	if w != nil {
		_, closeErr := w.Close(ctx)
		err = errors.Join(err, closeErr)
	}
	return seen, err
}

// read tells of the oldest messages of a part, at most so many, and leaves the window open. whole
// says that these are all: where they are not, the broker may have ended the window, which only its
// Close tells. What came back too often is published anew, and looked at again: what is shown is
// what the next delete would act on.
func (s *Set) read(ctx context.Context, p part, moved *prints, most int, seen *sight, tell func(found)) (w queue.Window, whole bool, err error) {
	var found []held
	removed := 0
	for again := false; ; again = true {
		// A page is put in order first, so that all of it has to be read.
		oldest := min(most, queue.WindowSize)
		if p.isPage() {
			oldest = queue.WindowSize
		}
		w, err = p.Window(ctx, oldest, s.cfg.WalkBytes)
		if err != nil {
			return nil, false, err
		}
		var here prints
		found, here, removed, err = gather(ctx, w, p, *moved)
		if err != nil || again || !slices.ContainsFunc(found, func(h held) bool { return isWorn(s.cfg.Broker, p, h.Returns) }) {
			whole, *moved = len(found)+removed == min(oldest, w.Depth()), here
			break
		}
		if _, err = w.Close(ctx); err == nil {
			err = s.renewAll(ctx, p)
		}
		if err != nil {
			return nil, false, err
		}
	}
	// What came since the lease was taken is no page's, and is there to be seen.
	seen.depth += w.Depth() - p.depth - removed
	for _, h := range found[:min(most, len(found))] {
		seen.seen++
		seen.bytes += h.size
		tell(h.found)
	}
	return w, whole, err
}
