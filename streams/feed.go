package streams

import (
	"fmt"
	"hash/maphash"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/crew"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/task"
)

// A partition is a [crew.Feed]: this is how the crew gets its records, and tells what became of
// them; at the end, how a ticket settles one.

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
	if p.over || p.awaits != nil || p.roster.Running() > 0 || p.gathered > 0 {
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
	p.awaits = nil
	p.checkDone()
	p.mu.Unlock()
	p.roster.Offer()
}

// isBlocked says that nothing is handed out for now, since calls of the assignment before run.
func isBlocked(p *partition) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.awaits != nil
}

// More says that there is more to hand out. What waits for its turn as a suspect is no more than
// others once deaths do not count.
func (p *partition) More() bool {
	return !p.backlog.isEmpty() || !p.ledger.Guard.Counts() && len(p.suspects.aside) > 0
}

// Take looks at the next records.
func (p *partition) Take() bool {
	if p.awaits != nil || p.backlog.isEmpty() {
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
		e := entryOf(p.cfg.Calls.Order, p.seed, &messages[i])
		e.Fetched = at
		switch {
		case p.ledger.Settled(e.Offset):
			p.cfg.Telemetry.Duplicate()
		case p.cfg.MaxAge > 0 && hasTime(e.Message) && now.Sub(e.Message.Time) > p.cfg.MaxAge:
			p.cfg.Telemetry.Expired(1)
			p.settled(e.Offset, e.Offset)
		default:
			p.roster.Add(e)
		}
	}
	return true
}

// hasTime says whether the producer gave the record a time; one of -1 is none.
func hasTime(m *stepwell.Message) bool { return m.Time.UnixMilli() >= 0 }

// partitionKey is the key of all messages where a partition's are handled one after another.
const partitionKey = 1

// entryOf is what the crew is to know of a message. A key is known by its hash alone: two keys with
// the same hash wait for one another, which is never wrong.
func entryOf(order Order, seed maphash.Seed, m *stepwell.Message) crew.Entry {
	e := crew.Entry{Message: m, Offset: m.Origin.Offset}
	switch {
	case order == OrderPartition:
		e.Key = partitionKey
	case order == OrderKey && m.Key != nil:
		e.Key = max(maphash.Bytes(seed, m.Key), 1)
	}
	return e
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
	return fmt.Errorf("stream %s: the handler ended its goroutine with runtime.Goexit, which stops the actor; it had message %s, of which that counts as a death",
		p.cfg.Stream, envelope.ID(p.topic, p.partition, offset))
}

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
	f := p.ledger.Settle(first, last)
	if p.quiet != nil && p.ledger.Quiet() {
		close(p.quiet)
		p.quiet = nil
	}
	if f.Records > 0 && !p.released {
		p.load.remove(f)
	}
}
