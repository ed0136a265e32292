package streams

import (
	"context"
	"fmt"
	"time"

	"github.com/stepwell/stepwell/internal/task"
)

// A partition is a [crew.Feed]: this is how the crew gets its records, and tells what became of
// them.

// Lock takes the lock of the partition and its roster.
func (p *partition) Lock() { p.mu.Lock() }

// Unlock gives it back.
func (p *partition) Unlock() { p.mu.Unlock() }

// Calls is the context of handlers.
func (p *partition) Calls() context.Context { return p.handling }

// stop ends the handing out of records: what runs ends, what waits is dropped.
func (p *partition) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roster.Halt()
	p.checkDone()
}

// checkDone closes done when nothing runs, or will: an earlier assignment that still runs counts as
// ours.
func (p *partition) checkDone() {
	if p.over || p.blocked || p.roster.Running() > 0 {
		return
	}
	if p.roster.IsHalted() {
		p.over = true
		close(p.done)
	}
}

// Idle looks whether the partition is done. While nothing is handed out, in a pause for instance,
// what was announced and does not run gives way.
func (p *partition) Idle() {
	if p.roster.IsHalted() || p.crew.Paused() {
		p.suspects.standBack()
	}
	p.checkDone()
}

// unblock lets what was held back go, since the assignment before is done.
func (p *partition) unblock() {
	p.mu.Lock()
	p.blocked = false
	p.checkDone()
	p.mu.Unlock()
	p.roster.Offer()
}

// More says that there is more to hand out. What waits for its turn as a suspect is no more than
// others once deaths do not count.
func (p *partition) More() bool {
	return len(p.queue) > 0 || !p.ledger.Guard.Counts() && len(p.suspects.aside) > 0
}

// Take looks at the next records.
func (p *partition) Take() bool {
	if p.blocked || len(p.queue) == 0 {
		return false
	}
	records, at := p.queue[0].records, p.queue[0].at
	n := min(slabSize, len(records))
	if n = p.suspects.permitted(records[:n]); n == 0 {
		return false
	}
	p.ledger.HandOut(records[n-1].Offset + 1)
	if n < len(records) {
		p.queue[0].records, records = records[n:], records[:n]
	} else {
		p.queue[0] = chunk{}
		p.queue = p.queue[1:]
	}
	messages := p.slab.messages(records)
	var now time.Time
	if p.cfg.MaxAge > 0 {
		now = time.Now()
	}
	for i := range messages {
		t := entryOf(p.cfg.Calls.Order, p.seed, &messages[i])
		t.Fetched = at
		switch {
		case p.ledger.Settled(t.Offset):
			p.cfg.Telemetry.Duplicate()
		case p.cfg.MaxAge > 0 && now.Sub(t.Message.Time) > p.cfg.MaxAge:
			p.cfg.Telemetry.Expired(1)
			p.settled(t.Offset, t.Offset)
		default:
			p.roster.Add(t)
		}
	}
	return true
}

// Done notes how calls ended.
func (p *partition) Done(first, last int64, o task.Outcome) {
	switch o {
	case task.Settled:
		p.settled(first, last)
	case task.Pending:
		p.ledger.Pend(first)
	case task.Abandoned:
		if !p.roster.IsHalted() && p.handling.Err() == nil {
			p.logger(first).Error("a message was abandoned while its partition is ours: the partition rests until it is assigned anew")
		}
	}
	p.suspects.cameToItsEnd(first)
}

// Deserted sees to it that no commit says that we part with the partition.
func (p *partition) Deserted(offset int64) error {
	p.suspects.deserted = true
	p.ledger.Part(false) // should a stop have begun before
	return fmt.Errorf("stream %s: the handler ended its goroutine with runtime.Goexit, which stops the actor; it had %s/%d@%d, which counts a death",
		p.cfg.Stream, p.topic, p.partition, offset)
}
