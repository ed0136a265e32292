package streams

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// topicPartition names a partition.
type topicPartition struct {
	topic     string
	partition int32
}

// partition is one assignment of a partition to us: what was read of it, what is settled, and its worker. When the same
// partition is assigned anew there is a new one.
type partition struct {
	topicPartition
	r       *Reader
	fetcher *fetcher // that reads it

	// owned ends when the partition is no longer ours to settle: what was not sent by then is the next owner's to send.
	owned  context.Context
	disown context.CancelCauseFunc
	// handling is the context of handler calls. It ends with owned, and earlier when a drain has no more time.
	handling context.Context
	halt     context.CancelCauseFunc

	// stopped says that no further record is to be handed out.
	stopped atomic.Bool
	halted  chan struct{} // closed then
	// done is closed when nothing of it runs, or will.
	done chan struct{}
	// placed says that its commit was read, or that there is none.
	placed atomic.Bool
	// listed says that the crew has it in its list, and is guarded by the crew.
	listed bool

	mu         sync.Mutex
	before     *partition // the earlier assignment: it must be done first, and knows what was settled then
	replaced   *partition // what this one replaced when the log was cut: given up together
	blocked    bool       // before is not done
	window     window
	queue      []chunk // not looked at yet
	schedule   schedule
	slab       slab
	pace       pace
	stretch    *worker            // that has a stretch, if one has
	running    int                // workers that handle messages of this partition
	over       bool               // done is closed
	complete   bool               // nothing more will come
	released   bool               // no longer counted in the reader's totals
	pending    map[int64]struct{} // handed out, and waiting for their ticket
	quiet      chan struct{}
	known      *partition // the earlier assignment, as far as it says what is settled already
	knownTo    int64
	knownEpoch int32
	topicID    [16]byte
	start      int64    // where this assignment began to read; negative: not known yet
	expected   int64    // the offset after the last record added; negative: not known yet
	watermark  int64    // the end of the log as the last fetch saw it
	committed  position // the last commit that is known to have been stored, or where we began
	forgotten  bool     // what before knows does not count
	restate    bool     // commit the beginning, though nothing is settled yet
	changes    uint64   // how often anything was settled
	sent       uint64   // changes up to the last commit
	metadata   string   // of that commit
	told       told     // by the commit from which we began, less the spans that were read
	epoch      int32    // the highest of the records read; -1: there is none
	crash      crash
	front      front
}

func newPartition(r *Reader, tp topicPartition) *partition {
	p := &partition{
		topicPartition: tp, r: r, done: make(chan struct{}), halted: make(chan struct{}),
		window: newWindow(position{-1, -1}), schedule: newSchedule(), slab: newSlab(r.cfg.Stream, tp), pending: map[int64]struct{}{},
		committed: position{-1, -1}, epoch: -1, told: told{epoch: -1}, start: -1, expected: -1, watermark: -1,
	}
	p.crash.begin(p)
	p.owned, p.disown = context.WithCancelCause(r.life)
	p.handling, p.halt = context.WithCancelCause(p.owned)
	return p
}

// begin says where the partition is read from, as soon as that is known.
func (p *partition) begin(at position, restate bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.expected > p.start {
		return // reading already
	}
	p.start, p.expected = at.offset, at.offset
	p.committed = at
	p.window.next = at
	p.restate = restate
}

// append takes fetched records and returns how many, with their bytes, were added. Markers of transactions, which nobody is to see, are settled.
// at is how much the reader had fetched before them.
func (p *partition) append(f *kgo.FetchPartition, topicID [16]byte, at int64) (records, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watermark = max(p.watermark, p.r.endOf(f))
	p.crash.guard.ends(f.HighWatermark)
	p.isOf(topicID)
	first := f.Records[0].Offset
	if p.start < 0 {
		p.start, p.committed = first, position{first, -1}
		p.window.next = p.committed
	}
	markers := 0
	for _, r := range f.Records {
		size := sizeOf(r)
		p.window.Add(r.Offset, r.LeaderEpoch, size)
		bytes += size
		p.epoch = max(p.epoch, r.LeaderEpoch)
		if p.wasSettled(r.Offset, r.LeaderEpoch) {
			p.settled(r.Offset, r.Offset)
		}
		if r.Attrs.IsControl() {
			p.settled(r.Offset, r.Offset)
			markers++
		}
	}
	p.expected = f.Records[len(f.Records)-1].Offset + 1
	records = len(f.Records)
	if markers > 0 {
		f.Records = slices.DeleteFunc(f.Records, func(r *kgo.Record) bool { return r.Attrs.IsControl() })
	}
	if len(f.Records) > 0 {
		p.queue = append(p.queue, chunk{f.Records, at})
	}
	if p.stretch != nil {
		p.r.crew.rouse() // there is something to hand out beside it
	}
	return records, bytes
}

// position is the offset that the next record should have; negative: not known.
func (p *partition) position() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.expected
}

// jump says that the records before offset are gone.
func (p *partition) jump(offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = max(p.expected, offset)
}

func (p *partition) predecessor() *partition {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.before
}

// stems says whether p is q, or what replaced it when the log was cut.
func (p *partition) stems(q *partition) bool {
	for ; p != nil; p = p.replacedOne() {
		if p == q {
			return true
		}
	}
	return false
}

func (p *partition) replacedOne() *partition {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.replaced
}

// cancel ends the context of running handlers.
func (p *partition) cancel(cause error) {
	for q := p; q != nil; q = q.predecessor() {
		q.halt(cause)
	}
}

// checkpoint is what is to be committed.
type checkpoint struct {
	at       position
	metadata string
	changes  uint64
	mark     lifeMark
	held     bool // by what a cut replaced: to be committed again
}

// heldAt is where a partition that was replaced holds the commit back: it has an unsettled record before the cut, which is still in the log.
func (p *partition) heldAt(cut int64) (at position, held bool) {
	if p == nil {
		return position{}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, held = p.replaced.heldAt(min(cut, p.start)); held {
		return at, true
	}
	p.flush()
	first, open := p.window.First()
	return p.window.next, open && first < cut
}

// dirty returns what is to be committed, if anything is; its metadata has at most limit bytes.
func (p *partition) dirty(limit int) (checkpoint, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flush()
	p.look()
	c := checkpoint{changes: p.changes}
	var ok bool
	if c.at, ok = p.window.Committable(); !ok {
		return c, false
	}
	mark, urgent := p.mark(limit)
	urgent = urgent || p.restate
	at, held := p.replaced.heldAt(p.start)
	if p.changes == p.sent && !urgent && !held || held && at.offset < 0 {
		return c, false
	}
	if mark != nil {
		c.mark = *mark
	}
	if held { // what is settled beyond is said once nothing holds it back
		c.at, c.held = at, true
		c.metadata = writeTold(at.offset, p.tell(mark), func(func(span) bool) {}, limit)
		return c, true
	}
	c.metadata = writeTold(c.at.offset, p.tell(mark), p.allBeyond, limit)
	return c, urgent || c.at.offset != p.committed.offset || c.metadata != p.metadata
}

// stored notes a commit that the broker has.
func (p *partition) stored(c checkpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.committed, p.metadata, p.sent, p.restate = c.at, c.metadata, c.changes, c.held
	p.marked(c.mark)
}

// release takes the partition out of the totals and ends its contexts. Tickets that settle later are remembered for the
// case that the partition comes back, and have no other effect.
func (p *partition) release(cause error) {
	p.halt(cause)
	p.disown(cause)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.replaced != nil {
		p.replaced.release(cause)
		p.replaced = nil
	}
	p.flush()
	if p.released {
		return
	}
	p.released = true
	p.crash.end(p)
	p.queue = nil
	p.schedule.Clear()
	p.r.load.remove(freed{p.window.Unsettled(), p.window.Bytes(), p.window.Len()})
	p.window.shrink()
}

// knows says whether offset was settled in this assignment, for the one after it.
func (p *partition) knows(offset int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.start >= 0 && offset >= p.start && p.window.Settled(offset)
}

// lag is how many records lie between the settled prefix and the end of the log.
func (p *partition) lag() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.start
	if next, ok := p.window.Committable(); ok {
		at = next.offset
	}
	if at < 0 || p.watermark < 0 {
		return 0
	}
	return max(0, p.watermark-at)
}

// sawEnd notes where the log ends.
func (p *partition) sawEnd(offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watermark = max(p.watermark, offset)
}

// forget drops what the assignment before this one knew: its offsets are other records now. Its worker is still waited for.
func (p *partition) forget() {
	p.mu.Lock()
	p.forgotten, p.told.spans, p.known = true, nil, nil
	p.mu.Unlock()
	p.r.cfg.Forgotten(p.topic, p.partition)
}
