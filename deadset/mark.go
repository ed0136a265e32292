package deadset

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/queue"
)

// print names a message by all that it is: id, body and headers, but for what the broker and moves
// write. Two that share it died the same death: of the headers one says when that was.
type print [sha256.Size]byte

func printOf(d *queue.Delivery) print {
	sum := sha256.New()
	add := func(b []byte) {
		_, _ = sum.Write(binary.AppendUvarint(nil, uint64(len(b)))) // so that no two texts run into one
		_, _ = sum.Write(b)
	}
	add([]byte(d.ID))
	add(d.Body)
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		if name == envelope.Moved || name == envelope.Place || name == renewed || queue.OfBroker(name) {
			continue
		}
		add([]byte(name))
		addValue(add, d.Headers[name])
	}
	return print(sum.Sum(nil))
}

// addValue adds a header's value. A list is added value by value: those of a record's headers are
// bytes, which take long as a text.
func addValue(add func([]byte), value any) {
	switch v := value.(type) {
	case string:
		add([]byte(v))
	case []byte:
		add(v)
	case []any:
		add(binary.AppendUvarint(nil, uint64(len(v))))
		for _, one := range v {
			addValue(add, one)
		}
	default:
		add(fmt.Appendf(nil, "%T %v", v, v))
	}
}

// by is the print of what an operation moved: in a trash it is no double of what another one did.
func (p print) by(operation string) print { return sha256.Sum256(append(p[:], operation...)) }

// moved is a message with the marks of a move; place is where it stands among all that were moved.
func moved(m queue.Message, operation string, place int64) queue.Message {
	m.Headers = maps.Clone(m.Headers)
	if m.Headers == nil {
		m.Headers = map[string]any{}
	}
	m.Headers[envelope.Moved], m.Headers[envelope.Place] = operation, place
	return m
}

// unmoved is a message without the marks of a move.
func unmoved(m queue.Message) queue.Message {
	if m.Headers[envelope.Moved] == nil && m.Headers[envelope.Place] == nil {
		return m
	}
	m.Headers = maps.Clone(m.Headers)
	delete(m.Headers, envelope.Moved)
	delete(m.Headers, envelope.Place)
	return m
}

// placeOf is where a move put the message; 0: it was not moved.
func placeOf(d *queue.Delivery) int64 {
	place, _ := d.Headers[envelope.Place].(int64)
	return max(0, place)
}

// held is a message in hand. What can be read of it is read when somebody first asks, and once.
type held struct {
	queue.Delivery
	keep  time.Duration // as its part does; see part
	read  *found
	print *print
}

func hold(d queue.Delivery, p part) *held { return &held{Delivery: d, keep: p.ttl} }

// found is what can be read of the message.
func (h *held) found() *found {
	if h.read == nil {
		f := find(h.Delivery)
		if h.keep > 0 {
			by, _ := h.Headers[envelope.Moved].(string)
			f.deleted = &deletion{by, h.keep}
		}
		h.read = &f
	}
	return h.read
}

// envelope is the message's, to be written to; nil: nobody can read it.
func (h *held) envelope() *envelope.Envelope {
	if h.read == nil { // all else that is found takes far longer, and is not asked for
		e, err := envelope.Decode(h.Message)
		if err != nil {
			return nil
		}
		return e
	}
	if !h.read.readable {
		return nil
	}
	e := *h.read.envelope // that one is shared
	return &e
}

// printed is the print of a message that a program of ours buried; false: nobody knows when it
// died, so that another one may be the same in all and yet another message. To move such a one
// twice is a nuisance, to take two for one would lose one of them.
func (h *held) printed() (print, bool) {
	if h.found().died.IsZero() {
		return print{}, false
	}
	if h.print == nil {
		of := printOf(&h.Delivery)
		h.print = &of
	}
	return *h.print, true
}

// moved is the print of a message as a move has put it into a page; false: none has, or nobody
// knows when it died.
func (h *held) moved() (of print, known bool) {
	if h.Headers[envelope.Moved] == nil {
		return print{}, false
	}
	if of, known = h.printed(); known && h.found().deleted != nil {
		of = of.by(h.found().deleted.by)
	}
	return of, known
}

// A move publishes into the last page that has messages, or one behind it, and removes what it
// moved from where the dead arrive when that is confirmed; a page is begun only when all that was
// moved into the one before is removed. So where a move was cut off, what lies in two places lies
// in the last page that has messages and where the dead arrive, and nowhere else. Where a
// connection broke while a page was filled, some messages were published twice, and both copies lie
// in that page.

// gather reads a window to its end. Of a part that is a page it acks second copies, and puts the
// rest in the order of their places: a connection that broke while it was filled may have changed
// that. Where the dead arrive it acks what is before: the copies there are in their place, and
// confirmed, and nobody else can remove them while the lease is held.
//
// Only what bears a move's mark counts as the copy that stays: what arrived twice by itself is
// nobody's double.
func gather(ctx context.Context, w queue.Window, p part, before prints) (all []*held, removed int, err error) {
	last := int64(0)
	places := map[uint64]int64{}
	first := copies{}
	var second []queue.Delivery
	err = queue.Each(ctx, w, func(d queue.Delivery) {
		h := hold(d, p)
		if p.isPage() && first.add(h) || before.has(h, p) {
			second = append(second, d)
			return
		}
		// What nobody moved, and is there all the same, stays behind what it follows.
		if place := placeOf(&d); place > 0 {
			last = place
		}
		places[d.Tag] = last
		all = append(all, h)
	})
	for _, d := range second {
		d.Ack()
	}
	if p.isPage() {
		slices.SortStableFunc(all, func(a, b *held) int { return cmp.Compare(places[a.Tag], places[b.Tag]) })
	}
	return all, len(second), err
}

// copies are messages that moves put into one page, by their ids: few share one, and only of these
// it has to be known whether they are the same in all.
type copies map[string][]*held

// add notes a message that a move put there, and says whether it was noted before.
func (c copies) add(h *held) (again bool) {
	if h.Headers[envelope.Moved] == nil {
		return false
	}
	others := c[h.ID]
	c[h.ID] = append(others, h)
	if len(others) == 0 {
		return false
	}
	of, known := h.moved()
	return known && slices.ContainsFunc(others, func(other *held) bool {
		theirs, _ := other.moved()
		return theirs == of
	})
}

// prints are those of some messages; nil: of none.
type prints map[print]bool

// movedIn has what moves put into a page.
func movedIn(page []*held) prints {
	x := make(prints, len(page))
	for _, h := range page {
		if of, known := h.moved(); known {
			x[of] = true
		}
	}
	return x
}

// has says whether a message that arrived is one of them.
func (x prints) has(h *held, p part) bool {
	if p.isPage() || len(x) == 0 {
		return false
	}
	of, known := h.printed()
	return known && x[of]
}

// lastPage is the last page that has messages, as it was read.
type lastPage struct {
	number, count, bytes int // number below 0: there is none
	// hidden is how many of its messages a window does not show.
	hidden int
	// place is that of its last message.
	place int64
}

// readLast reads the last page that has messages.
func readLast(ctx context.Context, parts []part, bytes int) (at lastPage, found []*held, err error) {
	at.number = lastOf(parts)
	page := pageIn(parts, at.number)
	if page == nil {
		return at, nil, nil
	}
	found, _, err = page.clear(ctx, bytes, nil)
	for _, h := range found {
		at.bytes += h.Size()
		at.place = max(at.place, placeOf(&h.Delivery))
	}
	at.count, at.hidden = page.depth, page.depth-len(found)
	failpoint.Hit("page read")
	return at, found, err
}

// finishMoves removes what a move that was cut off left where the dead arrive, though it is in its
// page, and tells of the page. It comes before anything of either leaves its part: what left the
// page would else be there a second time. The depths of the parts are corrected.
func (s *Set) finishMoves(ctx context.Context, parts []part) (at lastPage, err error) {
	at.number = lastOf(parts)
	arrived := pageIn(parts, arrivals)
	if at.number < 0 || arrived == nil || arrived.depth == 0 {
		return at, nil
	}
	at, found, err := readLast(ctx, parts, s.cfg.WalkBytes)
	moved := movedIn(found)
	// A window may show some of them only. Its depth says nothing of that: messages go on dying.
	for removed := 1; err == nil && removed > 0 && arrived.depth > 0; {
		_, removed, err = arrived.clear(ctx, s.cfg.WalkBytes, moved)
	}
	return at, err
}

// clear reads a part and removes from it what lies elsewhere, too; see gather. It keeps so many
// bytes.
func (p *part) clear(ctx context.Context, bytes int, before prints) (all []*held, removed int, err error) {
	w, err := p.Window(ctx, queue.WindowSize, bytes)
	if err != nil {
		return nil, 0, err
	}
	all, removed, err = gather(ctx, w, *p, before)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	depth, closeErr := w.Close(closing)
	p.depth = depth
	return all, removed, errors.Join(err, closeErr)
}
