package streams

import (
	"context"
	"sync/atomic"
	"time"

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
	// Abandoned: there is no verdict. The offset is never committed and nothing more of the partition is handed out; its next
	// owner reads from there.
	Abandoned
)

// Handle does the work for one message. How many run at once, and which, is said by [Config.Order] and [Config.Concurrency]. Its context
// lives through a stop for the drain and ends with a cause: [ErrRevoked], [ErrLost] or that of the work context. A panic is not
// caught. One that ends its goroutine with runtime.Goexit has no outcome: [Config.Escaped] has.
type Handle func(ctx context.Context, m *stepwell.Message, t Ticket) Outcome

// Ticket settles a message whose outcome was [Pending].
type Ticket struct {
	p      *partition
	offset int64
	w      *worker
}

// Settle says that the message is safe. It may be called from any goroutine, also before the [Handle] returned Pending, and
// more than once. It has no effect on commits once the partition is lost.
func (t Ticket) Settle() { t.p.settle(t.offset) }

// Context ends, with a cause, when the partition is no longer ours: what was not sent by then need not be, since the next
// owner handles the message again. It outlives the context of the handler.
func (t Ticket) Context() context.Context { return t.p.owned }

// Lane is the number of the goroutine that runs the [Handle]: from 0 to below [Config.Concurrency]. No other call has it at the same
// time. It is to be asked during the call, and again after a [Ticket.Rest].
func (t Ticket) Lane() int { return t.w.lane }

// Began is when the call began, or up to a few milliseconds before: fast calls in a row share it. It is to be asked during the call.
func (t Ticket) Began() time.Time { return t.w.began }

// IsZero says that the ticket is no reader's.
func (t Ticket) IsZero() bool { return t.w == nil }

// stretchSize is how many messages at most are handed to a worker at once.
const stretchSize = slabSize

// worker is one goroutine of the crew.
type worker struct {
	crew   *crew
	lane   int
	began  time.Time     // of the stretch or the single call
	called chan struct{} // when there is something to do; whoever calls never waits

	seated  bool
	serving *partition
	lone    task // whose call runs, if it is not of a stretch
	ended   bool // regularly

	// doing is the number of the stretch, in the upper half, and how many of its tasks were begun. It is swapped to begin the next task, and to
	// take the rest away.
	doing  atomic.Uint64
	number uint64
	of     atomic.Pointer[partition] // whose stretch it is

	// The stretch. While a partition has it, that guards all but the tasks, which the worker reads.
	tasks   [stretchSize]task
	length  int
	flushed int       // tasks whose outcome the window knows
	lostAt  time.Time // when the rest was taken away; zero: it was not
}

func newWorker(c *crew) *worker { return &worker{crew: c, called: make(chan struct{}, 1)} }

const (
	noStretch = 0
	oneMore   = 1 << 32 // the next number of a stretch
	indexMask = oneMore - 1
)

func (w *worker) run() {
	defer w.escaped()
	w.work()
}

func (w *worker) work() {
	for w.lane != noLane {
		p := w.crew.take(w)
		if p == nil {
			break
		}
		if w.sit(w.crew.over) {
			w.serve(p)
			w.stand()
		}
	}
	w.ended = true
}

// serve handles what the partition hands out.
func (w *worker) serve(p *partition) {
	w.serving = p
	t, n, more := p.handOut(w)
	if more {
		w.crew.offer(p)
	}
	if n == 0 && t.m == nil {
		return
	}
	if n > 0 {
		t = w.inTurn(p, w.stretch(p, n))
	}
	for t.m != nil { // and what waits for its key
		t = w.inTurn(p, w.single(p, t))
	}
	p.again()
}

// begin makes the first n tasks the worker's stretch. The partition is locked.
func (w *worker) begin(p *partition, n int) {
	w.length, w.flushed, w.lostAt = n, 0, time.Time{}
	w.number = w.number%indexMask + 1
	w.of.Store(p)
	w.doing.Store(w.number * oneMore)
	if n > 1 || p.hasMore() {
		w.crew.rouse()
	}
}

// single handles one message and returns the next of its key, if one waits.
func (w *worker) single(p *partition, t task) task {
	if !w.mayGoOn(p) {
		p.quit()
		return task{}
	}
	w.began = time.Now()
	w.lone = t
	m := t.m
	t.m = nil // only the handler knows for how long it needs it
	outcome := p.handle(t)(p.handling, m, Ticket{p, t.offset, w})
	w.lone = task{}
	took := time.Since(w.began)
	w.told(p, took, took)
	return p.ended(t, outcome, took)
}

// stretch handles the first n tasks one after another, as long as nobody takes the rest away. Then it returns the next of the key of
// the last one, if one waits. To look at a clock takes as long as a fast call: it is done once for all.
func (w *worker) stretch(p *partition, n int) task {
	w.began = time.Now()
	at := w.doing.Load()
	done := 0
	for done < n && !p.stopped.Load() && !p.r.pause.on.Load() {
		if !w.doing.CompareAndSwap(at, at+1) {
			break // the rest was taken away
		}
		at++
		t := &w.tasks[done]
		outcome := p.r.handle(p.handling, t.m, Ticket{p, t.offset, w})
		if outcome == Pending {
			p.pendIn(w, done)
		} else if outcome != Settled {
			p.abandon(*t)
			break
		}
		done++
	}
	took := time.Since(w.began)
	next, last, more := p.endStretch(w, done, took)
	w.told(p, took, last)
	if more {
		w.crew.offer(p)
	}
	return next
}

// lose takes the rest of its stretch away from a worker that does now what it was seen to do.
func (w *worker) lose(seen uint64) (lost bool) {
	if begun := int(seen & indexMask); begun > 0 {
		p := w.of.Load()
		if lost = p.takeRest(w, seen, begun); lost {
			w.crew.offer(p)
		}
	}
	return lost
}
