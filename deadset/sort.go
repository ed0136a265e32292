package deadset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/queue"
)

// prepareTime is how long a sort may take to make its pages: a broker that is away is told of, and
// what somebody wants of the sort is obeyed.
const prepareTime = 30 * time.Second

// Pages cuts a dead set into pages, as [Set.Pages] returns it.
type Pages struct{ set *Set }

// Pages is for who looks after the pages of the dead set.
func (s *Set) Pages() Pages { return Pages{s} }

// ErrNoPage says that there is no room in the pages that there may be.
var ErrNoPage = errors.New("no page is free")

// Depth is how many messages the dead set has, and how many of them are in pages. The error wraps
// queue.ErrMissing where there is no dead set.
func (g Pages) Depth(ctx context.Context) (depth, paged int, err error) {
	return g.set.pages.depth(ctx)
}

// Count is Depth when nobody holds any of the messages: those that a look has not given back yet
// are counted too. The error is as that of [Set.Replay].
func (g Pages) Count(ctx context.Context) (depth, paged int, err error) {
	lease, err := g.set.lease(ctx, walkPatience)
	if err != nil {
		return 0, 0, err
	}
	defer lease.Release()
	parts, err := g.set.pages.parts(ctx, lease)
	if err != nil {
		return 0, 0, err
	}
	depth = depthOf(parts)
	return depth, depth - parts[len(parts)-1].depth, nil
}

// Tidy deletes pages that nobody has used for some minutes. Call it now and then: it asks for the
// lease only where there are such pages, as the last looks have shown, and gives up at once where
// another walk has it. What is not deleted now is deleted the next time.
func (g Pages) Tidy(ctx context.Context) error {
	if !g.set.pages.stale(emptyLife) {
		return nil
	}
	lease, err := g.set.lease(ctx, 0)
	if err != nil {
		return err
	}
	defer lease.Release()
	parts, err := g.set.pages.parts(ctx, lease)
	if err != nil {
		return err
	}
	_, err = g.set.pages.drop(ctx, parts, emptyLife)
	return err
}

// Sort moves the oldest of the messages that have arrived into pages, behind what is there, at most
// so many, and begins with no more once enough is closed.
//
// Each is published to a page with the mark of the operation, and removed where it was when that is
// confirmed. What was cut off between the two is found by whoever reads it next, and removed
// without being published again. What is too large to be published with the mark stays where it is.
//
// Pages are made before the lease is taken, since a queue that was just created has to rest: a turn
// that makes some may do nothing else. The Turn is true also beside an error, which is as that of
// [Set.Replay], or [ErrNoPage].
func (g Pages) Sort(ctx context.Context, enough <-chan struct{}, operation string, most int) (t Turn, err error) {
	s := g.set
	// As around a walk.
	s.recent.forget()
	defer s.recent.forget()
	if s.cfg.Pages < 1 {
		return t, fmt.Errorf("sort: %w: %s allows none", ErrNoPage, s.cfg.Setting("dead_set.pages"))
	}
	m := &sorting{set: s, operation: operation, enough: enough}
	// Before the lease: a page that was made must rest.
	preparing, cancel := context.WithTimeout(ctx, prepareTime)
	err = m.prepare(preparing, most)
	cancel()
	if err != nil {
		return t, fmt.Errorf("sort: %w", err)
	}
	lease, err := s.lease(ctx, walkPatience)
	if err != nil {
		return t, err
	}
	defer lease.Release()
	parts, err := s.pages.parts(ctx, lease)
	if err == nil {
		t.Depth = parts[len(parts)-1].depth
		err = m.turn(ctx, parts, most, &t)
	}
	if err != nil {
		return t, fmt.Errorf("sort: %w", err)
	}
	return t, nil
}

// Back moves what is in pages back to where the dead arrive, behind what is there, for programs
// that know no pages; and deletes pages that are empty, however short a time they have been.
//
// It acts as Sort does, but that what it was cut off with may be there twice: what it put down last
// lies at the end of a queue, where no look comes to.
func (g Pages) Back(ctx context.Context, enough <-chan struct{}, most int) (t Turn, err error) {
	s := g.set
	s.recent.forget()
	defer s.recent.forget()
	lease, err := s.lease(ctx, walkPatience)
	if err != nil {
		return t, err
	}
	defer lease.Release()
	parts, err := s.pages.parts(ctx, lease)
	if err != nil {
		return t, err
	}
	t.Depth = depthOf(parts)
	if _, err := s.finishMoves(ctx, parts); err != nil {
		return t, fmt.Errorf("move back: %w", err)
	}
	for _, p := range parts[:len(parts)-1] {
		if p.depth == 0 {
			continue
		}
		if t.More = t.More || isClosed(enough) || t.Done >= most; t.More {
			return t, nil
		}
		st, err := s.step(ctx, p, errand{most: most - t.Done, enough: enough, act: func(ctx context.Context, d queue.Delivery, done func(error)) {
			s.publisher.Publish(ctx, s.cfg.Queue, unmoved(d.Message), done)
		}}, queue.WindowSize)
		t.Done += st.done
		t.LeftOut.TooLarge += st.tooLarge
		if err != nil {
			return t, fmt.Errorf("move back: %w", err)
		}
		t.More = st.cut || st.depth > st.seen
	}
	t.Matched = t.Done
	if parts, err = s.pages.parts(ctx, lease); err != nil {
		return t, err
	}
	// All is back: who may not delete queues is not told that it failed.
	if t.More, err = s.pages.drop(ctx, parts, 0); err != nil {
		s.cfg.Logger.Warn("all is moved back, and empty pages of the dead set could not be deleted", "queue", s.cfg.Queue, "error", err)
	}
	return t, nil
}

// sorting is one turn of a sort.
type sorting struct {
	set       *Set
	operation string
	enough    <-chan struct{}
	// proven are pages that are known to be as they must be; unproven is why not more are.
	proven   map[int]bool
	unproven error
	// page is the one that is filled; only the goroutine of the walk uses it. full says that it
	// takes no more.
	page lastPage
	full bool
	// end is the first page that may not be filled.
	end int
}

// prepare makes the pages that will be needed, all at once, since each that is new rests as long as
// all of them do; and it has the broker compare each. Only those are filled. It looks at depths
// without the lease: where they are others by the time that it has it, the turn ends early.
func (m *sorting) prepare(ctx context.Context, most int) error {
	pages := &m.set.pages
	var enough bool
	if m.proven, enough = pages.still(m.operation); enough {
		return nil
	}
	last, depth, used := -1, 0, 0
	err := pages.find(true, func(name string) (int, error) { return m.set.cfg.Broker.Depth(ctx, name) }, func(k, n int) {
		if n > 0 {
			last, depth = k, n
			used++
		}
	})
	if err != nil {
		return err
	}
	arrived, err := m.set.cfg.Broker.Depth(ctx, m.set.cfg.Queue)
	if err != nil {
		return err
	}
	var specs []queue.Spec
	wanted := pages.wanted(m.operation, last, depth, min(most, arrived), last+1+m.set.cfg.Pages-used)
	for _, k := range wanted {
		specs = append(specs, queue.Spec{Name: PageOf(m.set.cfg.Queue, k), Kind: queue.DeadSet})
	}
	var proven int
	proven, m.unproven = m.set.cfg.Broker.Prove(ctx, specs)
	m.proven = pages.prove(m.operation, wanted[:proven])
	failpoint.Hit("pages proven")
	return nil
}

// turn fills one page after the other, each in a window of its own. It ends when it may move no
// more, when all that was there at its start is gone but what is too large, when there is no page
// to fill, or with the first error.
func (m *sorting) turn(ctx context.Context, parts []part, most int, t *Turn) error {
	if err := m.top(ctx, parts); err != nil {
		return err
	}
	source := parts[len(parts)-1]
	there, tooLarge := source.depth, 0
	for there > tooLarge && t.Done < most {
		if isClosed(m.enough) {
			t.More = true
			break
		}
		if !m.room() {
			m.set.pages.wantMore()
			t.More = t.Done > 0 || m.unproven == nil && m.page.number+1 < m.end // more are made when the next begins
			return m.noRoom(t.More)
		}
		st, err := m.fill(ctx, source, most-t.Done, min(most-t.Done+tooLarge, there))
		there -= st.done
		t.Done += st.done
		t.Matched, t.Unseen, t.LeftOut.TooLarge = t.Done, there, st.tooLarge
		if err == nil {
			err = m.once(ctx, parts)
		}
		if err != nil {
			return err
		}
		if !m.full && st.done == 0 && st.tooLarge == tooLarge {
			break
		}
		tooLarge = st.tooLarge
	}
	return nil
}

// top finds the page to fill first: the last one that has messages, if there is room.
func (m *sorting) top(ctx context.Context, parts []part) (err error) {
	m.proven, _ = m.set.pages.still(m.operation) // a page that the last look missed is none of them any more
	m.page, err = m.set.finishMoves(ctx, parts)
	if err == nil && m.page.hidden > 0 {
		if err = m.trim(ctx, pageIn(parts, m.page.number)); err == nil {
			m.page, err = m.set.finishMoves(ctx, parts)
		}
	}
	m.full = m.page.number < 0 || m.page.count >= queue.WindowSize || m.page.bytes >= m.set.cfg.WalkBytes
	if m.full && m.page.number >= 0 {
		m.set.pages.fit(m.page.count) // so that the next turn makes the page behind it
	}
	m.end = min(MaxPages, m.page.number+1+m.set.cfg.Pages-used(parts))
	return err
}

// once sees to it that the page has each message once. Before the next one is begun, since there
// would then be no way to tell.
func (m *sorting) once(ctx context.Context, parts []part) (err error) {
	p := pageIn(parts, m.page.number)
	if p == nil {
		return nil
	}
	if p.depth, err = p.Depth(ctx); err != nil || p.depth <= m.page.count {
		return err
	}
	return m.trim(ctx, p)
}

// pageIn is the page of that number; nil: the parts have none.
func pageIn(parts []part, number int) *part {
	i := slices.IndexFunc(parts, func(p part) bool { return p.number == number })
	if i < 0 {
		return nil
	}
	return &parts[i]
}

// noRoom is why nothing was moved, unless another turn may move something.
func (m *sorting) noRoom(more bool) error {
	switch {
	case more:
		return nil
	case m.unproven != nil:
		return m.unproven
	}
	setting := m.set.cfg.Setting("dead_set.pages")
	return fmt.Errorf("%w: %d of %d are in use, up to the number %d. Replay or delete what they hold, or raise %s, up to %d",
		ErrNoPage, m.set.cfg.Pages-m.end+m.page.number+1, m.set.cfg.Pages, m.page.number, setting, MaxPages)
}

// used is how many pages have messages.
func used(parts []part) (n int) {
	for _, p := range parts {
		if p.isPage() && p.depth > 0 {
			n++
		}
	}
	return n
}

// room says whether there is a page to fill, and goes on to the next where the one before is full.
func (m *sorting) room() bool {
	if !m.full && m.proven[m.page.number] {
		return true
	}
	if next := m.page.number + 1; next < m.end && m.proven[next] {
		m.page, m.full = lastPage{number: next, place: m.page.place}, false
		return true
	}
	return false
}

// fill moves the oldest that have arrived into the page, in one window: once that is closed, the
// broker has taken all acks, so that nothing of it can be left in both places. What can be, if the
// process dies before, lies in this page alone: see finishMoves.
func (m *sorting) fill(ctx context.Context, from part, most, oldest int) (step, error) {
	s, name := m.set, PageOf(m.set.cfg.Queue, m.page.number)
	st, err := s.step(ctx, from, errand{most: most, enough: m.enough, full: m.isFull, act: func(ctx context.Context, d queue.Delivery, done func(error)) {
		m.page.place = max(m.page.place+1, time.Now().UnixMicro())
		out := moved(d.Message, m.operation, m.page.place)
		m.page.count++
		m.page.bytes += out.Size()
		s.publisher.Publish(ctx, name, out, done)
	}}, oldest)
	failpoint.Hit("page filled")
	if m.full {
		s.pages.fit(m.page.count)
	}
	return st, err
}

// markSize is what the marks of a move add to a message.
const markSize = 100

// isFull says whether the message does not fit into the page: a page holds no more than a window,
// by messages and by bytes, so that one look sees all of it. One message always fits.
func (m *sorting) isFull(d queue.Delivery) bool {
	m.full = m.page.count >= queue.WindowSize || m.page.count > 0 && m.page.bytes+d.Size()+markSize > m.set.cfg.WalkBytes
	return m.full
}
