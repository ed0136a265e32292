package deadset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// A trash keeps for a while what was deleted. It is a run of pages as a sort makes them, whose
// queues drop what has been there for that long, so that nobody has to empty it. Its name says for
// how long: what was put into the trash of another setting is there still.
//
// What is deleted is moved there as a sort moves into pages: published with the mark of who
// deletes, removed when that is confirmed, and a page is begun when all that was moved into the one
// before is removed. So where a delete was cut off, what lies in two places lies in the last page
// of the trash, and the same operation removes it, unpublished, when it goes on.

// TrashOf names a page of the trash of the dead set whose queue is given, for what is kept so long.
func TrashOf(deadSet string, keep time.Duration, k int) string {
	return trashPrefix(deadSet, keep) + strconv.Itoa(k)
}

func trashPrefix(deadSet string, keep time.Duration) string {
	return deadSet + ".trash." + strconv.FormatInt(int64(keep/time.Second), 10) + "."
}

// Trash is what deletes have left of a dead set, as [Set.Trash] returns it.
type Trash struct {
	from *Set // the dead set
	set  *Set // whose pages are those of the trash
}

// Trash is where deletes put what they keep so long, in whole seconds, 1 or more. It makes nothing:
// queues come with the first delete.
func (s *Set) Trash(keep time.Duration) Trash {
	s.trashes.mu.Lock()
	defer s.trashes.mu.Unlock()
	of := s.trashes.of[keep]
	if of == nil {
		cfg := s.cfg
		cfg.Pages, cfg.Index = cfg.TrashPages, nil // its pages are emptied by time, which the index knows nothing of
		of = newSet(cfg, s.publisher, newPages(&cfg, keep))
		s.trashes.of[keep] = of
	}
	return Trash{s, of}
}

// trashes are sets of one dead set, by how long they keep what is in them.
type trashes struct {
	mu sync.Mutex
	of map[time.Duration]*Set
}

func (t *trashes) all() []*Set {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.of))
}

// Find lists what is in the trash, in the order in which it was deleted; see [Set.Find].
func (t Trash) Find(ctx context.Context, q Query) (List, error) { return t.set.Find(ctx, q) }

// Room is about how many more messages fit, where they are not so large that fewer than 2000 make
// a page. It has no lease: it does not know which run of pages is filled, only how many have some.
// It waits for the broker as long as who makes pages.
func (t Trash) Room(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, prepareTime)
	defer cancel()
	at, err := t.set.pages.state(ctx)
	if err != nil {
		return 0, fmt.Errorf("look at the trash: %w", err)
	}
	room := max(0, t.set.cfg.Pages-at.used) * queue.WindowSize
	if at.last >= 0 {
		room += max(0, queue.WindowSize-at.depth)
	}
	return room, nil
}

// errLater: pages have to be made before a move goes on.
var errLater = errors.New("the next turn makes pages")

// later is what a turn returns of an error of [trashing.ready].
func later(err error) error {
	if errors.Is(err, errLater) {
		return nil
	}
	return err
}

// trashing moves messages into a trash.
type trashing struct {
	filling
	from *Set
	// parts are the pages of the trash, as they were when the lease was taken.
	parts []part
	// there has the prints of what the operation has moved into the last of them: what it was cut
	// off with is removed where it was, and not published again.
	there prints
	// opened: there was a window before. moved: something was put into pages. blocked: there is no
	// page to fill, which is no matter where nothing has to be moved.
	opened, moved, blocked bool
}

func (t Trash) into(operation string) *trashing {
	return &trashing{filling: filling{set: t.set, operation: operation}, from: t.from}
}

// prepare makes the pages that are needed, before the lease is taken.
func (m *trashing) prepare(ctx context.Context, most int) error {
	return m.filling.prepare(ctx, func(ctx context.Context) (int, error) {
		depth, _, err := m.from.pages.depth(ctx)
		return min(most, depth), err
	})
}

// errand moves at most so many messages.
func (m *trashing) errand(most int, enough <-chan struct{}) errand {
	return errand{most: most, enough: enough, begin: m.begin, ready: m.ready, full: m.takesNo, act: func(ctx context.Context, h *held, done func(error)) {
		if m.has(h) {
			done(nil)
			return
		}
		m.moved = true
		m.put(ctx, h, done)
	}}
}

// has says whether the message is there already.
func (m *trashing) has(h *held) bool {
	if len(m.there) == 0 {
		return false
	}
	of, known := h.printed()
	return known && m.there[of]
}

// begin reads the page that is filled first.
func (m *trashing) begin(ctx context.Context, lease queue.Lease) (err error) {
	if m.parts, err = m.set.pages.parts(ctx, lease); err != nil {
		return err
	}
	return m.top(ctx, m.parts, func(ctx context.Context, parts []part) (lastPage, error) {
		at, found, err := readLast(ctx, parts, m.set.cfg.WalkBytes)
		m.there = prints{}
		for _, h := range found {
			if of, known := h.printed(); known && h.found().isDeletedBy(m.operation) {
				m.there[of] = true
			}
		}
		return at, err
	})
}

// takesNo says whether there is no room for the message.
func (m *trashing) takesNo(h *held) bool { return m.blocked || m.isFull(h) }

// ready finds a page to fill for the next window. Where there is none, and that window came upon
// something to move, the next call returns why.
func (m *trashing) ready(ctx context.Context) error {
	if m.opened {
		m.filled()
	}
	m.opened = true
	if m.moved {
		if err := m.once(ctx, m.parts); err != nil {
			return err
		}
	}
	switch {
	case m.room():
		return nil
	case !m.blocked:
		m.blocked = true
		return nil
	}
	more, err := m.noRoom(m.moved)
	if more {
		return errLater
	}
	return err
}

// Trash moves messages of the choice into the trash, with the operation's mark, as Replay replays
// them. Pages are made before the lease is taken, as those of [Pages.Sort]. What is too large to be
// published stays where it is. The error is as that of [Set.Replay], or [ErrNoPage].
func (c Choice) Trash(ctx context.Context, to Trash, enough <-chan struct{}, most int) (Turn, error) {
	to.set.recent.forget()
	defer to.set.recent.forget()
	m := to.into(c.sel.Operation)
	t := Turn{More: true}
	err := m.prepare(ctx, most)
	if err == nil {
		t, err = c.turn(ctx, m.errand(most, enough))
	}
	if err != nil {
		return t, fmt.Errorf("delete to the trash: %w", err)
	}
	return t, nil
}

// Delete moves the count oldest messages of the dead set into the trash, with this mark. Where
// there is an error, which is as that of [Choice.Trash], the Result still says what was done before
// it.
func (t Trash) Delete(ctx context.Context, operation string, count int) (Result, error) {
	t.set.recent.forget()
	defer t.set.recent.forget()
	r, err := t.delete(ctx, operation, count)
	if err != nil {
		r.Stopped = err.Error()
		return r, fmt.Errorf("delete to the trash: %w", err)
	}
	return r, nil
}

// tries is how often a delete by count makes pages and finds none of them free: others fill them.
const tries = 3

func (t Trash) delete(ctx context.Context, operation string, count int) (r Result, err error) {
	r.Requested, r.Left = count, Unknown
	for idle := 0; idle < tries; {
		m := t.into(operation)
		if err := m.prepare(ctx, count-r.Done); err != nil {
			return r, err
		}
		did, err := t.from.walk(ctx, m.errand(count-r.Done, nil))
		r.Done += did.Done
		r.Left, r.TooLarge, r.Stopped = did.Left, did.TooLarge, did.Stopped
		if !errors.Is(err, errLater) {
			return r, err
		}
		if idle++; did.Done > 0 {
			idle = 0
		}
	}
	return r, fmt.Errorf("%w: others fill the pages of the trash as they are made", queue.ErrLeased)
}
