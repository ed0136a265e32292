package streams

import (
	"time"

	"github.com/stepwell/stepwell/internal/task"
)

// A partition is a [task.Gatherable]: this is how it hears of messages that are called together.

var _ task.Gatherable = (*partition)(nil)

// running is how many calls run, or are to come for what was gathered. Calls may be over before it
// was told that their messages were gathered.
func (p *partition) running() int { return p.roster.Running() + max(0, p.gathered) }

// Halted says that nothing more of the partition is handed out.
func (p *partition) Halted() bool { return p.roster.IsHalted() }

// Ended notes how the call of messages ended that were gathered.
func (p *partition) Ended(offsets []int64, o task.Outcome) {
	p.mu.Lock()
	p.gathered -= len(offsets)
	if o == task.Abandoned {
		p.roster.Halt() // what comes after them is the next owner's, too
	}
	for len(offsets) > 0 && o != task.Abandoned {
		n := 1
		for o == task.Settled && n < len(offsets) && offsets[n] == offsets[n-1]+1 {
			n++
		}
		p.Done(offsets[0], offsets[n-1], o)
		offsets = offsets[n:]
	}
	p.checkDone()
	guarded := !p.ledger.Guard.Free()
	p.mu.Unlock()
	if guarded {
		p.roster.Offer()
	}
}

// Rest notes until when a message that was gathered rests; the zero time: it has rested. What is
// held against a suspect stays: it may end the process in its next try. It keeps its turn, as long
// as a suspect may have one: others in its lane wait for it, and could not use theirs.
func (p *partition) Rest(offset int64, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.IsZero() {
		p.ledger.Rests.End(offset)
	} else {
		p.ledger.Rests.Begin(offset, until)
		if !p.ledger.Guard.Free() {
			p.roster.Offer()
		}
	}
}

// Desert is Deserted for messages whose call they had together.
func (p *partition) Desert(offsets []int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roster.Halt()
	p.gathered -= len(offsets)
	p.checkDone()
	return p.Deserted(offsets[0])
}
