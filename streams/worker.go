package streams

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
)

// Outcome is what a [Handle] says about its message.
type Outcome int

// The outcomes.
const (
	// Settled: the message is done, or safe elsewhere. Its offset may be committed.
	Settled Outcome = iota + 1
	// Pending: [Ticket.Settle] is or will be called once the message is safe.
	Pending
	// Abandoned: there is no verdict. The offset is never committed and the partition's worker stops; the partition's next
	// owner reads from there.
	Abandoned
)

// Handle does the work for one message of a partition after another, in the order of their offsets; partitions run side by
// side. Its context lives through a stop for the drain and ends with a cause: [ErrRevoked], [ErrLost] or that of the work
// context. A panic is not caught.
type Handle func(ctx context.Context, m *stepwell.Message, t Ticket) Outcome

// Ticket settles a message whose outcome was [Pending].
type Ticket struct {
	p      *partition
	offset int64
}

// Settle says that the message is safe. It may be called from any goroutine, also before the [Handle] returned Pending, and
// more than once. It has no effect on commits once the partition is lost.
func (t Ticket) Settle() { t.p.settle(t.offset) }

// Context ends, with a cause, when the partition is no longer ours: what was not sent by then need not be, since the next
// owner handles the message again. It outlives the context of the handler.
func (t Ticket) Context() context.Context { return t.p.owned }

// worker hands out the records of one partition.
type worker struct {
	p      *partition
	handle Handle
	slab   slab
	maxAge time.Duration
	// before knows the offsets below recalled that were settled the last time the partition was ours.
	before   *partition
	recalled int64
}

// run ends when the partition is stopped, complete, or a message was abandoned.
func (w *worker) run() {
	defer close(w.p.done)
	if before := w.p.predecessor(); before != nil {
		<-before.done // one key never runs twice at once
	}
	for {
		batches, ok := w.p.take()
		if !ok {
			return
		}
		w.recall()
		for _, records := range batches {
			if !w.batch(records) {
				return
			}
		}
	}
}

// recall is for the first records of an assignment: only now is it known where it begins.
func (w *worker) recall() {
	before := w.p.predecessor()
	if before == nil {
		return
	}
	if end, ok := w.p.recalls(before); ok {
		w.before, w.recalled = before, end
	}
	w.p.setPredecessor(nil)
}

func (w *worker) batch(records []*kgo.Record) bool {
	defer w.p.flush()
	for len(records) > 0 {
		n := min(slabSize, len(records))
		if !w.chunk(records[:n]) {
			return false
		}
		records = records[n:]
	}
	return true
}

// chunk reports false when the worker has to end. What is settled is only stored in settledTo; whoever needs to know flushes.
func (w *worker) chunk(records []*kgo.Record) bool {
	p := w.p
	messages := w.slab.messages(records)
	for i := range messages {
		m := &messages[i]
		if w.p.r.pause.on.Load() && !p.r.pause.wait(&p.stopped) || p.stopped.Load() {
			return false
		}
		if w.skip(m) {
			p.settledTo.Store(m.Origin.Offset)
			continue
		}
		switch w.handle(p.handling, m, Ticket{p, m.Origin.Offset}) {
		case Settled:
			p.settledTo.Store(m.Origin.Offset)
		case Pending:
			p.pend(m.Origin.Offset)
		default:
			w.abandoned(m)
			return false
		}
	}
	return true
}

// skip says whether the record is to be settled without a call, and counts it.
func (w *worker) skip(m *stepwell.Message) bool {
	if w.before != nil {
		if m.Origin.Offset >= w.recalled {
			w.before = nil
		} else if w.before.knows(m.Origin.Offset) {
			w.p.r.count.Duplicate()
			return true
		}
	}
	if w.maxAge > 0 && time.Since(m.Time) > w.maxAge {
		w.p.r.count.Expired(1)
		return true
	}
	return false
}

func (w *worker) abandoned(m *stepwell.Message) {
	if w.p.stopped.Load() || w.p.handling.Err() != nil {
		return
	}
	w.p.r.log.Error("a message was abandoned while its partition is ours: the partition rests until it is assigned anew",
		"stream", m.Stream, "topic", m.Origin.Topic, "partition", m.Origin.Partition, "offset", m.Origin.Offset)
}
