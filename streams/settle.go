package streams

// settle marks one offset from any goroutine.
func (p *partition) settle(offset int64) {
	p.mu.Lock()
	delete(p.pending, offset)
	p.settled(offset, offset)
	guarded := !p.crash.guard.easy()
	p.mu.Unlock()
	if guarded {
		p.r.crew.offer(p) // the next may go now
	}
}

// settled marks the offsets from first to last.
func (p *partition) settled(first, last int64) {
	f := p.window.SettleRange(first, last)
	if f.records > 0 {
		p.changes++
		if !p.released {
			p.r.load.remove(f)
		}
	}
	if p.quiet != nil && len(p.pending) == 0 {
		close(p.quiet)
		p.quiet = nil
	}
}

// pend notes that an offset will be settled by its ticket, if it is not already.
func (p *partition) pend(offset int64) {
	if !p.window.Settled(offset) {
		p.pending[offset] = struct{}{}
	}
}

// flush brings what is settled in a stretch into the window. The worker only counts.
func (p *partition) flush() {
	if w := p.stretch; w != nil {
		if begun := int(w.doing.Load() & indexMask); begun > 0 {
			p.flushTo(w, begun-1)
		}
	}
}

// flushTo settles the first tasks of a stretch but those that are pending.
func (p *partition) flushTo(w *worker, done int) {
	for w.flushed < done {
		first := w.tasks[w.flushed].offset
		last := first
		for w.flushed++; w.flushed < done && w.tasks[w.flushed].offset == last+1; w.flushed++ {
			last++
		}
		p.settled(first, last)
	}
}

// quieted returns a channel that is closed when everything handed out is settled. Ask after the partition is done.
func (p *partition) quieted() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quiet != nil {
		return p.quiet // a revoke and a stop may wait at once
	}
	c := make(chan struct{})
	if len(p.pending) == 0 {
		close(c)
	} else {
		p.quiet = c
	}
	return c
}
