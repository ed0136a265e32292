package crew

import (
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
)

// StretchSize is how many messages at most are handed to a worker at once.
const StretchSize = 64

// stretch is what a worker handles one after another. Its worker notes each call that it begins in
// doing, with one atomic operation and without a lock. Whoever wants the rest of the stretch swaps
// the same word to idle: either the worker begins the next call, or the rest is gone, never both.
//
// So the calls from index flushed up to the one that doing names are done, and the feed does not
// know of them yet. The feed's lock guards all fields but two: doing, and the entries, which the
// worker reads while the stretch is under way.
type stretch struct {
	doing atomic.Uint64 // a state
	// number tells this stretch from the earlier ones of its worker; doing has it, too. It is never
	// 0.
	number  uint64
	entries [StretchSize]Entry
	length  int
	// flushed counts the entries of which the feed knows how they ended.
	flushed int
	// lostAt is when the rest was taken away, or, if the call that ran then has rested since, when
	// it had a place again: the time of that call is counted from here. Zero: there is still a
	// rest.
	lostAt time.Time
}

// state is what a worker does: the number of its stretch in the upper half, and how many calls of
// the stretch were begun. No two stretches that somebody could confuse have the same number.
type state uint64

const (
	idle      state = 0
	oneMore         = 1 << 32 // the next number of a stretch
	indexMask       = oneMore - 1
)

// begun is how many calls were begun; the last of them runs, or will be ended by its worker.
func (s state) begun() int { return int(s & indexMask) }

// begin makes the first n entries a new stretch.
func (s *stretch) begin(n int) {
	s.length, s.flushed, s.lostAt = n, 0, time.Time{}
	s.number = s.number%indexMask + 1
	s.doing.Store(s.number * oneMore)
}

// state is what the worker does now.
func (s *stretch) state() state { return state(s.doing.Load()) }

// next begins the next call. It reports false when the rest was taken away.
func (s *stretch) next(at state) bool { return s.doing.CompareAndSwap(uint64(at), uint64(at)+1) }

// lose takes the rest away, if the worker does what it was seen to do.
func (s *stretch) lose(seen state) bool {
	if !s.doing.CompareAndSwap(uint64(seen), uint64(idle)) {
		return false
	}
	s.lostAt = time.Now()
	return true
}

// end says that the worker is through with a stretch that it did not lose.
func (s *stretch) end() { s.doing.Store(uint64(idle)) }

// done is how many calls came to their end for sure: all that were begun but the last. It is asked
// while the worker has the rest, since afterwards the word says nothing.
func (s *stretch) done() int { return max(0, s.state().begun()-1) }

// current is the index of the call that runs, or was cut off.
func (s *stretch) current() int {
	if at := s.state(); at != idle {
		return at.begun() - 1
	}
	return s.flushed // the rest was taken away, and all before the call that runs was flushed then
}

// from are the entries from that index on.
func (s *stretch) from(index int) []Entry { return s.entries[index:s.length] }

// cameBack says when the call that runs, whose rest was taken away, had a place again.
func (s *stretch) cameBack(at time.Time) { s.lostAt = at }

// flush tells the roster's feed how the first done entries ended, less those it knows of. Offsets
// without a gap are told as one range.
func (s *stretch) flush(r *Roster, done int, o task.Outcome) {
	for s.flushed < done {
		first := s.entries[s.flushed].Offset
		last := first
		for s.flushed++; s.flushed < done && s.entries[s.flushed].Offset == last+1; s.flushed++ {
			last++
		}
		r.feed.Done(first, last, o)
	}
}

// skip says that the feed knows how all entries up to that index ended, this one included.
func (s *stretch) skip(index int) { s.flushed = index + 1 }

// keep lets go of all messages but the one at that index, which is m from here on. The rest has
// been taken away.
func (s *stretch) keep(index int, m *stepwell.Message) {
	for i := range s.entries {
		s.entries[i].Message = nil
	}
	s.entries[index].Message = m
}
