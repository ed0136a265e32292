package crew

import (
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell/internal/task"
)

// worker is one goroutine of the crew. It is the [task.Call] of its calls. Only its goroutine
// touches its fields, but for those that say otherwise.
type worker struct {
	crew *Crew
	// called has room for one signal, so that whoever wakes the worker does not wait.
	called chan struct{}
	// lane is noLane where the worker has no place; while it has none, Crew.mu guards the field.
	lane   int
	seated bool // it has a seat
	// began is when the stretch, or the call by itself, began.
	began  time.Time
	roster *Roster // whose messages it handles
	// lone is the message whose call runs by itself; its Message is nil while there is none.
	lone Entry
	// of is whose messages the stretch has. The watch reads it.
	of atomic.Pointer[Roster]
	// ended says that run came to its end, and was not cut off by a handler that ended the
	// goroutine.
	ended bool

	stretch stretch
}

func newWorker(c *Crew) *worker { return &worker{crew: c, called: make(chan struct{}, 1)} }

// Inline returns what serves a roster on the goroutine that calls it, by a worker that has no
// place: for benchmarks of what a message costs.
func (c *Crew) Inline() (serve func(*Roster)) { return newWorker(c).serve }

// Running is the number of the worker's place, and when the stretch, or the call by itself, began.
func (w *worker) Running() (lane int, began time.Time) { return w.lane, w.began }

// run serves the rosters in turn, until the crew ends or the place is somebody else's. A worker
// without a place ends: whoever has its place calls in its stead.
func (w *worker) run() {
	defer w.checkEnd()
	for w.lane != noLane {
		r := w.crew.take(w)
		if r == nil {
			break
		}
		if w.sit(w.crew.over) {
			w.serve(r)
			w.stand()
		}
	}
	w.ended = true
}

// serve handles what the roster hands out.
func (w *worker) serve(r *Roster) {
	w.roster = r
	e, n, more := r.handOut(w)
	if more {
		r.Offer()
	}
	switch {
	case n > 0 && w.crew.cfg.Gather != nil:
		w.gather(r, n)
	case n > 0:
		e = w.inTurn(r, w.runStretch(r, n))
	}
	for e.Message != nil { // and what waits for its key
		e = w.inTurn(r, w.runLone(r, e))
	}
}

// runLone handles one message and returns the next of its key, if one waits.
func (w *worker) runLone(r *Roster, e Entry) Entry {
	if !w.mayGoOn(r) {
		r.quit()
		return Entry{}
	}
	handle := r.suspects.Handle(e.Offset)
	if handle == nil {
		handle = w.crew.cfg.Handle
	}
	w.began = time.Now()
	w.lone = e
	m := e.Message
	e.Message = nil // only the handler knows for how long it needs it
	outcome := handle(r.feed.Calls(), m, task.NewTicket(r.feed, e.Offset, w))
	w.lone = Entry{}
	took := time.Since(w.began)
	w.told(took, took)
	next, more := r.ended(e, outcome, took)
	if more {
		r.Offer()
	}
	return next
}

// runStretch handles the first n entries one after another, as long as nobody takes the rest away.
// Then it returns the next of the key of the last one, if one waits. To look at a clock takes as
// long as a fast call: it is done once for all.
func (w *worker) runStretch(r *Roster, n int) Entry {
	w.began = time.Now()
	handle, ctx, origin := w.crew.cfg.Handle, r.feed.Calls(), task.Origin(r.feed)
	s, done := &w.stretch, 0
	at := s.state()
	for done < n && !r.stopped.Load() && !w.crew.Paused() {
		if !s.next(at) {
			break // the rest was taken away
		}
		at++
		e := &s.entries[done]
		outcome := handle(ctx, e.Message, task.NewTicket(origin, e.Offset, w))
		if outcome != task.Settled {
			r.doneIn(s, done, outcome)
		}
		done++
	}
	took := time.Since(w.began)
	next, last, more := r.endStretch(s, done, took)
	w.told(took, last)
	if more {
		r.Offer()
	}
	return next
}

// gather hands the first n entries over to who gathers them; those of a halted roster are left.
func (w *worker) gather(r *Roster, n int) {
	of, _ := r.feed.(task.Gatherable)
	if r.stopped.Load() {
		n = 0
	} else {
		w.crew.cfg.Gather(of, w.stretch.entries[:n])
	}
	if r.gathered(&w.stretch, n) {
		r.Offer()
	}
}

// told tells how long calls took, unless the last one returned without a place, from a rest that
// was cut short: the time before the rest was told as the rest began.
func (w *worker) told(all, last time.Duration) {
	if w.lane != noLane {
		w.crew.cfg.Ended(w.lane, all, last)
	}
}
