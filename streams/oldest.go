package streams

import (
	"cmp"
	"time"
)

// Oldest is the record that holds a stream's window: it is not settled, and what is behind it in
// its partition can neither be committed nor leave the window.
type Oldest struct {
	Topic     string
	Partition int32
	Offset    int64
	// Since is when it was first seen to be the first open record of its partition: by the
	// committer, between two commits, or by [Reader.Status]. That is never too early, and at most
	// 200 ms late unless a commit hangs.
	Since time.Time
	// Behind is how many records behind it in its partition are in the window, settled or not.
	Behind int
	// NextTry is when it is tried again, if it rests between two tries in place; else zero.
	NextTry time.Time
}

// before says that o holds the window rather than other: it has been the first of its partition for
// longer.
func (o Oldest) before(other Oldest) bool {
	return cmp.Or(o.Since.Compare(other.Since), cmp.Compare(o.Topic, other.Topic), cmp.Compare(o.Partition, other.Partition)) < 0
}

// oldestOpen is the record that holds the window in this partition, if one does: where calls of an
// assignment before it run still, that assignment's.
func (p *partition) oldestOpen() (o Oldest, open bool) {
	p.mu.Lock()
	if before := p.awaits; before != nil {
		p.mu.Unlock()
		return before.oldestOpen()
	}
	defer p.mu.Unlock()
	p.roster.Flush()
	offset, since, behind, open := p.ledger.Oldest(time.Now())
	if !open {
		return o, false
	}
	return Oldest{p.topic, p.partition, offset, since, behind, p.ledger.Rests.Until(offset)}, true
}

// held is how many records rest until they are tried again in place, and how many wait, since the
// one before of their key runs or rests.
func (p *partition) held() (resting, behind int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ledger.Rests.Waiting(), p.roster.Behind()
}
