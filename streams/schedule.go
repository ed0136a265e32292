package streams

import (
	"fmt"
	"hash/maphash"

	"github.com/stepwell/stepwell"
)

// Order says which messages of a partition may be handled at the same time.
type Order int

// The orders.
const (
	// OrderKey: messages of one key one after another, in the order of their offsets; different keys side by side. A record without a key
	// has no order, an empty key is a key.
	OrderKey Order = iota
	// OrderPartition: all messages of a partition one after another.
	OrderPartition
	// OrderNone: any.
	OrderNone
)

// ParseOrder reads key, partition or none.
func ParseOrder(s string) (Order, error) {
	switch s {
	case "", "key":
		return OrderKey, nil
	case "partition":
		return OrderPartition, nil
	case "none":
		return OrderNone, nil
	}
	return 0, fmt.Errorf("order %q: want key, partition or none", s)
}

// task is a message to be handled. The message may be changed by its handler, so what we need to know of it is kept beside it.
type task struct {
	m      *stepwell.Message
	offset int64
	key    uint64 // what it must wait for; 0: nothing
	at     int64  // how much the reader had fetched before it
}

// partitionKey is the key of all messages where a partition's are handled one after another.
const partitionKey = 1

// taskOf looks at a message before its handler does. A key is known by its hash alone: two keys with the same hash wait for one
// another, which is never wrong.
func taskOf(order Order, seed maphash.Seed, m *stepwell.Message) task {
	t := task{m: m, offset: m.Origin.Offset}
	switch {
	case order == OrderPartition:
		t.key = partitionKey
	case order == OrderKey && m.Key != nil:
		t.key = max(maphash.Bytes(seed, m.Key), 1)
	}
	return t
}

// schedule says which message of a partition may be handled next. It has no lock, no goroutine and no clock.
//
// Messages are handed out in one of two ways. Singly: then the key of each is busy until done, and later messages of that key wait in
// a line of their own while others pass. Or as a stretch: one goroutine handles many one after another, which costs next to nothing
// for each, and nothing fresh is handed out beside it until it ends or its rest is taken away from it.
type schedule struct {
	fresh     []task // not handed out yet, nor in a line; what is before head was
	head      int
	busy      map[uint64]*line
	waiting   int // in lines
	stretched bool
	spare     []*line
}

// line is what waits until its key is free, oldest first.
type line struct {
	tasks []task
	head  int
}

func newSchedule() schedule { return schedule{busy: map[uint64]*line{}} }

// Add appends a task, which comes after all that were added before.
func (s *schedule) Add(t task) { s.fresh = append(s.fresh, t) }

// Fresh is how many tasks have not been looked at yet.
func (s *schedule) Fresh() int { return len(s.fresh) - s.head }

// Empty says that nothing waits.
func (s *schedule) Empty() bool { return s.Fresh() == 0 && s.waiting == 0 }

// Stretched says that there is a stretch: nothing else is handed out.
func (s *schedule) Stretched() bool { return s.stretched }

// Next hands out one task whose key is free, if there is one. It is followed by a Done.
func (s *schedule) Next() (task, bool) {
	for !s.stretched && s.Fresh() > 0 {
		t := s.first()
		if s.waits(t) {
			continue
		}
		if t.key != 0 {
			s.busy[t.key] = nil // most keys have nothing that waits
		}
		return t, true
	}
	return task{}, false
}

func (s *schedule) first() task {
	t := s.fresh[s.head]
	s.skip(1)
	return t
}

// skip drops the first n fresh tasks.
func (s *schedule) skip(n int) {
	clear(s.fresh[s.head : s.head+n])
	if s.head += n; s.head == len(s.fresh) {
		s.fresh, s.head = s.fresh[:0], 0
	}
}

// waits puts a task into the line of its key, if that is busy.
func (s *schedule) waits(t task) bool {
	if t.key == 0 {
		return false
	}
	l, busy := s.busy[t.key]
	if !busy {
		return false
	}
	if l == nil {
		l = s.newLine()
		s.busy[t.key] = l
	}
	if l.head > spareLine && l.head > len(l.tasks)/2 { // a line that is never empty is not to grow for ever
		n := copy(l.tasks, l.tasks[l.head:])
		clear(l.tasks[n:])
		l.tasks, l.head = l.tasks[:n], 0
	}
	l.tasks = append(l.tasks, t)
	s.waiting++
	return true
}

// Done frees the key of a task that Next or Done handed out, or hands out the next one of that key.
func (s *schedule) Done(t task) (next task, ok bool) {
	if t.key == 0 {
		return task{}, false
	}
	l := s.busy[t.key]
	if l == nil {
		delete(s.busy, t.key)
		return task{}, false
	}
	next, l.tasks[l.head] = l.tasks[l.head], task{}
	l.head++
	s.waiting--
	if l.head == len(l.tasks) {
		s.busy[t.key] = nil
		s.free(l)
	}
	return next, true
}

// Return takes a task back that Done handed out, with all that waits for its key.
func (s *schedule) Return(t task) {
	undone := []task{t}
	if l := s.busy[t.key]; l != nil {
		undone = append(undone, l.tasks[l.head:]...)
		s.waiting -= len(undone) - 1
		clear(l.tasks)
		s.free(l)
	}
	delete(s.busy, t.key)
	s.fresh, s.head = append(undone, s.fresh[s.head:]...), 0
}

// Each calls do for all that waits.
func (s *schedule) Each(do func(*task)) {
	for i := range s.fresh[s.head:] {
		do(&s.fresh[s.head+i])
	}
	for _, l := range s.busy {
		if l == nil {
			continue
		}
		for i := range l.tasks[l.head:] {
			do(&l.tasks[l.head+i])
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
	if cap(l.tasks) <= spareLine && len(s.spare) < spareLines {
		l.tasks, l.head = l.tasks[:0], 0
		s.spare = append(s.spare, l)
	}
}

// Stretch hands out as many tasks as fit into dst, to be handled one after another, and returns how many; none while there is
// another stretch. It is followed by one Unstretch.
func (s *schedule) Stretch(dst []task) int {
	if s.stretched {
		return 0
	}
	n := 0
	if len(s.busy) == 0 {
		n = copy(dst, s.fresh[s.head:])
		s.skip(n)
	}
	for n < len(dst) && s.Fresh() > 0 {
		if t := s.first(); !s.waits(t) {
			dst[n] = t
			n++
		}
	}
	s.stretched = n > 0
	return n
}

// Unstretch ends a stretch. undone are its tasks that were not done. If the first of them is ongoing, it is from now on as if Next had handed it
// out; the others are the first to be handed out again.
func (s *schedule) Unstretch(ongoing bool, undone []task) {
	s.stretched = false
	if ongoing {
		if undone[0].key != 0 {
			s.busy[undone[0].key] = nil
		}
		undone = undone[1:]
	}
	if len(undone) > 0 {
		s.fresh = append(append(make([]task, 0, len(undone)+s.Fresh()), undone...), s.fresh[s.head:]...)
		s.head = 0
	}
}

// Clear forgets what was not handed out.
func (s *schedule) Clear() {
	s.fresh, s.head, s.waiting, s.spare = nil, 0, 0, nil
	for key := range s.busy {
		s.busy[key] = nil
	}
}
