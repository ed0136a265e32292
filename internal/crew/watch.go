package crew

import "time"

// watchInterval is how long a call may take before what comes after it in its stretch is given to
// others; it takes at most twice as long.
const watchInterval = time.Millisecond

// watch takes the rest of a stretch away from a worker whose call takes long. It sleeps while there
// are no stretches.
func (c *Crew) watch(over <-chan struct{}) {
	seen := make([]sight, len(c.lanes))
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-over:
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
		case <-over:
			return
		case <-c.wake:
		}
		tick.Reset(watchInterval)
	}
}

// sight is what the worker of a lane was seen to do: which stretch, and how far it was.
type sight struct {
	w     *worker
	doing state
}

// look compares what the workers do with what they did at the last look, and says whether there is
// any stretch.
func (c *Crew) look(seen []sight) (any bool) {
	for i := range c.lanes {
		w := c.lanes[i].Load()
		// Nobody has this lane now.
		if w == nil {
			seen[i] = sight{}
			continue
		}
		now := sight{w, w.stretch.state()}
		if now.doing != idle && now == seen[i] && w.lose(now.doing) {
			c.cfg.Held(i)
		}
		any = any || now.doing != idle
		seen[i] = now
	}
	return any
}

// rouse makes sure that the watch is awake.
func (c *Crew) rouse() {
	if c.watched.Swap(true) {
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// lose takes the rest of its stretch away from a worker that does now what it was seen to do.
func (w *worker) lose(seen state) (lost bool) {
	if seen.begun() > 0 {
		r := w.of.Load()
		if lost = r.takeRest(&w.stretch, seen); lost {
			r.Offer()
		}
	}
	return lost
}
