package ledger

import "slices"

// lane is what is to be handled in the order of its offsets.
type lane struct {
	partition int32
	key       int
}

// before is, of each record that was produced, the one before it of its key.
func (b *Book) before() map[Position]Position {
	lanes := map[lane][]int64{}
	for p, r := range b.produced {
		l := lane{p.Partition, r.Key}
		lanes[l] = append(lanes[l], p.Offset)
	}
	before := map[Position]Position{}
	for l, offsets := range lanes {
		slices.Sort(offsets)
		for i := 1; i < len(offsets); i++ {
			before[Position{l.partition, offsets[i]}] = Position{l.partition, offsets[i-1]}
		}
	}
	return before
}

// excused says that a record need not come to an end.
func (b *Book) excused(p Position) bool { return b.removed[p] || b.doomed[p] != "" }

// again says that its record is called again after the end of a call.
func (b *Book) again(e Entry) bool {
	return e.Kind == Snoozed || e.Kind == Failed && e.Attempt < b.rules.Tries
}

// heldBack complains where a record was called before the one before it of its key was done, dead
// or handed over, and where that one was called once more after the last call of the record: that
// may be so after a crash only where both are called again. Replays and channels have no order.
func (b *Book) heldBack(entries []Entry) {
	before := b.before()
	over, last := map[Position]bool{}, map[Position]int{}
	told := map[Position]bool{}
	for at, e := range entries {
		if e.Replays != 0 || e.Channel {
			continue
		}
		p, ok := before[e.Position]
		switch {
		case e.Kind == Cancelled:
		case e.Kind != Began:
			over[e.Position] = over[e.Position] || !b.again(e)
		default:
			last[e.Position] = at
			if ok && !over[p] && !b.excused(p) && !told[e.Position] {
				told[e.Position] = true
				b.complain("%v: began before %v of the same key was done or dead", e.Position, p)
			}
		}
	}
	for later, p := range before {
		if at, called := last[later]; called && last[p] > at {
			b.complain("%v: called once more after the last call of %v, which comes after it", p, later)
		}
	}
}
