package crew

import "time"

// A handler may end its goroutine with runtime.Goexit (as the Fatal of a test does), which nothing
// can stop. Like a panic that nobody recovers it is to end the process, but in order: the message
// stays unsettled, its feed says that this counts a death, and [Crew.Failed] tells the owner.

// checkEnd is deferred by the worker's goroutine. A panic passes.
func (w *worker) checkEnd() {
	if w.ended {
		return
	}
	if p := recover(); p != nil {
		panic(p)
	}
	w.desert(w.roster)
	w.stand()
}

// desert ends what the worker had begun of a roster. The call that was cut off has no outcome, so
// its message stays unsettled.
func (w *worker) desert(r *Roster) {
	e, done := r.cut(w)
	took := time.Since(w.began)
	w.crew.fail(r.deserted(e.Offset)) // first: a stop that has begun before waits for what follows
	if w.lone.Message != nil {
		r.quit()
	} else {
		r.endStretch(&w.stretch, done, took)
	}
	w.told(took, 0)
}

func (r *Roster) deserted(offset int64) error {
	r.feed.Lock()
	defer r.feed.Unlock()
	r.Halt()
	return r.feed.Deserted(offset)
}

// cut returns the message whose call was cut off, and of a stretch how many were done before it.
func (r *Roster) cut(w *worker) (e Entry, done int) {
	if w.lone.Message != nil {
		return w.lone, 0
	}
	r.feed.Lock()
	defer r.feed.Unlock()
	done = w.stretch.current()
	return w.stretch.entries[done], done
}
