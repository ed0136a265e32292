package streams

import "time"

// A handler may end its goroutine with runtime.Goexit (as the Fatal of a test does), which nothing can stop. The worker then goes on with another
// goroutine, which first ends the call that was cut off.

// escaped is deferred by the worker's goroutine. A panic passes.
func (w *worker) escaped() {
	if w.ended {
		return
	}
	if p := recover(); p != nil {
		panic(p)
	}
	w.crew.wait.Go(func() {
		defer w.escaped()
		w.goOn(w.serving)
		w.stand()
		w.work()
	})
}

// goOn ends the call that was cut off, as [Config.Escaped] says, and leaves what comes next to whose turn it is.
func (w *worker) goOn(p *partition) {
	t, done := w.cut(p)
	outcome := Abandoned
	if p.r.cfg.Escaped != nil {
		outcome = p.r.cfg.Escaped(p.handling, t.m, Ticket{p, t.offset, w})
	}
	took := time.Since(w.began)
	var next task
	if w.lone.m != nil {
		w.lone = task{}
		w.told(p, took, took)
		next = p.ended(t, outcome, took)
	} else {
		if outcome == Pending {
			p.pendIn(w, done)
		}
		if outcome == Settled || outcome == Pending {
			done++
		} else {
			p.abandon(t)
		}
		next, _, _ = p.endStretch(w, done, took)
		w.told(p, took, 0)
	}
	if next.m != nil {
		p.takeBack(next)
	}
	w.crew.offer(p)
}

// cut returns the task whose call was cut off and, of a stretch, how many were done before it.
func (w *worker) cut(p *partition) (t task, done int) {
	if w.lone.m != nil {
		return w.lone, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	done = w.flushed // where the rest was taken away
	if at := w.doing.Load(); at != noStretch {
		done = int(at&indexMask) - 1
	}
	return w.tasks[done], done
}
