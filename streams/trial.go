package streams

import "time"

// try looks, after the probation, whether the deaths that are held against a record were deaths,
// and whether it is the record that kills. Until then no suspect runs in this process.
func (p *partition) try(offset int64) {
	condemned, err := false, error(nil)
	if p.lasts(p.r.cfg.Probation) {
		condemned, err = p.judge(offset)
	}
	if err != nil {
		p.logger(offset).Warn("a suspected record waits until it can be seen which members live: it is tried again", "error", err)
	}
	p.mu.Lock()
	p.crash.trial, p.crash.tried = false, err == nil
	p.crash.limit.Reset(p.r.cfg.AloneFor)
	if condemned || err != nil {
		p.giveTokenBack()
	}
	p.mu.Unlock()
	p.r.crew.offer(p)
}

// lasts reports false when the partition is halted before so long.
func (p *partition) lasts(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.halted:
		return false
	}
}

// judge says whether the record is condemned. An error says that it cannot be seen who lives.
func (p *partition) judge(offset int64) (condemned bool, err error) {
	living, err := p.r.Living(p.handling)
	if err != nil {
		return false, err
	}
	row, log := p.r.condemnedInARow(), p.logger(offset)
	p.mu.Lock()
	defer p.mu.Unlock()
	g := &p.crash.guard
	switch {
	case !g.review(func(life uint32) bool { return living[life] }):
		log.Warn("the process died while a suspected record ran: it runs once more, and no other suspect beside it", "deaths", len(g.now.died))
		return false, nil
	case row >= rowLimit:
		log.Error("the process dies whichever record runs: it is not the records, and no more of them are condemned until one comes to its end", "deaths", len(g.now.died))
		g.acquit(offset)
		return false, nil
	}
	g.now.row++
	p.crash.guilty.Store(offset) // with the row: a commit in between would count the record twice
	log.Error("a record killed the process each time it ran: it is not called again", "deaths", len(g.now.died))
	return true, nil
}

// condemnedInARow is how many records of the stream's partitions here were condemned since a suspect
// of theirs came to its end.
func (r *Reader) condemnedInARow() (n int) {
	for _, p := range r.all() {
		p.mu.Lock()
		n += p.crash.guard.now.row
		p.mu.Unlock()
	}
	return n
}
