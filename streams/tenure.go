package streams

import (
	"math"

	"github.com/stepwell/stepwell/internal/crew"
)

// A record's key and value are slices of all that one fetch brought, and its message is one of a
// slab. What is handled in turn lets go of that soon. What waits while others pass, for its key or
// for its partition, would keep as many fetches alive as it has records. So when more is kept alive
// than what is in flight, what has waited for long is given memory of its own: each record once at
// most, and none where all are handled in turn, however slowly.

// tenure knows how much was fetched, in bytes.
type tenure struct {
	step    int64 // from one look to the next
	fetched int64
	looked  int64 // fetched at the last look
	owned   int64 // what waits and came before that was fetched has memory of its own
}

// messageOverhead is what a record takes beside its bytes until it is settled, in its client and as
// a message.
const messageOverhead = 2 * recordOverhead

// footprint is about how much memory records take whose keys, values and headers have so many
// bytes.
func footprint(records, bytes int) int64 { return int64(records)*messageOverhead + int64(bytes) }

// letGo looks now and then whether what waits keeps alive much that is done.
func (in *intake) letGo() {
	t := &in.tenure
	if t.fetched-t.looked < t.step {
		return
	}
	t.looked = t.fetched
	in.cfg.Calls.Fetched(uint32(t.fetched / t.step))
	parts := in.parts.all()
	oldest := t.fetched
	for _, p := range parts {
		oldest = min(oldest, t.waitsSince(p))
	}
	if inFlight := footprint(int(in.load.records.Load()), int(in.load.bytes.Load())); t.fetched-oldest <= inFlight+2*t.step {
		return
	}
	until := t.fetched - t.step
	for _, p := range parts {
		t.own(p, until)
	}
	t.owned = until
}

// waitsSince is when the first was fetched that waits in a partition, of those that have no memory
// of their own.
func (t *tenure) waitsSince(p *partition) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	oldest := int64(math.MaxInt64)
	for _, c := range p.backlog.chunks {
		if c.at >= t.owned {
			oldest = min(oldest, c.at)
		}
	}
	p.roster.Since(t.owned, func(e *crew.Entry) bool {
		oldest = min(oldest, e.Fetched)
		return false // those behind it are younger
	})
	return oldest
}

// own gives what waits in a partition, and was fetched before until, memory of its own.
func (t *tenure) own(p *partition, until int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backlog.own(t.owned, until)
	p.roster.Since(t.owned, func(e *crew.Entry) bool {
		if e.Fetched >= until {
			return false
		}
		e.Message = e.Message.Clone()
		return true
	})
}
