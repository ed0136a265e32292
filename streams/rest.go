package streams

import (
	"context"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
)

// Seats are shared by first tries and others who call the same handler.
type Seats interface {
	// Take waits for a seat. It reports false, and there is none, when over is closed first.
	Take(over <-chan struct{}) bool
	// Yield gives a seat back and takes one after those who wait. It reports false, and there is none any more, when over is closed first.
	Yield(over <-chan struct{}) bool
	// Leave gives a seat back.
	Leave()
}

type unlimited struct{}

func (unlimited) Take(<-chan struct{}) bool  { return true }
func (unlimited) Yield(<-chan struct{}) bool { return true }
func (unlimited) Leave()                     {}

// Rest sleeps for so long during a call, on its goroutine, and gives place and seat to other calls meanwhile; only its key waits. A
// suspect that gets as far as this did not end the process. It reports false, at once, when ctx ends or nothing more of the
// partition is handed out: then the call has no place, and is to return without doing more. The time before it is told to
// [Config.Ended] as that of a call that is over. m is the message as it is kept from here on: the reader lets go of what came, and
// of what was fetched with it.
func (t Ticket) Rest(ctx context.Context, d time.Duration, m *stepwell.Message) bool {
	p, w := t.p, t.w
	w.lose(w.doing.Load())
	w.keep(p, m)
	p.r.cfg.Ended(w.lane, time.Since(w.began), 0)
	w.stand()
	p.r.crew.leave(w)
	p.rests(t.offset, 1)
	defer p.rests(t.offset, -1)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.halted:
		return false
	case <-ctx.Done():
		return false
	}
	return p.mayGoOn() && w.comeBack(ctx, p)
}

// keep lets go of all messages but the one whose call runs, which is m from here on. The rest of the stretch has been taken away.
func (w *worker) keep(p *partition, m *stepwell.Message) {
	_, done := w.cut(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range w.tasks {
		w.tasks[i].m = nil
	}
	if w.lone.m != nil {
		w.lone.m = m
	} else {
		w.tasks[done].m = m
	}
}

// comeBack waits for a place and a seat.
func (w *worker) comeBack(ctx context.Context, p *partition) bool {
	if !p.r.crew.enter(ctx, w, p.halted) {
		return false
	}
	w.began, w.lostAt = time.Now(), time.Now()
	return w.sit(p.halted)
}

// sit waits for a seat, unless over is closed first.
func (w *worker) sit(over <-chan struct{}) bool {
	w.seated = w.crew.seats.Take(over)
	return w.seated
}

// stand gives the seat back, if the worker has one.
func (w *worker) stand() {
	if w.seated {
		w.seated = false
		w.crew.seats.Leave()
	}
}

// mayGoOn is asked before a single call. While the reader is paused it waits, without a seat.
func (w *worker) mayGoOn(p *partition) bool {
	if !p.r.pause.on.Load() {
		return !p.stopped.Load()
	}
	w.stand()
	return p.mayGoOn() && w.sit(p.halted)
}

// told says how long calls took, unless the last one came back without a place: what it did before its rest was told then.
func (w *worker) told(p *partition, all, last time.Duration) {
	if w.lane != noLane {
		p.r.cfg.Ended(w.lane, all, last)
	}
}

// inTurn is asked between a call and the next one of its key: others who wait for a seat come first. It returns t, or none when the
// partition is to hand out nothing more.
func (w *worker) inTurn(p *partition, t task) task {
	switch {
	case t.m == nil:
		return t
	case w.lane == noLane:
		if w.comeBack(p.handling, p) {
			return t
		}
	case w.seated:
		if w.seated = w.crew.seats.Yield(p.halted); w.seated {
			return t
		}
	}
	p.quit()
	return task{}
}

// noLane is that of a worker without a place.
const noLane = -1

// comeback is a worker that has rested and waits for a place.
type comeback struct {
	w      *worker
	placed chan struct{}
}

func (c *crew) hasPlace() bool { return len(c.free) > 0 || c.used < c.size }

// place gives the worker a free lane.
func (c *crew) place(w *worker) {
	if n := len(c.free); n > 0 {
		w.lane = c.free[n-1]
		c.free = c.free[:n-1]
	} else {
		w.lane = c.used
		c.used++
	}
	c.lanes[w.lane].Store(w)
}

// isTurnOfBack says whether a place is for one who comes back: they and what waits to be handed out take turns.
func (c *crew) isTurnOfBack() bool {
	return len(c.back) > 0 && (c.first == len(c.ready) || !c.passed)
}

// vacate gives the place of a worker to whose turn it is.
func (c *crew) vacate(w *worker) {
	c.lanes[w.lane].Store(nil)
	c.free = append(c.free, w.lane)
	w.lane = noLane
	if c.closed {
		return
	}
	if c.isTurnOfBack() { // else a worker takes its turn itself, unless somebody else was faster
		c.passed = c.first < len(c.ready)
		b := c.back[0]
		c.back = slices.Delete(c.back, 0, 1)
		c.place(b.w)
		close(b.placed)
	}
	c.grow() // also after that: an idle worker that was called may have given its place away
}

// leave takes the worker's place, for a rest.
func (c *crew) leave(w *worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.vacate(w)
}

// enter gives the worker a place after a rest. It reports false, and there is none, when ctx or halted ends first.
func (c *crew) enter(ctx context.Context, w *worker, halted <-chan struct{}) bool {
	c.mu.Lock()
	if c.hasPlace() {
		c.place(w)
		c.mu.Unlock()
		return true
	}
	b := &comeback{w, make(chan struct{})}
	c.back = append(c.back, b)
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
	at := slices.Index(c.back, b)
	if at < 0 {
		return true // it came meanwhile
	}
	c.back = slices.Delete(c.back, at, at+1)
	return false
}
