package streams

import "context"

// Context ends, with a cause, when the partition is no longer ours.
func (p *partition) Context() context.Context { return p.owned }

// Trace is empty: what comes from Kafka is tried for the first time.
func (p *partition) Trace() (parent, state string) { return "", "" }

// Alone says that the record is the suspect that was handed out to run.
func (p *partition) Alone(offset int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.suspects.runs == offset
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
	f := p.ledger.Settle(first, last)
	if f.Records > 0 && !p.released {
		p.load.remove(f)
	}
	if p.quiet != nil && p.ledger.Quiet() {
		close(p.quiet)
		p.quiet = nil
	}
}

// quieted returns a channel that is closed when everything handed out is settled. Ask after the
// partition is done.
func (p *partition) quieted() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quiet != nil {
		return p.quiet // a revoke and a stop may wait at once
	}
	c := make(chan struct{})
	if p.ledger.Quiet() {
		close(c)
	} else {
		p.quiet = c
	}
	return c
}
