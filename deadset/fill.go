package deadset

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/queue"
)

// prepareTime is how long a move may take to make its pages: a broker that goes away meanwhile is
// told of, and what somebody wants of the move is obeyed.
const prepareTime = 30 * time.Second

// ErrNoPage says that there is no room in the pages that there may be.
var ErrNoPage = errors.New("no page is free")

// filling puts messages into pages, behind what is there: into those of a dead set, or of its
// trash.
type filling struct {
	set       *Set // whose pages they are
	operation string
	// proven are pages that are known to be as they must be; unproven is why not more are.
	proven   map[int]bool
	unproven error
	// page is the one that is filled; only the goroutine of the walk uses it. full says that it
	// takes no more.
	page lastPage
	full bool
	// end is the first page that may not be filled, used how many have messages.
	end, used int
}

// prepare makes the pages that so many messages need, all at once, since each that is new rests as
// long as all of them do; and it has the broker compare each. Only those are filled. It looks at
// depths without the lease: where they are others by the time that it has it, the turn ends early.
func (m *filling) prepare(ctx context.Context, coming func(context.Context) (int, error)) error {
	ctx, cancel := context.WithTimeout(ctx, prepareTime)
	defer cancel()
	pages, broker := m.set.pages, m.set.cfg.Broker
	var enough bool
	if m.proven, enough = pages.still(m.operation); enough {
		return nil
	}
	// Depths would be waited for until ctx ends, and under an alarm pages be made for nothing.
	if err := broker.Accepts(ctx); err != nil {
		return err
	}
	at, err := pages.state(ctx)
	if err != nil {
		return err
	}
	messages, err := coming(ctx)
	if err != nil {
		return err
	}
	var specs []queue.Spec
	wanted := pages.wanted(m.operation, at.last, at.depth, messages, at.last+1+m.set.cfg.Pages-at.used)
	for _, k := range wanted {
		specs = append(specs, pages.spec(k))
	}
	var proven int
	proven, m.unproven = broker.Prove(ctx, specs)
	m.proven = pages.prove(m.operation, wanted[:proven])
	failpoint.Hit("pages proven")
	return nil
}

// pagesState is how far pages are filled: the last that has messages, how many it has, and how many
// pages have some.
type pagesState struct{ last, depth, used int }

// state looks how far the pages are filled, without the lease.
func (p *pages) state(ctx context.Context) (at pagesState, err error) {
	at.last = -1
	err = p.find(true, func(of queue.Spec) (int, error) { return p.broker.Depth(ctx, of.Name) }, func(k, n int) {
		if n > 0 {
			at.last, at.depth = k, n
			at.used++
		}
	})
	return at, err
}

// top finds the page to fill first: the last one that has messages, if there is room. read reads
// it, and removes what was moved into it from where that came from.
func (m *filling) top(ctx context.Context, parts []part, read func(context.Context, []part) (lastPage, error)) (err error) {
	m.proven, _ = m.set.pages.still(m.operation) // a page that the last look missed is none of them any more
	m.page, err = read(ctx, parts)
	if err == nil && m.page.hidden > 0 {
		if err = m.trim(ctx, pageIn(parts, m.page.number)); err == nil {
			m.page, err = read(ctx, parts)
		}
	}
	m.full = m.page.number < 0 || m.page.count >= queue.WindowSize || m.page.bytes >= m.set.cfg.WalkBytes
	if m.full && m.page.number >= 0 {
		m.set.pages.fit(m.page.count) // so that the next turn makes the page behind it
	}
	m.used = used(parts)
	m.end = min(MaxPages, m.page.number+1+m.set.cfg.Pages-m.used)
	return err
}

// once sees to it that the page has each message once. Before the next one is begun, since there
// would then be no way to tell.
func (m *filling) once(ctx context.Context, parts []part) (err error) {
	p := pageIn(parts, m.page.number)
	if p == nil {
		return nil
	}
	if p.depth, err = p.Depth(ctx); err != nil || p.depth <= m.page.count {
		return err
	}
	return m.trim(ctx, p)
}

// turnedOver is how many messages of a page are published anew at a time to see what lies behind
// them: so few that a window shows what it hides together with what that is a copy of.
const turnedOver = queue.WindowSize / 4

// trim removes second copies from a page that has more than a window shows: the channel broke while
// it was filled, and what was published twice lies behind all that it was to have. Unseen it would
// be taken for a message of its own once the first copy has left. What hides it is published anew,
// to the same page, whose order goes by places; once round at most.
func (m *filling) trim(ctx context.Context, p *part) error {
	s := m.set
	for over, turned := p.depth, 0; ; {
		before := p.depth
		found, _, err := p.clear(ctx, s.cfg.WalkBytes, nil)
		hidden := p.depth - len(found)
		if err != nil || hidden <= 0 || turned > over {
			return err
		}
		if p.depth < before {
			continue
		}
		most := min(hidden, turnedOver)
		st, err := s.step(ctx, *p, renewal(s.publisher, *p, most, fewRenewed), most)
		if turned += st.done; err != nil || st.done == 0 {
			return err
		}
	}
}

// room says whether there is a page to fill, and goes on to the next where the one before is full.
func (m *filling) room() bool {
	if !m.full && m.proven[m.page.number] {
		return true
	}
	if next := m.page.number + 1; next < m.end && m.proven[next] {
		m.page, m.full = lastPage{number: next, place: m.page.place}, false
		return true
	}
	return false
}

// noRoom is for a turn that finds no page to fill: more says that another one may find one, since
// pages are made when it begins, else the error is why there is none. moved: this turn has put
// messages into pages.
func (m *filling) noRoom(moved bool) (more bool, err error) {
	m.set.pages.wantMore()
	switch {
	case moved || m.unproven == nil && m.page.number+1 < m.end:
		return true, nil
	case m.unproven != nil:
		return false, fmt.Errorf("%w: %w", ErrNoPage, m.unproven)
	}
	key, what, anew := "dead_set.pages", "Replay or delete what they hold", ", or unsort and sort again"
	if m.set.pages.ttl > 0 {
		key, what, anew = "dead_set.trash_pages", fmt.Sprintf("Wait until what was deleted first has been there for %s, or restore it", m.set.pages.ttl), ""
	}
	text := fmt.Sprintf("%d of %d are in use, up to the ", m.used, m.set.cfg.Pages)
	if m.used < m.set.cfg.Pages {
		return false, fmt.Errorf("%w: %slast number, %d. %s%s", ErrNoPage, text, m.page.number, what, anew)
	}
	return false, fmt.Errorf("%w: %snumber %d. %s, or raise %s, up to %d", ErrNoPage, text, m.page.number, what, m.set.cfg.Setting(key), m.set.pages.size())
}

// put begins to move a message into the page.
func (m *filling) put(ctx context.Context, h *held, done func(error)) {
	m.page.place = max(m.page.place+1, time.Now().UnixMicro())
	out := moved(h.Message, m.operation, m.page.place)
	m.page.count++
	m.page.bytes += out.Size()
	m.set.publisher.Publish(ctx, m.set.pages.spec(m.page.number).Name, out, done)
}

// filled notes what a window has shown of how many messages fit into a page. Whether this one takes
// another is seen here: a window that is opened to find that it does not reads a page for nothing.
func (m *filling) filled() {
	failpoint.Hit("page filled")
	m.full = m.full || m.page.count >= queue.WindowSize
	if m.full {
		m.set.pages.fit(m.page.count)
	}
}

// markSize is what the marks of a move add to a message.
const markSize = 100

// isFull says whether the message does not fit into the page: a page holds no more than a window,
// by messages and by bytes, so that one look sees all of it. One message always fits.
func (m *filling) isFull(h *held) bool {
	m.full = m.page.count >= queue.WindowSize || m.page.count > 0 && m.page.bytes+h.Size()+markSize > m.set.cfg.WalkBytes
	return m.full
}
