package crew

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell/internal/task"
)

// Config says what the workers do. Handle is required.
type Config struct {
	// Handle is called for each message.
	Handle task.Handle
	// Gather takes a whole stretch at once, and Handle is then called only for messages that run by
	// themselves: all of it counts as [task.Gathered]. The entries are the crew's again when it
	// returns; it is not to block, nor to end its goroutine. Nil: Handle is called for each.
	Gather func(of task.Gatherable, stretch []Entry)
	// Size is how many calls may run at once: so many places there are.
	Size int
	// Seats are taken for calls, so that others who call the same handler can be counted in. Nil:
	// nobody else does.
	Seats Seats
	// Ended is told, on the goroutine that ran them, how long the calls of a lane took since it was
	// told last: all together, and the last of them if that was measured alone, else 0. Calls that
	// took less than a millisecond or two are measured together. Nil: nobody is told.
	Ended func(lane int, all, last time.Duration)
	// Held is told, on any goroutine, that the call under way on a lane takes long: those before it
	// have ended, and Ended may be told of them much later. Nil: nobody is told.
	Held func(lane int)
}

// Seats are shared by first tries and others who call the same handler.
type Seats interface {
	// Take waits for a seat. It reports false, and there is none, when over is closed first.
	Take(over <-chan struct{}) bool
	// Yield gives a seat back and takes one after those who wait. It reports false, and there is
	// none any more, when over is closed first.
	Yield(over <-chan struct{}) bool
	// Leave gives a seat back.
	Leave()
}

type unlimited struct{}

func (unlimited) Take(<-chan struct{}) bool  { return true }
func (unlimited) Yield(<-chan struct{}) bool { return true }
func (unlimited) Leave()                     {}

// Crew are the workers of a handler: goroutines that handle messages of all feeds. Those that have
// a place may call. They are started when there is work for them, and end with the crew, or for one
// that comes back from a rest.
type Crew struct {
	cfg   Config
	pause pause
	// wait counts the workers that were started.
	wait sync.WaitGroup

	// mu guards the fields up to failed, and of each worker its lane while it has none.
	mu    sync.Mutex
	ready turns
	// idle counts the workers that sleep, and those that were called and have taken nothing yet.
	// Each is about to take a roster, so that only rosters in ready beyond this number need a new
	// worker.
	idle int
	// asleep are the workers that nobody called. The last one is called first, since its memory is
	// still in the caches.
	asleep []*worker
	places places
	closed bool
	// failed is why the first handler that did so ended its goroutine.
	failed error

	// lanes says who has each lane. The watch reads it without a lock.
	lanes []atomic.Pointer[worker]
	// watched: the watch is awake; wake rouses it.
	watched atomic.Bool
	wake    chan struct{} // wakes the watch
	// over is closed when the crew ends.
	over chan struct{}
	// fails is closed when failed is set.
	fails chan struct{}
}

// New makes a crew.
func New(cfg Config) *Crew {
	if cfg.Seats == nil {
		cfg.Seats = unlimited{}
	}
	if cfg.Ended == nil {
		cfg.Ended = func(int, time.Duration, time.Duration) {}
	}
	if cfg.Held == nil {
		cfg.Held = func(int) {}
	}
	c := &Crew{
		cfg: cfg, places: places{size: cfg.Size}, lanes: make([]atomic.Pointer[worker], cfg.Size),
		wake: make(chan struct{}, 1), over: make(chan struct{}), fails: make(chan struct{}),
	}
	c.pause.init()
	return c
}

// Run watches over the workers until ctx ends, and returns when all have: idle ones at once, each
// other one after what it does now. A worker whose feeds are not halted may wait for a seat or a
// place until then.
func (c *Crew) Run(ctx context.Context) {
	c.watch(ctx.Done())
	c.close()
	c.wait.Wait()
}

// Failed is closed when a handler has ended its goroutine: see [Crew.Err]. The others go on.
func (c *Crew) Failed() <-chan struct{} { return c.fails }

// Err names the first message whose handler ended its goroutine, if there is one.
func (c *Crew) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// fail keeps the first error: later ones mostly follow from it.
func (c *Crew) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.failed = err
		close(c.fails)
	}
}

// call wakes a worker, if one sleeps.
func (c *Crew) call() {
	if last := len(c.asleep) - 1; last >= 0 {
		c.asleep[last].called <- struct{}{}
		c.asleep[last] = nil
		c.asleep = c.asleep[:last]
	}
}

// sleep waits for a call. c.mu is free meanwhile.
func (c *Crew) sleep(w *worker) {
	w.forget() // each message would hold all that was fetched with it
	c.idle++
	c.asleep = append(c.asleep, w)
	c.mu.Unlock()
	<-w.called
	c.mu.Lock()
	c.idle--
}

// grow starts a worker if there is work for it and a place.
func (c *Crew) grow() {
	if c.ready.len() > c.idle && c.places.any() { // idle ones count until they have taken something
		w := newWorker(c)
		c.place(w)
		c.wait.Go(w.run)
	}
}

// take returns the roster whose turn it is, or nil when the worker is to end: the crew does, or
// somebody else has its place.
func (c *Crew) take(w *worker) *Roster {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.ready.len() == 0 && !c.closed && len(c.places.back) == 0 {
		c.sleep(w)
	}
	if c.closed {
		return nil
	}
	if c.isTurnOfBack() {
		c.vacate(w)
		return nil
	}
	r := c.ready.pop()
	r.listed = false
	c.places.passed = false
	c.admit() // a place may have been kept free for this worker's turn
	return r
}

// close ends all workers, those that sleep at once. It may be called again.
func (c *Crew) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	close(c.over)
	for len(c.asleep) > 0 {
		c.call()
	}
}

// turns are the rosters that may have something to hand out, in turn; each is here at most once.
type turns struct {
	all   []*Roster
	first int
}

func (t *turns) len() int { return len(t.all) - t.first }

func (t *turns) push(r *Roster) { t.all = append(t.all, r) }

func (t *turns) pop() *Roster {
	r := t.all[t.first]
	t.all[t.first] = nil
	if t.first++; t.first == len(t.all) {
		t.all, t.first = t.all[:0], 0
	} else if t.first > 1024 && t.first > len(t.all)/2 {
		t.all, t.first = append(t.all[:0], t.all[t.first:]...), 0
	}
	return r
}
