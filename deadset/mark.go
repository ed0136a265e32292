package deadset

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

// print names a message by all that it is: id, body and headers, but for what the broker and moves
// write. Two that share it died the same death: of the headers one says when that was.
type print [sha256.Size]byte

// printOf is the print of a message that a program of ours buried; false: nobody knows when it
// died, so that another one may be the same in all and yet another message. To move such a one
// twice is a nuisance, to take two for one would lose one of them.
func printOf(d *queue.Delivery, f *found) (print, bool) {
	if f.envelope.DiedAt.IsZero() {
		return print{}, false
	}
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
		switch v := d.Headers[name].(type) {
		case string:
			add([]byte(v))
		case []byte:
			add(v)
		default:
			add(fmt.Appendf(nil, "%T %v", v, v))
		}
	}
	return print(sum.Sum(nil)), true
}

// moved is a message with the marks of a move; place is where it stands among all that were moved.
func moved(m queue.Message, operation string, place int64) queue.Message {
	m.Headers = maps.Clone(m.Headers)
	if m.Headers == nil {
		m.Headers = map[string]any{}
	}
	m.Headers[envelope.Moved], m.Headers[envelope.Place] = operation, place
	return m
}

// unmoved is a message without them.
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

// held is a message in hand, and what can be read of it.
type held struct {
	queue.Delivery
	found
}

func hold(d queue.Delivery) held { return held{d, find(d)} }

// doubles finds what a move that was cut off left in two places.
//
// A move publishes into a part, and removes from a later one when that is confirmed; between the
// two there is no part with messages. So where it was cut off, the copy lies in the part that was
// read before. Where a connection broke while a page was filled, some messages were published
// twice, and both copies lie in the same page.
//
// It sees the parts in their order, and only copies that have a move's mark count as being in
// their place: what arrived twice by itself is nobody's double.
type doubles struct {
	// before are prints of what a move put into the last part that had messages, here those of the
	// part that is read.
	before, here map[print]bool
	number       int // of the part that is read
}

// next is called before a part is read, or read again: what the part has itself is no double of
// its own then. Who forgets that on the second window of a page would ack all that is in it.
func (x *doubles) next(p part) {
	if p.number != x.number || x.here == nil {
		x.before = x.here
	}
	x.here, x.number = map[print]bool{}, p.number
}

// isOne says whether the message was seen before: there it is in its place, and confirmed.
func (x *doubles) isOne(h *held) bool {
	if len(x.before) == 0 && h.Headers[envelope.Moved] == nil {
		return false
	}
	p, known := printOf(&h.Delivery, &h.found)
	if !known {
		return false
	}
	if x.before[p] || x.here[p] {
		return true
	}
	if h.Headers[envelope.Moved] != nil {
		x.here[p] = true
	}
	return false
}

// gather reads a window to its end, and acks doubles: of each the other copy is confirmed, and
// nobody else can remove it while the lease is held. What is in a page is put in order by its
// places: a connection that broke while it was filled may have changed that.
func (x *doubles) gather(ctx context.Context, w queue.Window, p part) (all []held, removed int, err error) {
	deliveries, err := queue.Gather(ctx, w)
	x.next(p)
	last := int64(0)
	places := make(map[uint64]int64, len(deliveries))
	for _, d := range deliveries {
		h := hold(d)
		if x.isOne(&h) {
			d.Ack()
			removed++
			continue
		}
		// What nobody moved, and is there all the same, stays behind what it follows.
		if place := placeOf(&d); place > 0 {
			last = place
		}
		places[d.Tag] = last
		all = append(all, h)
	}
	if p.isPage() {
		slices.SortStableFunc(all, func(a, b held) int { return cmp.Compare(places[a.Tag], places[b.Tag]) })
	}
	return all, removed, err
}
