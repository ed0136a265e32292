package crew

import (
	"time"

	"github.com/stepwell/stepwell/internal/task"
)

// handOut gives a worker one message, or a stretch of n messages, or neither; more says that there
// may be more for other workers. Fast handlers get stretches, since handing a message over costs
// more than their calls do. Beside a stretch there is nothing for others until it ends or its rest
// is taken away, and either offers the roster again.
func (r *Roster) handOut(w *worker) (e Entry, n int, more bool) {
	r.feed.Lock()
	defer r.feed.Unlock()
	for !r.stopped.Load() && !r.crew.Paused() && !r.schedule.Stretched() {
		var ok bool
		if e, ok = r.suspects.NextAside(); ok {
			r.running++
			return e, 0, r.More()
		}
		if r.schedule.Fresh() == 0 && !r.feed.Take() {
			break
		}
		if r.pace.slow || !r.suspects.Free() {
			if e, ok = r.schedule.Next(); ok && !r.suspects.SetAside(e) {
				r.running++
				return e, 0, r.More()
			}
		} else if n = r.schedule.Stretch(w.stretch.entries[:]); n > 0 {
			r.running++
			r.begin(w, n)
			return Entry{}, n, false
		}
	}
	r.feed.Idle()
	return Entry{}, 0, false
}

// begin makes the first n entries the worker's stretch. Of one that is gathered, which takes no
// time, nobody wants to know how far it is.
func (r *Roster) begin(w *worker, n int) {
	if r.crew.cfg.Gather != nil {
		return
	}
	r.stretch = &w.stretch
	w.of.Store(r)
	w.stretch.begin(n)
	// The watch takes a rest away for others' sake: a single message with nothing behind it has
	// none. Came rouses the watch should more come.
	if n > 1 || r.More() {
		r.crew.rouse()
	}
}

// ended notes how a call by itself ended. It returns the next message of its key, if one waits; if
// not, the worker is free, and more says whether there may be something for others now.
func (r *Roster) ended(e Entry, o task.Outcome, took time.Duration) (next Entry, more bool) {
	r.feed.Lock()
	defer r.feed.Unlock()
	r.done(e.Offset, o)
	r.pace.ran(1, took)
	return r.next(e)
}

// done tells the feed how one call ended.
func (r *Roster) done(offset int64, o task.Outcome) {
	if o != task.Settled && o != task.Pending && o != task.Gathered {
		o = task.Abandoned // also where there was none
	}
	r.feed.Done(offset, offset, o)
	if o == task.Abandoned {
		r.Halt()
	}
}

// next frees the key of a message whose call is over, and returns the next one of that key, if one
// waits: the same worker handles it. Otherwise the worker is free; more says whether there may be
// something for others now.
func (r *Roster) next(e Entry) (next Entry, more bool) {
	if !r.stopped.Load() {
		if next, ok := r.schedule.Done(e); ok && !r.suspects.SetAside(next) {
			return next, false
		}
	}
	r.leave()
	// Without suspects the roster was offered when this message was handed out, and stays offered
	// as long as there is more. With suspects the feed may have held messages back until this call
	// ended.
	return Entry{}, !r.suspects.Free() && r.More()
}

// leave lets a worker go.
func (r *Roster) leave() {
	r.running--
	r.feed.Idle()
}

// quit is for a worker that did not begin what it was given.
func (r *Roster) quit() {
	r.feed.Lock()
	defer r.feed.Unlock()
	r.leave()
}

// doneIn notes how a call of a stretch ended that was not simply settled.
func (r *Roster) doneIn(s *stretch, index int, o task.Outcome) {
	r.feed.Lock()
	defer r.feed.Unlock()
	s.flush(r, index, task.Settled)
	r.done(s.entries[index].Offset, o)
	s.skip(index)
}

// takeRest takes the messages of a stretch whose calls have not begun away from its worker, for
// others to handle. It reports false, and takes nothing, where the worker has begun another call
// since it was seen. The call that runs counts from then on as a call by itself: its key stays busy
// until it is over.
func (r *Roster) takeRest(s *stretch, seen state) bool {
	r.feed.Lock()
	defer r.feed.Unlock()
	if r.stretch != s || !s.lose(seen) {
		return false
	}
	s.flush(r, seen.begun()-1, task.Settled)
	r.schedule.Unstretch(true, s.from(seen.begun()-1))
	r.stretch = nil
	r.pace.ran(1, watchInterval)
	return true
}

// endStretch notes that so many calls of a stretch are done. If its rest was taken away it returns
// the next message of the last one's key, and how long the last one took; else no message, and 0.
// more says whether there may be something for others.
func (r *Roster) endStretch(s *stretch, done int, took time.Duration) (next Entry, last time.Duration, more bool) {
	r.feed.Lock()
	defer r.feed.Unlock()
	s.flush(r, done, task.Settled)
	if r.stretch != s { // the rest was taken away
		// The last call is the one that ran then. None is done where it ended its goroutine: then
		// the roster is halted, and the entry is not looked at.
		next, more = r.next(s.entries[max(done, 1)-1])
		return next, time.Since(s.lostAt) + watchInterval, more
	}
	s.end()
	r.stretch = nil
	r.schedule.Unstretch(false, s.from(done))
	if done > 0 {
		r.pace.ran(done, took)
	}
	r.leave()
	return Entry{}, 0, r.More()
}

// gathered notes that the first n entries were gathered, and no others: what is left of a halted
// roster is nobody's here. more says whether there may be something for others.
func (r *Roster) gathered(s *stretch, n int) (more bool) {
	r.feed.Lock()
	defer r.feed.Unlock()
	s.flushed = 0
	s.flush(r, n, task.Gathered)
	r.schedule.Unstretch(false, nil)
	r.leave()
	return r.More()
}
