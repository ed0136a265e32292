// Package seats says who of a stream may call its handler now: first tries and retries share a
// number of seats.
package seats

import (
	"slices"
	"sync"
)

// Seats are how many calls of one stream may run at once. While first tries wait, retries get a
// seat only if they have less than half of all, and then before first tries do; where no first try
// waits, retries may have all. A single seat goes to and fro. Within a side, who came first is
// first.
type Seats struct {
	// mu guards all fields, and those of both sides.
	mu           sync.Mutex
	size, free   int
	first, retry Side
	// last is the side that got a seat last; it matters where there is only one seat.
	last *Side
}

// Side is what first tries, or retries, see of the seats.
type Side struct {
	all *Seats
	// held is how many seats the side has now.
	held int
	// line are those who wait, in order: each channel is closed when the seat is theirs. While
	// anybody waits no seat is free.
	line []chan struct{}
}

// New makes n seats, at least one.
func New(n int) *Seats {
	s := &Seats{size: max(n, 1), free: max(n, 1)}
	s.first.all, s.retry.all = s, s
	return s
}

// First is the side of first tries.
func (s *Seats) First() *Side { return &s.first }

// Retry is the side of retries.
func (s *Seats) Retry() *Side { return &s.retry }

// Taken is how many seats are taken now: a call has one, and hardly anything else.
func (s *Seats) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size - s.free
}

// Take waits for a seat. It reports false, and there is none, when over is closed first.
func (d *Side) Take(over <-chan struct{}) bool { return d.TakeLooking(over, nil) }

// TakeLooking is Take, and calls look where it has to wait: at once, and again, from its place in
// line, each time that what look returned is closed.
func (d *Side) TakeLooking(over <-chan struct{}, look func() (again <-chan struct{})) bool {
	s := d.all
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		d.held++
		s.last = d
		s.mu.Unlock()
		return true
	}
	mine := d.join()
	s.mu.Unlock()
	return d.await(mine, over, look)
}

// Leave gives a seat back.
func (d *Side) Leave() {
	s := d.all
	s.mu.Lock()
	defer s.mu.Unlock()
	d.held--
	s.free++
	s.grant()
}

// Yield gives a seat back and takes one, after those who wait now where it is their turn. It
// reports false, and there is none any more, when over is closed first.
func (d *Side) Yield(over <-chan struct{}) bool {
	s := d.all
	s.mu.Lock()
	if len(s.first.line) == 0 && len(s.retry.line) == 0 {
		s.mu.Unlock()
		return true
	}
	mine := d.join()
	d.held--
	s.free++
	s.grant()
	s.mu.Unlock()
	return d.await(mine, over, nil)
}

// join puts the caller at the end of its side's line. The lock is held.
func (d *Side) join() chan struct{} {
	mine := make(chan struct{})
	d.line = append(d.line, mine)
	return mine
}

// await waits for the seat that mine stands for. It has no lock: whoever grants the seat has
// entered it in held already.
func (d *Side) await(mine chan struct{}, over <-chan struct{}, look func() (again <-chan struct{})) bool {
	for waits := true; waits; {
		var again <-chan struct{}
		if look != nil {
			again = look()
		}
		select {
		case <-mine:
			return true
		case <-again:
		case <-over:
			waits = false
		}
	}
	d.all.mu.Lock()
	defer d.all.mu.Unlock()
	// Not in line any more: the seat was granted as over was closed, and has to be taken, or it
	// would be lost.
	at := slices.Index(d.line, mine)
	if at < 0 {
		return true // it came meanwhile
	}
	d.line = slices.Delete(d.line, at, at+1)
	return false
}

// grant gives the free seat, if there is one, to whose turn it is.
func (s *Seats) grant() {
	d := s.next()
	if d == nil || s.free == 0 {
		return
	}
	s.free--
	d.held++
	s.last = d
	close(d.line[0])
	d.line = slices.Delete(d.line, 0, 1)
}

// next is whose turn it is; nil: nobody waits.
func (s *Seats) next() *Side {
	switch {
	case len(s.first.line) == 0 && len(s.retry.line) == 0:
		return nil
	case len(s.first.line) == 0:
		return &s.retry
	case len(s.retry.line) == 0, s.retry.held >= max(1, s.size/2):
		return &s.first
	case s.size == 1 && s.last == &s.retry:
		return &s.first
	}
	return &s.retry
}
