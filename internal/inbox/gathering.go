package inbox

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell/internal/task"
)

// Gather says how messages are gathered. Its Messages are held at once, in place of those of
// [Prefetch], whose Bytes bound them too.
type Gather struct {
	Messages int
	// Full is called when no more are handed out until some of them are settled.
	Full func()
}

// gathering is the origin of messages that are handled in batches: it settles many at once. Each
// pause ends one, so that what waits for a batch then goes back to the queue, and what is picked up
// after the pause is told apart from it; so does the end of a session, after which what waits is
// handed out again. A delivery's offset in it is the order in which it came.
type gathering struct {
	*Inbox
	stop, work context.Context
	life       context.Context // of the session
	// calls ends when the next gathering begins, and with work and life.
	calls    context.Context
	end      context.CancelFunc
	isHalted atomic.Bool

	// mu guards the fields below.
	mu   sync.Mutex
	next int64
	// jobs are those that are neither acked nor released.
	jobs map[int64]*job
}

// gather begins a gathering of a Run with these contexts, for deliveries of the session with that
// life.
func (in *Inbox) gather(stop, work, life context.Context) {
	in.gatherings.Lock()
	defer in.gatherings.Unlock()
	in.gatherIn(stop, work, life)
}

// gatherIn is gather under the lock.
func (in *Inbox) gatherIn(stop, work, life context.Context) {
	g := &gathering{Inbox: in, stop: stop, work: work, life: life, jobs: map[int64]*job{}}
	g.calls, g.end = context.WithCancel(work)
	context.AfterFunc(life, g.end)
	if before := in.gathering.Swap(g); before != nil {
		before.end()
	}
}

// halt has what was gathered be given up.
func (in *Inbox) halt() {
	in.gatherings.Lock()
	defer in.gatherings.Unlock()
	if g := in.gathering.Load(); g != nil {
		g.isHalted.Store(true)
	}
}

// anew begins the next gathering after a pause, if the last was halted.
func (in *Inbox) anew() {
	in.gatherings.Lock()
	defer in.gatherings.Unlock()
	if g := in.gathering.Load(); g != nil && g.isHalted.Load() {
		in.gatherIn(g.stop, g.work, g.life)
	}
}

// add is a message that may wait for a batch: its ticket, and how many have no end yet.
func (g *gathering) add(j *job, by task.Call) (t task.Ticket, held int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next++
	g.jobs[g.next] = j
	return task.NewTicket(g, g.next, by), len(g.jobs)
}

// take removes deliveries whose end is decided; those that had theirs are left out.
func (g *gathering) take(offsets ...int64) []*job {
	g.mu.Lock()
	defer g.mu.Unlock()
	jobs := make([]*job, 0, len(offsets))
	for _, o := range offsets {
		if j := g.jobs[o]; j != nil {
			delete(g.jobs, o)
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// Settle acks the delivery.
func (g *gathering) Settle(offset int64) {
	for _, j := range g.take(offset) {
		j.end(true)
	}
}

// Context lives as long as a delivery can be settled.
func (g *gathering) Context() context.Context { return g.work }

// Trace is empty: what comes from a queue of somebody else's had no try.
func (g *gathering) Trace() (parent, state string) { return "", "" }

// Alone is false: what came back, and may be a suspect, went to another queue.
func (g *gathering) Alone(int64) bool { return false }

// Calls ends once what was gathered is not to be called any more.
func (g *gathering) Calls() context.Context { return g.calls }

// Halted says that a pause or a stop has begun.
func (g *gathering) Halted() bool { return g.isHalted.Load() || g.stop.Err() != nil }

// Ended acks what is settled, and gives back what has no verdict.
func (g *gathering) Ended(offsets []int64, o task.Outcome) {
	if o == task.Pending {
		return
	}
	for _, j := range g.take(offsets...) {
		j.end(o == task.Settled)
	}
}

// Refused has the delivery rest, as one that was handled alone.
func (g *gathering) Refused(offset int64, err error) {
	g.mu.Lock()
	j := g.jobs[offset]
	g.mu.Unlock()
	if j != nil {
		j.delivery.rest(j.envelope.Message.ID, err, func() { g.Ended([]int64{offset}, task.Abandoned) })
	}
}

// Rest does nothing: what fails in a batch goes through the queues.
func (g *gathering) Rest(int64, time.Time) {}

// Desert gives the deliveries back: they come again as redelivered, and then go where killers are
// found. This process takes none of them, nor any other: it is about to end.
func (g *gathering) Desert(offsets []int64) error {
	g.setPaused(true)
	jobs := g.take(offsets...)
	for _, j := range jobs {
		j.end(false)
	}
	id := "that was settled already"
	if len(jobs) > 0 {
		id = jobs[0].envelope.Message.ID
	}
	return fmt.Errorf("consume %s: the handler ended its goroutine with runtime.Goexit, which stops the actor; it had message %s", g.cfg.Queue, id)
}
