package streams

import (
	"sync"
	"sync/atomic"
	"time"
)

// crew are the workers of a stream: goroutines that handle messages of all its partitions, as many as may run at once. They are
// started when there is work for them, and end with the crew.
type crew struct {
	size int
	wait *sync.WaitGroup // for the workers and the watch

	mu      sync.Mutex
	work    *sync.Cond
	ready   []*partition // that may have something to hand out, in turn; each is here at most once
	first   int          // of ready
	idle    int
	closed  bool
	workers []*worker

	watched atomic.Bool   // the watch is awake
	wake    chan struct{} // wakes the watch
	over    chan struct{} // closed when the crew ends
}

func newCrew(size int, wait *sync.WaitGroup) *crew {
	c := &crew{size: size, wait: wait, wake: make(chan struct{}, 1), over: make(chan struct{})}
	c.work = sync.NewCond(&c.mu)
	return c
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
	c.work.Signal()
	if len(c.ready)-c.first > c.idle && len(c.workers) < c.size { // idle ones count until they have taken something
		w := &worker{crew: c, lane: len(c.workers)}
		c.workers = append(c.workers, w)
		c.wait.Go(w.run)
	}
}

// take returns the partition whose turn it is, or nil when the crew ends.
func (c *crew) take() *partition {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.first == len(c.ready) && !c.closed {
		c.idle++
		c.work.Wait()
		c.idle--
	}
	if c.closed {
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
	c.work.Broadcast()
}

// watchInterval is how long a call may take before what comes after it in its stretch is given to others; it takes at most twice as long.
const watchInterval = time.Millisecond

// watch takes the rest of a stretch away from a worker whose call takes long. It sleeps while there are no stretches.
func (c *crew) watch() {
	var seen []uint64 // what each worker was doing
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-c.over:
			return
		case <-tick.C:
		}
		if c.look(&seen) {
			continue
		}
		c.watched.Store(false)
		if c.look(&seen) { // a stretch that began before the store did not rouse us
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

// look compares what the workers do with what they did at the last look, and says whether there is any stretch.
func (c *crew) look(seen *[]uint64) (any bool) {
	c.mu.Lock()
	workers := c.workers
	c.mu.Unlock()
	for len(*seen) < len(workers) {
		*seen = append(*seen, noStretch)
	}
	for i, w := range workers {
		now := w.doing.Load()
		if now != noStretch && now == (*seen)[i] {
			w.lose(now)
		}
		any = any || now != noStretch
		(*seen)[i] = now
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
