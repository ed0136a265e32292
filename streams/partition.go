package streams

import (
	"context"
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
	r *Reader

	// owned ends when the partition is no longer ours to settle: what was not sent by then is the next owner's to send.
	owned  context.Context
	disown context.CancelCauseFunc
	// handling is the context of handler calls. It ends with owned, and earlier when a drain has no more time.
	handling context.Context
	halt     context.CancelCauseFunc

	// stopped says that no further record is to be handed out.
	stopped atomic.Bool
	// settledTo is the last offset of the worker's present run of settled records: the worker stores, flush reads.
	settledTo atomic.Int64
	// done is closed when the worker is gone.
	done chan struct{}

	mu         sync.Mutex
	before     *partition // the earlier assignment: its worker must be gone first, and it knows what was settled then
	replaced   *partition // what this one replaced when the log was cut: given up together
	wake       *sync.Cond // something in queue, or stopped, or complete
	window     window
	queue      [][]*kgo.Record
	complete   bool  // nothing more will come; the worker ends when the queue is empty
	released   bool  // no longer counted in the reader's totals
	flushed    int64 // settledTo up to here is in the window
	dispatched int64 // the last offset that was handed out with an outcome
	quiet      chan struct{}
	topicID    [16]byte
	start      int64    // where this assignment began to read; negative: not known yet
	expected   int64    // the offset after the last record added; negative: not known yet
	watermark  int64    // the end of the log as the last fetch saw it
	committed  position // the last commit that is known to have been stored, or where we began
	forgotten  bool     // what before knows does not count
	restate    bool     // commit the beginning, though nothing is settled yet
}

func newPartition(r *Reader, tp topicPartition) *partition {
	p := &partition{
		topicPartition: tp, r: r, done: make(chan struct{}),
		window:    newWindow(position{-1, -1}),
		committed: position{-1, -1},
		flushed:   -1, dispatched: -1, start: -1, expected: -1, watermark: -1,
	}
	p.settledTo.Store(-1)
	p.wake = sync.NewCond(&p.mu)
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

// append takes fetched records and returns how many, with their bytes, were added.
func (p *partition) append(f *kgo.FetchPartition, topicID [16]byte) (records, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watermark = max(p.watermark, f.HighWatermark)
	p.topicID = topicID
	first := f.Records[0].Offset
	if p.start < 0 {
		p.start, p.committed = first, position{first, -1}
	}
	for _, r := range f.Records {
		size := sizeOf(r)
		p.window.Add(r.Offset, r.LeaderEpoch, size)
		bytes += size
	}
	p.expected = f.Records[len(f.Records)-1].Offset + 1
	p.queue = append(p.queue, f.Records)
	p.wake.Signal()
	return len(f.Records), bytes
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

// take waits for records; false means that the worker has to end.
func (p *partition) take() ([][]*kgo.Record, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue) == 0 && !p.complete && !p.stopped.Load() {
		p.wake.Wait()
	}
	batches := p.queue
	p.queue = nil
	return batches, len(batches) > 0 && !p.stopped.Load()
}

// stop ends the handing out of records: after the call that runs, the worker is gone.
func (p *partition) stop() {
	for q := p; q != nil; q = q.predecessor() {
		q.mu.Lock()
		q.stopped.Store(true)
		q.wake.Broadcast()
		q.mu.Unlock()
	}
	p.r.pause.nudge()
}

// finish lets the worker end when it has handed out what is queued.
func (p *partition) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.complete = true
	p.wake.Broadcast()
}

func (p *partition) predecessor() *partition {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.before
}

func (p *partition) setPredecessor(q *partition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before = q
}

// cancel ends the context of running handlers.
func (p *partition) cancel(cause error) {
	for q := p; q != nil; q = q.predecessor() {
		q.halt(cause)
	}
}

// settle marks one offset from any goroutine.
func (p *partition) settle(offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	records, bytes := p.window.Settle(offset)
	p.freed(records, bytes)
}

// flush brings the worker's run of settled records into the window.
func (p *partition) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flushLocked()
}

func (p *partition) flushLocked() {
	to := p.settledTo.Load()
	if to <= p.flushed {
		return
	}
	records, bytes := p.window.SettleRange(p.flushed+1, to)
	p.flushed = to
	p.dispatched = max(p.dispatched, to)
	p.freed(records, bytes)
}

// pend notes that a record was handed out and will be settled by its ticket.
func (p *partition) pend(offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flushLocked()
	p.flushed, p.dispatched = offset, offset // the next run begins after it
}

func (p *partition) freed(records, bytes int) {
	if !p.released && (records > 0 || bytes > 0) {
		p.r.load.remove(records, bytes)
	}
	if p.quiet != nil && p.isQuiet() {
		close(p.quiet)
		p.quiet = nil
	}
}

// isQuiet says that nothing handed out waits for its ticket.
func (p *partition) isQuiet() bool {
	first, ok := p.window.First()
	return !ok || first > p.dispatched
}

// quieted returns a channel that is closed when everything handed out is settled. Ask after the worker is gone.
func (p *partition) quieted() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flushLocked()
	if p.quiet != nil {
		return p.quiet // a revoke and a stop may wait at once
	}
	c := make(chan struct{})
	if p.isQuiet() {
		close(c)
	} else {
		p.quiet = c
	}
	return c
}

// dirty returns what is to be committed, if anything is.
func (p *partition) dirty() (position, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flushLocked()
	next, ok := p.window.Committable()
	return next, ok && (p.restate || next.offset != p.committed.offset)
}

// stored notes a commit that the broker has.
func (p *partition) stored(at position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.committed, p.restate = at, false
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
	p.flushLocked()
	if p.released {
		return
	}
	p.released = true
	p.queue = nil
	p.r.load.remove(p.window.Len(), p.window.Bytes())
	p.window.shrink()
}

// knows says whether offset was settled in this assignment, for the one after it.
func (p *partition) knows(offset int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.start >= 0 && offset >= p.start && p.window.Settled(offset)
}

// recalls says whether what the assignment before this one knew still holds, and up to which offset. It does not when the
// topic is another one, or when somebody went back behind what we had committed: there the records are wanted again.
func (p *partition) recalls(before *partition) (end int64, ok bool) {
	p.mu.Lock()
	start, id, forgotten := p.start, p.topicID, p.forgotten
	p.mu.Unlock()
	if forgotten {
		return 0, false
	}
	end, ok = before.holds(start, id)
	if !ok {
		p.r.cfg.Forgotten(p.topic, p.partition)
	}
	return end, ok
}

// holds says whether, for an assignment that begins at start, the offsets still mean what they meant to this one, and up to which.
func (p *partition) holds(start int64, id [16]byte) (end int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var none [16]byte
	another := id != p.topicID && id != none && p.topicID != none
	return p.expected, p.start >= 0 && start >= p.committed.offset && !another
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
	p.forgotten = true
	p.mu.Unlock()
	p.r.cfg.Forgotten(p.topic, p.partition)
}
