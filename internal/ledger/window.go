package ledger

import "math"

// window knows which offsets of a partition are settled, and how far it may be committed: only the
// settled prefix, up to the first open record. Offsets are added in ascending order. Offsets
// without a record (compaction, markers of transactions) hold nothing up.
type window struct {
	ring  []slot // of all records from the first open one on; its length is a power of two
	head  int    // where in the ring the first open record is
	count int    // slots in use
	// records are those from the first open one on: some slots stand for many, see shrink.
	records int
	open    int // records that are not settled
	bytes   int // what the open ones hold
	// next is what may be committed: the offset after the settled prefix, with the epoch of the
	// last record in it. The first slot, if there is one, is open.
	next Position
}

// Freed is what settling gives back.
type Freed struct {
	Records, Bytes int // that are settled now
	Span           int // by how much Len fell
}

// slot is one record of the window. Once it is settled its bytes are negative: minus how many
// records it stands for, itself and settled ones right before it that have no slot any more.
type slot struct {
	offset int64
	epoch  int32
	bytes  int32
}

func (s *slot) settled() bool { return s.bytes < 0 }

// Position is an offset with the leader epoch of the record before it, as a commit has them. A
// negative offset says that it is not known; a negative epoch, that the epoch is not.
type Position struct {
	Offset int64
	Epoch  int32
}

// At is the position of offset.
func At(offset int64, epoch int32) Position { return Position{offset, epoch} }

// newWindow returns an empty window that may be committed up to next. A negative offset says that
// nothing may be committed yet.
func newWindow(next Position) window { return window{next: next} }

// Begin says where the window begins, before the first record is added.
func (w *window) Begin(next Position) { w.next = next }

// Len is how many records lie between the first unsettled one and the last, both counted.
func (w *window) Len() int { return w.records }

// Unsettled is how many records are not settled.
func (w *window) Unsettled() int { return w.open }

// Bytes is what the unsettled records hold.
func (w *window) Bytes() int { return w.bytes }

// Committable returns the offset after the settled prefix, if there is one.
func (w *window) Committable() (Position, bool) { return w.next, w.next.Offset >= 0 }

// First is the lowest unsettled offset, if there is one.
func (w *window) First() (int64, bool) {
	if w.count == 0 {
		return 0, false
	}
	return w.at(0).offset, true
}

// Reserve makes room for n more records. It is a step of its own so that Add, which is called for
// each record, is small enough to be inlined.
func (w *window) Reserve(n int) {
	if w.count+n <= len(w.ring) {
		return
	}
	w.shrink()
	for len(w.ring) < max(w.count+n, 2*w.count) { // half is free, or it would soon be shrunk again
		w.grow()
	}
}

// Add appends a record that is not settled, for which there is room. Its offset must be above all
// before it.
func (w *window) Add(offset int64, epoch int32, bytes int) {
	*w.at(w.count) = slot{offset: offset, epoch: epoch, bytes: int32(bytes)}
	w.count++
	w.records++
	w.open++
	w.bytes += bytes
}

// SettleRange marks the offsets from first to last. One that is not in the window, or is settled
// already, changes nothing.
func (w *window) SettleRange(first, last int64) (f Freed) {
	for i := w.search(first); i < w.count; i++ {
		s := w.at(i)
		if s.offset > last {
			break
		}
		if !s.settled() {
			f.Bytes += int(s.bytes)
			f.Records++
			s.bytes = -1
		}
	}
	w.bytes -= f.Bytes
	w.open -= f.Records
	f.Span = w.advance()
	return f
}

// Settled says whether the record at offset, which was added, is settled. Everything below the
// committable offset counts as such.
func (w *window) Settled(offset int64) bool {
	if w.next.Offset >= 0 && offset < w.next.Offset {
		return true
	}
	if w.open == w.records {
		return false // nothing is, beyond the first that is not
	}
	i := w.search(offset)
	return i < w.count && w.at(i).settled() && (w.at(i).offset == offset || w.at(i).bytes < -1)
}

// Open yields the offsets that are not settled, in ascending order.
func (w *window) Open(yield func(int64) bool) {
	for i := range w.count {
		if s := w.at(i); !s.settled() && !yield(s.offset) {
			return
		}
	}
}

// Beyond yields what is settled behind the first open record, in ascending order. Offsets that have
// no record count like their neighbours.
func (w *window) Beyond(yield func(Span) bool) {
	var s Span
	for i := range w.count {
		slot := w.at(i)
		if slot.settled() {
			if s.End == 0 {
				s.First = slot.offset
			}
			s.End = slot.offset + 1
			continue
		}
		if s.End > 0 && !yield(s) {
			return
		}
		s = Span{}
	}
	if s.End > 0 {
		yield(s)
	}
}

func (w *window) at(i int) *slot { return &w.ring[(w.head+i)&(len(w.ring)-1)] }

// advance removes the settled prefix.
func (w *window) advance() (removed int) {
	for w.count > 0 {
		s := w.at(0)
		if !s.settled() {
			break
		}
		w.next = Position{s.offset + 1, s.epoch}
		w.head = (w.head + 1) & (len(w.ring) - 1)
		w.count--
		removed -= int(s.bytes)
	}
	w.records -= removed
	return removed
}

// search returns the index of the first slot whose offset is not below offset. Where none is
// missing before it, or none behind it, that is one subtraction.
func (w *window) search(offset int64) int {
	if w.count == 0 || offset <= w.at(0).offset {
		return 0
	}
	low, high := 1, w.count // offsets are distinct, so the slot at i is at least i above the first
	if d := offset - w.at(0).offset; d < int64(high) {
		high = int(d)
		if w.at(high).offset == offset {
			return high
		}
	}
	if d := w.at(w.count-1).offset - offset; d >= 0 && d < int64(w.count-1) { // and below the last
		low = max(low, w.count-1-int(d))
		if w.at(low).offset == offset {
			return low
		}
	}
	for low < high {
		middle := int(uint(low+high) >> 1)
		if w.at(middle).offset < offset {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// shrink takes the slots away that settled records have in the midst of their run: the first keeps
// its own, and the last stands for all between, too. So what is settled behind a few open records
// costs little.
func (w *window) shrink() {
	kept, run := 0, 0 // run is how many records with a slot were settled, up to this one
	for i := range w.count {
		s := *w.at(i)
		if run++; !s.settled() {
			run = 0
		}
		if run > 2 { // the one before is neither the first of its run nor the last
			if n := int64(w.at(kept-1).bytes) + int64(s.bytes); n >= math.MinInt32 { // else it is more than a slot can count
				kept--
				s.bytes = int32(n)
			}
		}
		*w.at(kept) = s
		kept++
	}
	w.count = kept
}

// grow makes room for as many again.
func (w *window) grow() {
	ring := make([]slot, max(64, 2*len(w.ring)))
	n := copy(ring, w.ring[w.head:])
	copy(ring[n:], w.ring[:w.head])
	w.ring, w.head = ring, 0
}
