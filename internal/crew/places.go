package crew

import (
	"context"
	"slices"
)

// noLane is that of a worker without a place.
const noLane = -1

// places are the lanes on which calls may run, and who waits for one. Crew.mu guards them.
type places struct {
	size int
	// free are lanes that somebody had and gave back. The one given back last goes first.
	free []int
	// used counts the lanes that anybody ever had: 0 to used-1. A crew that never has much to do
	// starts few workers.
	used int
	// back are the workers that have rested and wait for a place, in turn.
	back []*comeback
	// passed: the last place went to one of back though a roster was ready, so that the next is a
	// roster's turn.
	passed bool
}

// comeback is a worker that has rested and waits for a place.
type comeback struct {
	w      *worker
	placed chan struct{}
}

// any says that a lane is free.
func (p *places) any() bool { return len(p.free) > 0 || p.used < p.size }

// take takes a lane; there is one.
func (p *places) take() (lane int) {
	if n := len(p.free); n > 0 {
		lane = p.free[n-1]
		p.free = p.free[:n-1]
		return lane
	}
	p.used++
	return p.used - 1
}

// place gives the worker a free lane.
func (c *Crew) place(w *worker) {
	w.lane = c.places.take()
	c.lanes[w.lane].Store(w)
}

// isTurnOfBack says whether the next place is for a worker that comes back from a rest. Such
// workers and the rosters that are ready take turns: neither can keep the other from running.
func (c *Crew) isTurnOfBack() bool {
	return len(c.places.back) > 0 && (c.ready.len() == 0 || !c.places.passed)
}

// vacate takes the worker's place and gives it to whose turn it is: to a worker that comes back, or
// to a new one. Where it is the turn of a roster that an idle worker was called for, the place
// stays free until that worker takes the roster.
func (c *Crew) vacate(w *worker) {
	c.lanes[w.lane].Store(nil)
	c.places.free = append(c.places.free, w.lane)
	w.lane = noLane
	if c.closed {
		return
	}
	c.admit()
	// Even if the place went to a worker that comes back: there may be another free one, and fewer
	// idle workers than rosters, since an idle one that was called may have given up its own place.
	c.grow()
}

// admit gives free places to the workers that come back from a rest, as far as it is their turn.
func (c *Crew) admit() {
	p := &c.places
	for p.any() && c.isTurnOfBack() {
		p.passed = c.ready.len() > 0
		b := p.back[0]
		p.back = slices.Delete(p.back, 0, 1)
		c.place(b.w)
		close(b.placed)
	}
}

// leave takes the worker's place, for a rest.
func (c *Crew) leave(w *worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.vacate(w)
}

// enter waits for a place for a worker that has rested. It reports false, and there is none, when
// ctx or halted ends first.
func (c *Crew) enter(ctx context.Context, w *worker, halted <-chan struct{}) bool {
	c.mu.Lock()
	if c.places.any() {
		c.place(w)
		c.mu.Unlock()
		return true
	}
	b := &comeback{w, make(chan struct{})}
	c.places.back = append(c.places.back, b)
	c.call() // an idle one is to make room
	c.mu.Unlock()
	select {
	case <-b.placed:
		return true
	case <-halted:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// admit may have given the place just as ctx ended: then this worker has it, and has to use it.
	at := slices.Index(c.places.back, b)
	if at < 0 {
		return true // it came meanwhile
	}
	c.places.back = slices.Delete(c.places.back, at, at+1)
	return false
}
