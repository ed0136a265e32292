package streams

import (
	"fmt"
	"time"

	"github.com/stepwell/stepwell/internal/task"
)

// A partition is a [crew.Feed]: this is how the crew gets its records, and tells what became of
// them.

// stop ends the handing out of records: what runs ends, what waits is dropped.
func (p *partition) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roster.Halt()
	p.checkDone()
	p.cfg.Calls.Flush()
}

// checkDone closes done when nothing runs, or will: an earlier assignment that still runs counts as
// ours.
func (p *partition) checkDone() {
	if p.over || p.blocked || p.roster.Running() > 0 || p.gathered > 0 {
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
	return !p.backlog.isEmpty() || !p.ledger.Guard.Counts() && len(p.suspects.aside) > 0
}

// Take looks at the next records.
func (p *partition) Take() bool {
	if p.blocked || p.backlog.isEmpty() {
		return false
	}
	records := p.backlog.next()
	n := p.suspects.permitted(records)
	if n == 0 {
		return false
	}
	p.ledger.HandOut(records[n-1].Offset + 1)
	messages, at := p.backlog.take(n)
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
	case task.Gathered:
		p.gathered += int(last-first) + 1
		return
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
