package deadset

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/queue"
)

// sight is what a look saw.
type sight struct {
	// depth is how many messages there were, seen how many of them were looked at.
	depth, seen int
}

// all is as many as there are.
const all = math.MaxInt

// look tells of the oldest messages, oldest first, and returns as soon as they are known. It reads
// one part after the other, and gives back what it held of one while it reads the next: what it
// holds at the end is given back in the background. Where it did not see a part to its end it ends
// there, so that nothing older is left out of what it shows.
//
// It reads all pages where wants is nil. Else wants is asked of each page that is remembered and as
// it was, and names those of its messages that have to be read; of the others what is remembered is
// told.
func (s *Set) look(ctx context.Context, most int, wants func(page []found) []int, tell func(found)) (sight, error) {
	lease, err := s.lease(ctx, 0)
	if err != nil {
		return sight{}, err
	}
	parts, err := s.pages.parts(ctx, lease)
	if err != nil {
		lease.Release()
		return sight{}, err
	}
	l := looker{set: s, parts: parts, most: most, wants: wants, tell: tell, first: -1, seen: sight{depth: depthOf(parts)}}
	done, err := l.run(ctx)
	if done && err == nil {
		s.giveBack(ctx, lease, l.close)
		return l.seen, nil
	}
	// What follows is for a look that is not whole: it is no answer before its window's end was
	// seen.
	defer lease.Release()
	return l.seen, errors.Join(err, l.close(ctx))
}

// looker is a look while it is under way.
type looker struct {
	set   *Set
	parts []part
	most  int
	wants func(page []found) []int
	tell  func(found)
	seen  sight
	// first is the part that was read before all others, which has early; below 0: there is none.
	first int
	early []*held
	// moved is what a move put into the last page that has messages.
	moved prints
	// open is the window that was opened last; nil: none is open. last is that before it.
	open queue.Window
	last ending
}

// ending is the end of a window, which is closed while the next one is read.
type ending struct {
	told chan error // nil: there is none
	cut  context.CancelFunc
}

// end begins to close a window. It takes closeTime at most, whatever becomes of ctx.
func end(ctx context.Context, w queue.Window) ending {
	closing, cut := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	told := make(chan error, 1)
	// This goroutine ends with the window, and wait waits for it.
	go func() {
		_, err := w.Close(closing)
		told <- err
	}()
	return ending{told, cut}
}

// wait returns when the window is closed, sooner where ctx ends.
func (e *ending) wait(ctx context.Context) error {
	if e.told == nil {
		return nil
	}
	defer func() { e.told = nil }()
	defer e.cut()
	select {
	case err := <-e.told:
		return err
	case <-ctx.Done():
		e.cut()
		return errors.Join(context.Cause(ctx), <-e.told)
	}
}

// run looks at one part after the other. done says that it has seen as many as it was to see, or
// all; where it has not, the broker may have ended a window, which only its Close tells.
func (l *looker) run(ctx context.Context) (done bool, err error) {
	if l.most == all {
		if err := l.compare(ctx); err != nil {
			return false, err
		}
	}
	for i, p := range l.parts {
		if l.seen.seen >= l.most {
			break
		}
		if p.depth == 0 && p.isPage() {
			continue
		}
		if i == l.first {
			l.add(l.early)
			continue
		}
		known, err := l.recall(ctx, p)
		if err != nil {
			return false, err
		}
		if known {
			continue
		}
		found, whole, err := l.read(ctx, i)
		if err != nil {
			return false, err
		}
		l.add(found[:min(l.most-l.seen.seen, len(found))])
		if !whole {
			return false, nil
		}
		if p.isPage() && l.most == all {
			l.set.index.keep(p, found)
		}
	}
	return true, nil
}

// compare sees which pages are as they were when they were read, and forgets all others.
func (l *looker) compare(ctx context.Context) error {
	x := &l.set.index
	x.use()
	i := -1
	if l.wants != nil {
		i = x.last(l.parts)
	}
	if i < 0 {
		x.forget()
		return nil
	}
	found, whole, err := l.read(ctx, i)
	if err != nil {
		return err
	}
	if !whole {
		x.forget()
		return l.close(ctx)
	}
	x.prove(l.parts, i, found)
	x.keep(l.parts[i], found)
	l.first, l.early = i, found
	return nil
}

// recall tells of a page that is remembered, and says whether it has; else the page has to be read.
func (l *looker) recall(ctx context.Context, p part) (told bool, err error) {
	if l.most < all || l.wants == nil {
		return false, nil
	}
	page := l.set.index.of(p)
	if page == nil {
		return false, nil
	}
	some := l.wants(page)
	read, err := l.pick(ctx, p, page, some)
	if err != nil {
		return false, err
	}
	if len(read) < len(some) {
		return false, l.close(ctx) // before it is opened again
	}
	for i, f := range page {
		if whole, is := read[i]; is {
			f = whole
		}
		l.see(f)
	}
	return true, nil
}

// pick reads a page until it has some of its messages, by their numbers. It has fewer where some
// are not there, since somebody has touched the page who has not the lease, or where the page has
// to be published anew.
func (l *looker) pick(ctx context.Context, p part, page []found, some []int) (read map[int]found, err error) {
	if len(some) == 0 {
		return nil, nil
	}
	if err := l.leave(ctx); err != nil {
		return nil, err
	}
	if l.open, err = p.Window(ctx, queue.WindowSize, l.set.cfg.WalkBytes); err != nil {
		return nil, err
	}
	read = make(map[int]found, len(some))
	for len(read) < len(some) {
		select {
		case d, more := <-l.open.Deliveries():
			if !more || isWorn(l.set.cfg.Broker, p, d.Returns) {
				return nil, nil
			}
			f := find(d)
			i := slices.IndexFunc(some, func(i int) bool { return page[i].isSame(f) })
			if i >= 0 {
				read[some[i]] = f
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return read, nil
}

// add tells of messages that were read.
func (l *looker) add(found []*held) {
	for _, h := range found {
		l.see(*h.found())
	}
}

func (l *looker) see(f found) {
	l.seen.seen++
	l.tell(f)
}

// close gives back all that is held.
func (l *looker) close(ctx context.Context) error {
	return errors.Join(l.leave(ctx), l.last.wait(ctx))
}

// leave begins to give back what the last window holds, once that before it is closed: two at most
// are open.
func (l *looker) leave(ctx context.Context) error {
	err := l.last.wait(ctx)
	if l.open != nil {
		l.last, l.open = end(ctx, l.open), nil
	}
	return err
}

// read reads the oldest messages of a part, as many as are wanted, and leaves the window open.
// whole says that these are all: where they are not, the broker may have ended the window. What
// came back too often is published anew, and looked at again: what is shown is what the next delete
// would act on.
func (l *looker) read(ctx context.Context, i int) (found []*held, whole bool, err error) {
	s, p := l.set, l.parts[i]
	// A page is put in order first, so that all of it has to be read.
	oldest := min(l.most-l.seen.seen, queue.WindowSize)
	if p.isPage() {
		oldest = queue.WindowSize
	}
	for again := false; ; again = true {
		if err := l.leave(ctx); err != nil {
			return nil, false, err
		}
		w, err := p.Window(ctx, oldest, s.cfg.WalkBytes)
		if err != nil {
			return nil, false, err
		}
		l.open = w
		all, removed, err := gather(ctx, w, p, l.moved)
		if err == nil && !again && slices.ContainsFunc(all, func(h *held) bool { return isWorn(s.cfg.Broker, p, h.Returns) }) {
			if err = l.close(ctx); err == nil {
				err = s.renewAll(ctx, p)
			}
			if err == nil {
				continue
			}
		}
		if err != nil {
			return nil, false, err
		}
		if p.number == lastOf(l.parts) {
			l.moved = movedIn(all)
		}
		// What came since the lease was taken is no page's, and is there to be seen.
		l.seen.depth += w.Depth() - p.depth - removed
		return all, len(all)+removed == min(oldest, w.Depth()), nil
	}
}

// reading is wants for a filter that looks at traits alone, and nil for one that needs more: then
// all pages are read.
func reading(of filter.Filter, wants func([]found) []int) func([]found) []int {
	if of.ReadsRecords() {
		return nil
	}
	return wants
}
