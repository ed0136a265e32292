package streams

import (
	"sync"
	"sync/atomic"
	"time"
)

// crew are the workers of a stream: goroutines that handle messages of all its partitions. As many have a place, which is a lane of their
// own, as calls may run at once. They are started when there is work for them, and end with the crew, or for one that comes back from a rest.
type crew struct {
	size  int
	wait  *sync.WaitGroup // for the workers and the watch
	seats Seats

	mu     sync.Mutex
	ready  []*partition // that may have something to hand out, in turn; each is here at most once
	first  int          // of ready
	idle   int          // workers that have nothing to do, or were called and have taken nothing yet
	asleep []*worker    // who was not called; the last one comes first: its memory is still at hand
	closed bool
	back   []*comeback // who has rested and waits for a place, in turn
	passed bool        // the last place went to one of them though there was something to hand out
	free   []int       // lanes that somebody had
	used   int         // lanes that anybody had, the first ones

	lanes   []atomic.Pointer[worker] // who has each lane
	watched atomic.Bool              // the watch is awake
	wake    chan struct{}            // wakes the watch
	over    chan struct{}            // closed when the crew ends
}

func newCrew(size int, wait *sync.WaitGroup) *crew {
	return &crew{
		size: size, wait: wait, seats: unlimited{}, lanes: make([]atomic.Pointer[worker], size),
		wake: make(chan struct{}, 1), over: make(chan struct{}),
	}
}

// offer says that p may have something to hand out.
func (c *crew) offer(p *partition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.listed || c.closed {
		return
	}
	p.listed = true
	c.ready = append(c.ready, p)
	c.call()
	c.grow()
}

// call wakes a worker, if one sleeps.
func (c *crew) call() {
	if last := len(c.asleep) - 1; last >= 0 {
		c.asleep[last].called <- struct{}{}
		c.asleep[last] = nil
		c.asleep = c.asleep[:last]
	}
}

// sleep waits for a call. c.mu is free meanwhile.
func (c *crew) sleep(w *worker) {
	clear(w.tasks[:]) // they would hold memory, each of them all that was fetched with it
	c.idle++
	c.asleep = append(c.asleep, w)
	c.mu.Unlock()
	<-w.called
	c.mu.Lock()
	c.idle--
}

// grow starts a worker if there is work for it and a place.
func (c *crew) grow() {
	if len(c.ready)-c.first > c.idle && c.hasPlace() { // idle ones count until they have taken something
		w := newWorker(c)
		c.place(w)
		c.wait.Go(w.run)
	}
}

// take returns the partition whose turn it is, or nil when the worker is to end: the crew does, or somebody else has its place.
func (c *crew) take(w *worker) *partition {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.first == len(c.ready) && !c.closed && len(c.back) == 0 {
		c.sleep(w)
	}
	if c.closed {
		return nil
	}
	if c.isTurnOfBack() {
		c.vacate(w)
		return nil
	}
	p := c.ready[c.first]
	c.ready[c.first] = nil
	if c.first++; c.first == len(c.ready) {
		c.ready, c.first = c.ready[:0], 0
	} else if c.first > 1024 && c.first > len(c.ready)/2 {
		c.ready, c.first = append(c.ready[:0], c.ready[c.first:]...), 0
	}
	p.listed = false
	c.passed = false
	return p
}

// close lets idle workers end, and each other one after what it does now.
func (c *crew) close() {
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

// watchInterval is how long a call may take before what comes after it in its stretch is given to others; it takes at most twice as long.
const watchInterval = time.Millisecond

// watch takes the rest of a stretch away from a worker whose call takes long. It sleeps while there are no stretches.
func (c *crew) watch() {
	seen := make([]sight, len(c.lanes))
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-c.over:
			return
		case <-tick.C:
		}
		if c.look(seen) {
			continue
		}
		c.watched.Store(false)
		if c.look(seen) { // a stretch that began before the store did not rouse us
			c.watched.Store(true)
			continue
		}
		tick.Stop()
		select {
		case <-c.over:
			return
		case <-c.wake:
		}
		tick.Reset(watchInterval)
	}
}

// sight is what a worker was seen to do.
type sight struct {
	w     *worker
	doing uint64
}

// look compares what the workers do with what they did at the last look, and says whether there is any stretch.
func (c *crew) look(seen []sight) (any bool) {
	for i := range c.lanes {
		w := c.lanes[i].Load()
		if w == nil {
			seen[i] = sight{}
			continue
		}
		now := sight{w, w.doing.Load()}
		if now.doing != noStretch && now == seen[i] && w.lose(now.doing) {
			w.of.Load().r.cfg.Held(i)
		}
		any = any || now.doing != noStretch
		seen[i] = now
	}
	return any
}

// rouse makes sure that the watch is awake.
func (c *crew) rouse() {
	if c.watched.Swap(true) {
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
