package actor

import (
	"sync/atomic"
	"time"
)

// watch knows since when handlers run, at the price of two atomic stores a call. It has a fixed number of slots: where more calls run at
// once than there are, some are not seen, which matters only if all that are seen end.
type watch struct {
	slots [watchSlots]struct {
		began atomic.Int64 // nanoseconds; 0: free
		_     [56]byte     // a cache line each
	}
}

const watchSlots = 64

// begin notes a call and returns its slot, or -1. near spreads callers: one that always passes the same number finds its slot free.
func (w *watch) begin(near int32, at time.Time) int {
	const tries = 8
	for i := range int32(tries) {
		slot := int(uint32(near+i) % watchSlots)
		if w.slots[slot].began.CompareAndSwap(0, at.UnixNano()) {
			return slot
		}
	}
	return -1
}

func (w *watch) end(slot int) {
	if slot >= 0 {
		w.slots[slot].began.Store(0)
	}
}

// oldest is when the longest-running call began; zero when none runs.
func (w *watch) oldest() time.Time {
	var first int64
	for i := range w.slots {
		if at := w.slots[i].began.Load(); at != 0 && (first == 0 || at < first) {
			first = at
		}
	}
	if first == 0 {
		return time.Time{}
	}
	return time.Unix(0, first)
}
