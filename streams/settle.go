package streams

// Trace is empty: what comes from Kafka is tried for the first time.
func (p *partition) Trace() (parent, state string) { return "", "" }

// Alone says that the record is the suspect that was handed out to run.
func (p *partition) Alone(offset int64) bool {
	return p.suspects.runs.Load() == offset
}

// Settle marks one offset from any goroutine.
func (p *partition) Settle(offset int64) {
	p.mu.Lock()
	p.settled(offset, offset)
	guarded := !p.ledger.Guard.Free()
	p.mu.Unlock()
	if guarded {
		p.roster.Offer() // the next may go now
	}
}

// settled marks the offsets from first to last.
func (p *partition) settled(first, last int64) {
	if f := p.settleLocked(first, last); f.Records > 0 && !p.released {
		p.load.remove(f)
	}
}
