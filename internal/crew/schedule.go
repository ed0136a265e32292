package crew

import (
	"cmp"
	"slices"

	"github.com/stepwell/stepwell"
)

// Entry is a message to be handled. Its handler may change it, so what is needed of it is kept
// beside it.
type Entry struct {
	Message *stepwell.Message
	Offset  int64
	Key     uint64 // entries with the same key run one after another; 0: it waits for none
	Fetched int64  // how much the feed had fetched before it
}

// schedule says which message of a feed may be handled next. It has no lock, no goroutine and no
// clock.
//
// Messages are handed out in one of two ways. Singly: then the key of each is busy until done, and
// later messages of that key wait in a line of their own while others pass. Or as a stretch: one
// goroutine handles many one after another, which costs next to nothing for each, and nothing fresh
// is handed out beside it until it ends or its rest is taken away from it.
type schedule struct {
	// fresh is what was not handed out yet and is in no line: from head on, what is before was
	// handed out.
	fresh []Entry
	head  int
	// busy has the keys of entries that are being handled, each with the line of those that wait
	// for it; nil: none does.
	busy map[uint64]*line
	// waiting counts the entries of all lines.
	waiting int
	// stretched: a stretch is under way.
	stretched bool
	// spare are lines without entries, to be used again.
	spare []*line
}

// line is what waits until its key is free, oldest first.
type line struct {
	entries []Entry
	head    int
}

func newSchedule() schedule { return schedule{busy: map[uint64]*line{}} }

// Add appends an entry, which comes after all that were added before.
func (s *schedule) Add(e Entry) { s.fresh = append(s.fresh, e) }

// Fresh is how many entries have not been looked at yet.
func (s *schedule) Fresh() int { return len(s.fresh) - s.head }

// Stretched says that there is a stretch: nothing else is handed out.
func (s *schedule) Stretched() bool { return s.stretched }

// Next hands out one entry whose key is free, if there is one. It is followed by a Done.
func (s *schedule) Next() (Entry, bool) {
	for !s.stretched && s.Fresh() > 0 {
		e := s.first()
		if s.waits(e) {
			continue
		}
		if e.Key != 0 {
			s.busy[e.Key] = nil // most keys have nothing that waits
		}
		return e, true
	}
	return Entry{}, false
}

func (s *schedule) first() Entry {
	e := s.fresh[s.head]
	s.skip(1)
	return e
}

// skip drops the first n fresh entries.
func (s *schedule) skip(n int) {
	clear(s.fresh[s.head : s.head+n])
	if s.head += n; s.head == len(s.fresh) {
		s.fresh, s.head = s.fresh[:0], 0
	}
}

// waits puts an entry into the line of its key, if that is busy.
func (s *schedule) waits(e Entry) bool {
	if e.Key == 0 {
		return false
	}
	l, busy := s.busy[e.Key]
	if !busy {
		return false
	}
	if l == nil {
		l = s.newLine()
		s.busy[e.Key] = l
	}
	// a line that is never empty is not to grow for ever
	if l.head > spareLine && l.head > len(l.entries)/2 {
		n := copy(l.entries, l.entries[l.head:])
		clear(l.entries[n:])
		l.entries, l.head = l.entries[:n], 0
	}
	l.entries = append(l.entries, e)
	s.waiting++
	return true
}

// Done frees the key of an entry that Next or Done handed out, or hands out the next one of that
// key.
func (s *schedule) Done(e Entry) (next Entry, ok bool) {
	if e.Key == 0 {
		return Entry{}, false
	}
	l := s.busy[e.Key]
	if l == nil {
		delete(s.busy, e.Key)
		return Entry{}, false
	}
	next, l.entries[l.head] = l.entries[l.head], Entry{}
	l.head++
	s.waiting--
	if l.head == len(l.entries) {
		s.busy[e.Key] = nil
		s.free(l)
	}
	return next, true
}

// Since calls do for each entry that waits and whose Fetched is not less: line by line, the oldest
// first, until do says that it has seen enough of this line. What is in no line counts as one.
func (s *schedule) Since(fetched int64, do func(*Entry) (more bool)) {
	since(s.fresh[s.head:], fetched, do)
	for _, l := range s.busy {
		if l != nil {
			since(l.entries[l.head:], fetched, do)
		}
	}
}

// since is Since for one line, whose entries wait in the order in which they were fetched.
func since(waiting []Entry, fetched int64, do func(*Entry) (more bool)) {
	first, _ := slices.BinarySearchFunc(waiting, fetched, func(e Entry, f int64) int { return cmp.Compare(e.Fetched, f) })
	for i := range waiting[first:] {
		if !do(&waiting[first+i]) {
			return
		}
	}
}

const (
	spareLines = 1024
	spareLine  = 64 // longer ones are left to the garbage collector
)

func (s *schedule) newLine() *line {
	n := len(s.spare)
	if n == 0 {
		return &line{}
	}
	l := s.spare[n-1]
	s.spare = s.spare[:n-1]
	return l
}

func (s *schedule) free(l *line) {
	if cap(l.entries) <= spareLine && len(s.spare) < spareLines {
		l.entries, l.head = l.entries[:0], 0
		s.spare = append(s.spare, l)
	}
}

// Stretch hands out as many entries as fit into dst, to be handled one after another, and returns
// how many; none while there is another stretch. It is followed by one Unstretch.
func (s *schedule) Stretch(dst []Entry) int {
	if s.stretched {
		return 0
	}
	n := 0
	if len(s.busy) == 0 {
		// No key is busy, so that no entry has to wait: the usual case, and one copy.
		n = copy(dst, s.fresh[s.head:])
		s.skip(n)
	}
	looked := 0
	for fresh := s.fresh[s.head:]; n < len(dst) && looked < len(fresh); looked++ {
		if e := fresh[looked]; !s.waits(e) {
			dst[n] = e
			n++
		}
	}
	s.skip(looked)
	s.stretched = n > 0
	return n
}

// Unstretch ends a stretch. undone are its entries that were not done. If the first of them is
// ongoing, it is from now on as if Next had handed it out; the others are the first to be handed
// out again.
func (s *schedule) Unstretch(ongoing bool, undone []Entry) {
	s.stretched = false
	if ongoing {
		if undone[0].Key != 0 {
			s.busy[undone[0].Key] = nil
		}
		undone = undone[1:]
	}
	if len(undone) > 0 {
		// In front of all others, in their order: entries of one key must not overtake one another.
		s.fresh = append(append(make([]Entry, 0, len(undone)+s.Fresh()), undone...), s.fresh[s.head:]...)
		s.head = 0
	}
}

// Clear forgets what was not handed out.
func (s *schedule) Clear() {
	s.fresh, s.head, s.waiting, s.spare = nil, 0, 0, nil
	// The keys stay busy: their calls still run, and end with Done.
	for key := range s.busy {
		s.busy[key] = nil
	}
}
