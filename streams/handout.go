package streams

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// stop ends the handing out of records: what runs ends, what waits is dropped.
func (p *partition) stop() {
	for q := p; q != nil; q = q.predecessor() {
		q.mu.Lock()
		q.hold()
		q.checkDone()
		q.mu.Unlock()
	}
	p.r.pause.nudge()
}

// hold says that nothing more is to be handed out. It reports false when that was said before.
func (p *partition) hold() bool {
	if p.stopped.Swap(true) {
		return false
	}
	close(p.halted)
	return true
}

// finish says that nothing more will come.
func (p *partition) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.complete = true
	p.unguard() // its commits are its successor's, so nothing could be announced
	p.checkDone()
}

// checkDone closes done when nothing runs, or will: an earlier assignment that still runs counts as ours.
func (p *partition) checkDone() {
	if p.over || p.blocked || p.running > 0 {
		return
	}
	if p.stopped.Load() || p.complete && len(p.queue) == 0 && p.schedule.Empty() && len(p.crash.aside) == 0 {
		p.over = true
		close(p.done)
	}
}

// unblock lets what was held back go, since the assignment before is done.
func (p *partition) unblock() {
	p.mu.Lock()
	p.blocked = false
	p.checkDone()
	p.mu.Unlock()
	p.r.crew.offer(p)
}

// mayGoOn is asked before a call. It waits while the reader is paused.
func (p *partition) mayGoOn() bool {
	if p.r.pause.on.Load() {
		return p.r.pause.wait(&p.stopped)
	}
	return !p.stopped.Load()
}

// handOut gives a worker one message, or a stretch of n, or neither; more says that there may be more for others. Fast handlers get
// stretches: handing over costs more than they do.
func (p *partition) handOut(w *worker) (t task, n int, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.blocked && !p.stopped.Load() && !p.r.pause.on.Load() && !p.schedule.Stretched() {
		var ok bool
		if t, ok = p.nextSuspect(); ok {
			p.running++
			return t, 0, p.hasMore()
		}
		if p.schedule.Fresh() == 0 && !p.refill() {
			break
		}
		if p.pace.slow || !p.crash.guard.easy() {
			if t, ok = p.schedule.Next(); ok && !p.setAside(t) {
				p.running++
				return t, 0, p.hasMore()
			}
		} else if n = p.schedule.Stretch(w.tasks[:]); n > 0 {
			p.running++
			p.stretch = w
			w.begin(p, n)
			return task{}, n, false
		}
	}
	if p.stopped.Load() || p.r.pause.on.Load() {
		p.standBack()
	}
	p.checkDone()
	return task{}, 0, false
}

// hasMore says that there is more to hand out. What waits for its turn as a suspect is no more than others once deaths do not count.
func (p *partition) hasMore() bool {
	return p.schedule.Fresh() > 0 || len(p.queue) > 0 || p.crash.guard.limit == 0 && len(p.crash.aside) > 0
}

// refill looks at the next records.
func (p *partition) refill() bool {
	if len(p.queue) == 0 {
		return false
	}
	p.recall()
	records, at := p.queue[0].records, p.queue[0].at
	n := min(slabSize, len(records))
	if n = p.permitted(records[:n]); n == 0 {
		return false
	}
	p.crash.handed = records[n-1].Offset + 1
	if n < len(records) {
		p.queue[0].records, records = records[n:], records[:n]
	} else {
		p.queue[0] = chunk{}
		p.queue = p.queue[1:]
	}
	p.doubt(records)
	messages := p.slab.messages(records)
	var now time.Time
	if p.r.cfg.MaxAge > 0 {
		now = time.Now()
	}
	for i := range messages {
		t := taskOf(p.r.cfg.Order, p.r.seed, &messages[i])
		t.at = at
		switch {
		case p.window.Settled(t.offset):
			p.r.count.Duplicate()
		case p.known != nil && p.isKnown(t.offset):
			p.r.count.Duplicate()
			p.settled(t.offset, t.offset)
		case p.r.cfg.MaxAge > 0 && now.Sub(t.m.Time) > p.r.cfg.MaxAge:
			p.r.count.Expired(1)
			p.settled(t.offset, t.offset)
		default:
			p.schedule.Add(t)
		}
	}
	return true
}

// recall is for the first records of an assignment: only now is it known where it begins.
func (p *partition) recall() {
	if p.before == nil {
		return
	}
	if end, epoch, ok := p.recalls(p.before); ok {
		p.known, p.knownTo, p.knownEpoch = p.before, end, epoch
	}
	p.before = nil
}

// doubt ends what is known where records have a higher leader epoch: the log was cut since, and these are others.
func (p *partition) doubt(records []*kgo.Record) {
	if p.known == nil || records[len(records)-1].LeaderEpoch <= p.knownEpoch {
		return
	}
	for _, r := range records {
		if r.LeaderEpoch > p.knownEpoch {
			p.knownTo = min(p.knownTo, r.Offset)
			p.r.cfg.Forgotten(p.topic, p.partition)
			return
		}
	}
}

// isKnown says whether the offset was settled the last time the partition was ours.
func (p *partition) isKnown(offset int64) bool {
	if offset >= p.knownTo {
		p.known = nil
		return false
	}
	return p.known.knows(offset)
}

// recalls says whether what the assignment before this one knew still holds, and up to which offset and leader epoch. It does not when the
// topic is another one, or when somebody went back behind what we had committed: there the records are wanted again.
func (p *partition) recalls(before *partition) (end int64, epoch int32, ok bool) {
	start, id, forgotten := p.start, p.topicID, p.forgotten
	if forgotten {
		return 0, -1, false
	}
	end, epoch, ok = before.holds(start, id)
	if !ok {
		p.r.cfg.Forgotten(p.topic, p.partition)
	}
	return end, epoch, ok
}

// holds says whether, for an assignment that begins at start, the offsets still mean what they meant to this one, up to which offset and leader
// epoch.
func (p *partition) holds(start int64, id [16]byte) (end int64, epoch int32, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var none [16]byte
	another := id != p.topicID && id != none && p.topicID != none
	return p.expected, p.epoch, p.start >= 0 && start >= p.committed.offset && !another
}

// quit is for a worker that did not begin what it was given.
func (p *partition) quit() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	p.checkDone()
}

// ended notes the outcome of one message and returns the next of its key, if one waits.
func (p *partition) ended(t task, o Outcome, took time.Duration) task {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch o {
	case Settled:
		p.settled(t.offset, t.offset)
	case Pending:
		p.pend(t.offset)
	default:
		p.giveUp(t)
	}
	p.cameToItsEnd(t.offset)
	p.pace.ran(1, took)
	return p.next(t)
}

// next frees the key of a task and returns the next of that key, if there is one; if not, the worker is free.
func (p *partition) next(t task) task {
	if !p.stopped.Load() {
		if next, ok := p.schedule.Done(t); ok && !p.setAside(next) {
			return next
		}
	}
	p.running--
	p.checkDone()
	return task{}
}

// takeRest ends the stretch of a worker but for the call that runs, the last of those that were begun, if the worker still does what it was seen
// to do. It reports whether it did.
func (p *partition) takeRest(w *worker, seen uint64, begun int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stretch != w || !w.doing.CompareAndSwap(seen, noStretch) {
		return false
	}
	p.flushTo(w, begun-1)
	p.schedule.Unstretch(true, w.tasks[begun-1:w.length])
	p.stretch = nil
	w.lostAt = time.Now()
	p.pace.ran(1, watchInterval)
	return true
}

// endStretch notes that so many tasks of its stretch are done. It returns the next of the key of the last one if the rest was taken
// away, how long that last one took then (else 0), and whether there may be something for others.
func (p *partition) endStretch(w *worker, done int, took time.Duration) (next task, last time.Duration, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flushTo(w, done)
	if p.stretch != w {
		return p.next(w.tasks[max(done, 1)-1]), time.Since(w.lostAt) + watchInterval, false
	}
	w.doing.Store(noStretch)
	p.stretch = nil
	p.schedule.Unstretch(false, w.tasks[done:w.length])
	if done > 0 {
		p.pace.ran(done, took)
	}
	p.running--
	p.checkDone()
	return task{}, 0, p.hasMore()
}

// pendIn notes that a task of a stretch will be settled by its ticket.
func (p *partition) pendIn(w *worker, index int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flushTo(w, index)
	w.flushed = index + 1
	p.pend(w.tasks[index].offset)
}

// abandon is for a message without a verdict: nothing more is handed out.
func (p *partition) abandon(t task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.giveUp(t)
}

func (p *partition) giveUp(t task) {
	if !p.hold() || p.handling.Err() != nil {
		return
	}
	p.r.log.Error("a message was abandoned while its partition is ours: the partition rests until it is assigned anew",
		"stream", p.r.cfg.Stream, "topic", p.topic, "partition", p.partition, "offset", t.offset)
}

// takeBack is for the next of a key that a worker must not begin now.
func (p *partition) takeBack(t task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopped.Load() {
		p.schedule.Return(t)
	}
	p.running--
	p.checkDone()
}
