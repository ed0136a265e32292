package inbox_test

import (
	"slices"
	"time"
)

// mustBeSomewhere checks that a message of which a copy left the queue is done, in the dead set, or
// still in the queue. The lock must be held, as for all here.
func (w *crashWorld) mustBeSomewhere(id string) {
	if w.messages[id].done == 0 && w.dead[id] == 0 && !slices.ContainsFunc(w.queue.items, func(i *item) bool { return i.m.ID == id }) {
		w.broke("%s is lost: it is neither done, nor dead, nor in the queue", id)
	}
}

// condemns checks a sentence. More than the limit of processes must have died while the message ran
// in them as a suspect: so many were held against it from before, and of those of the model it is
// known. A process that was cut off then and lives does not count, unless nobody can see it.
func (p *process) condemns(id, try string) {
	w := p.w
	w.note("process %d condemns %s", p.number, id)
	if p.gone {
		return
	}
	switch again := slices.Contains(p.condemned, try); {
	case again:
		w.broke("process %d condemned %s twice", p.number, id)
	case slices.ContainsFunc(p.calls, func(c *oneCall) bool { return c.try == try }):
		w.broke("process %d condemned %s while it runs there", p.number, id)
	}
	p.condemned = append(p.condemned, try)
	held := w.messages[id].accused
	for _, q := range w.diedOf[id] {
		if q.gone || !q.link.wasUp(0) && !q.link.wasUp(modelProbation/2) {
			held++
		}
	}
	if held <= w.limit {
		w.broke("process %d condemned %s after %d deaths that were its own, with a limit of %d", p.number, id, held, w.limit)
	}
	if p.row = append(p.row, try); len(p.row) > 2 {
		w.broke("process %d condemned %v in a row", p.number, p.row)
	}
}

// wasUp says whether the process was connected so long ago, and before and after that moment.
func (l *link) wasUp(ago time.Duration) bool {
	up := true
	for _, at := range l.changes {
		if time.Since(at) == ago {
			return false
		}
		if time.Since(at) > ago {
			up = !up
		}
	}
	return up
}

// countWaits adds the time since the last change to each message that is not suspected and could
// have been called all that time: somebody who has it, or may get it, lives, takes messages and has
// a worker that calls nothing.
func (w *crashWorld) countWaits() {
	before, since := w.began, time.Since(w.began)
	w.began = time.Now()
	if since == 0 {
		return
	}
	for _, i := range w.queue.items {
		if i.suspected() || i.acked || i.rests || before.Before(w.messages[i.m.ID].rests) {
			continue
		}
		free := slices.ContainsFunc(w.procs, func(p *process) bool { return p.isFreeFor(i) })
		if free {
			i.waited += since
			w.longest = max(w.longest, i.waited)
		}
		if bound := copyTime + s; i.waited > bound {
			w.broke("%s was not called for %v, though it is not suspected and somebody was free", i.m.ID, i.waited)
		}
	}
}

// isFreeFor says whether the process has the message, or may get it, and calls it only if it wants
// to.
func (p *process) isFreeFor(i *item) bool {
	switch {
	case p.gone || p.stopping || p.paused || !p.link.up:
		return false
	case len(p.calls) >= p.w.workers, p.w.seats > 0 && len(p.calls) >= p.w.seats:
		return false
	case slices.ContainsFunc(p.calls, func(c *oneCall) bool { return c.id == i.m.ID }): // it runs, or is a repeat
		return false
	case i.with == nil:
		return p.link.s != nil && p.link.s.hasRoom()
	}
	return i.with.l == p.link
}

// calm ends all faults but the messages' own, and waits until nothing is left in the queue.
func (w *crashWorld) calm() {
	w.change(func() { w.deadSet, w.blind, w.deploy = takes, false, 0 })
	for range 3600 {
		time.Sleep(s)
		over := false
		w.change(func() { over = len(w.queue.items) == 0 || w.wrong != "" })
		if over {
			break
		}
	}
	w.change(w.mustBeSettled)
}

// mustBeSettled checks what is promised of the end: what never kills is done, or was condemned for
// deaths that condemns has looked at; what always does is in the dead set.
func (w *crashWorld) mustBeSettled() {
	for _, i := range w.queue.items {
		w.broke("%s is left in the queue: %+v, returns %d", i.m.ID, i.m.Headers, i.returns)
	}
	for id, how := range w.messages {
		switch {
		case how.kills == always && (w.dead[id] == 0 || how.done > 0):
			w.broke("%s kills each process that calls it: %d in the dead set, done %d times", id, w.dead[id], how.done)
		case how.done == 0 && w.dead[id] == 0:
			w.broke("%s was neither handled nor condemned", id)
		}
	}
}

// close ends all processes.
func (w *crashWorld) close() {
	w.change(func() { w.closed = true })
	for _, p := range w.procs {
		p.stop()
		p.abort()
	}
	for _, p := range w.procs {
		<-p.ended
	}
}
