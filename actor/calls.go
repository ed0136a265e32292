package actor

import (
	"context"
	"sync/atomic"
	"time"
)

// instant is a point in time since calls were made. To read it takes half as long as time.Now.
type instant time.Duration

// calls knows since when handlers run: those of first tries by the lane of the reader they run on, others, at the price of two atomic
// stores a call, by slots. There is a fixed number of slots: where more calls run at once than there are, some are not seen, which
// matters only if all that are seen end.
type calls struct {
	epoch time.Time
	over  *timed // stands for the timer of a call that was over before anybody asked for it
	lanes []lane
	slots [callSlots]struct {
		began    atomic.Int64 // an instant; 0: free
		contexts contexts     // it belongs to the call that has the slot
		_        [32]byte     // a cache line each
	}
}

const callSlots = 64

// newCalls has a number of lanes.
func newCalls(lanes int) *calls {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	// A call never begins at instant 0, which says that its slot is free.
	c := &calls{epoch: time.Now().Add(-1), over: &timed{over, cancel}, lanes: make([]lane, lanes)}
	for i := range c.lanes {
		c.lanes[i].number = i
	}
	return c
}

func (c *calls) now() instant { return instant(time.Since(c.epoch)) }

func (c *calls) at(t time.Time) instant { return instant(t.Sub(c.epoch)) }

func (c *calls) time(i instant) time.Time { return c.epoch.Add(time.Duration(i)) }

// begin notes a call and returns its slot, or -1. near spreads callers: one that always passes the same number finds its slot free.
func (c *calls) begin(near int32, at instant) int {
	const tries = 8
	for i := range int32(tries) {
		slot := int(uint32(near+i) % callSlots)
		if c.slots[slot].began.CompareAndSwap(0, int64(at)) {
			return slot
		}
	}
	return -1
}

// contextsAtOnce is how many contexts are allocated at once: a handler that keeps one after its call keeps the memory of that many.
const contextsAtOnce = 32

// contexts are memory for the contexts of the next calls.
type contexts []callContext

func (c *contexts) next() *callContext {
	if len(*c) == 0 {
		*c = make([]callContext, contextsAtOnce)
	}
	next := &(*c)[0]
	*c = (*c)[1:]
	return next
}

// context returns memory for the context of the call that has the slot.
func (c *calls) context(slot int) *callContext {
	if slot < 0 {
		return new(callContext)
	}
	return c.slots[slot].contexts.next()
}

func (c *calls) end(slot int) {
	if slot >= 0 {
		c.slots[slot].began.Store(0)
	}
}

// oldest is when the longest-running call began; zero when none runs.
func (c *calls) oldest() time.Time {
	var first int64
	look := func(began *atomic.Int64) {
		if at := began.Load(); at != 0 && (first == 0 || at < first) {
			first = at
		}
	}
	for i := range c.slots {
		look(&c.slots[i].began)
	}
	for i := range c.lanes {
		look(&c.lanes[i].began)
	}
	if first == 0 {
		return time.Time{}
	}
	return c.time(instant(first))
}
