package crew

import (
	"sync/atomic"

	"github.com/stepwell/stepwell/internal/task"
)

// Roster is what the crew knows of one feed: what waits to be handed out, and what runs. Where
// a comment says "Locked" the caller holds the feed's lock.
type Roster struct {
	crew     *Crew
	feed     Feed
	suspects Suspects

	// stopped: nothing more is handed out. Halt sets it; workers read it without a lock before each
	// call.
	stopped atomic.Bool
	// halted is closed when stopped is set.
	halted chan struct{}
	// listed: the roster is in Crew.ready. Crew.mu guards it, not the feed's lock.
	listed bool

	// The feed's lock guards these.
	schedule schedule
	pace     pace
	// running counts the workers that handle messages of this feed.
	running int
	// stretch is the one under way; nil: there is none, its rest was taken away, or it is gathered.
	stretch *stretch
}

// NewRoster makes the roster of a feed.
func (c *Crew) NewRoster(feed Feed, suspects Suspects) *Roster {
	return &Roster{crew: c, feed: feed, suspects: suspects, halted: make(chan struct{}), schedule: newSchedule()}
}

// Offer says that there may be something to hand out. It puts the roster at the end of the row,
// unless it is there already, and sees to it that a worker comes: one that sleeps, or a new one
// where there is a place. It may be called from any goroutine, also locked.
func (r *Roster) Offer() {
	c := r.crew
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.listed || c.closed {
		return
	}
	r.listed = true
	c.ready.push(r)
	c.call()
	c.grow()
}

// Add appends a message. Locked: [Feed.Take] calls it.
func (r *Roster) Add(e Entry) { r.schedule.Add(e) }

// Came says that the feed has more, for when a stretch is under way: what came need not wait for a
// call of the stretch that takes long. Locked.
func (r *Roster) Came() {
	if r.stretch != nil {
		r.crew.rouse()
	}
}

// Flush tells the feed what the stretch under way has done so far. Locked.
func (r *Roster) Flush() {
	if s := r.stretch; s != nil {
		s.flush(r, s.done(), task.Settled)
	}
}

// Halt says that nothing more is to be handed out. It may be said again.
func (r *Roster) Halt() {
	if !r.stopped.Swap(true) {
		close(r.halted)
	}
}

// Halted is closed by Halt.
func (r *Roster) Halted() <-chan struct{} { return r.halted }

// IsHalted says that nothing more is handed out.
func (r *Roster) IsHalted() bool { return r.stopped.Load() }

// Running is how many workers handle messages of this feed. Locked.
func (r *Roster) Running() int { return r.running }

// More says that there is more to hand out. Locked.
func (r *Roster) More() bool { return r.schedule.Fresh() > 0 || r.feed.More() }

// Behind is how many messages wait for one of their key that runs or rests. Locked.
func (r *Roster) Behind() int { return r.schedule.waiting }

// Since calls do for each message that waits and whose [Entry.Fetched] is not less: line by line,
// the oldest first, until do says that it has seen enough of this line. What waits for no key is
// one line. Locked.
func (r *Roster) Since(fetched int64, do func(*Entry) (more bool)) { r.schedule.Since(fetched, do) }

// Clear forgets what was not handed out. Locked.
func (r *Roster) Clear() { r.schedule.Clear() }
