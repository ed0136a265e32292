package actor

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/internal/telemetry"
	"github.com/stepwell/stepwell/streams"
)

// until is [hold.until] for what failed of a batch: where there are no queues the same batch is
// called again with what failed of it, until all of that is done or no longer ours. Its lane waits
// meanwhile, so that no message passes another of its key.
func (c *caller) until(ctx context.Context, failed []try) {
	p := c.dispatch.hold
	// This may take long: what was fetched with them is not to be kept for as long.
	for i := range failed {
		failed[i].came = failed[i].came.Clone()
		failed[i].message = failed[i].came
	}
	c.batch = itemsOf(failed)
	c.letGo()
	for pause := p.pause; len(failed) > 0; pause = min(2*pause, p.longest) {
		failed = c.drop(failed)
		// One wait for all: what failed together is called together again.
		now, wait := time.Now(), pause/2+rand.N(pause/2+1)
		for i := range failed {
			failed[i].putOff(now, wait)
		}
		c.inOrder(failed)
		failed = c.rest(ctx, failed)
		c.batch = itemsOf(failed)
		failed = c.again(ctx, failed)
		c.batch = itemsOf(failed)
	}
}

// drop settles what failed where ON_FAILURE says so, and returns the rest.
func (c *caller) drop(failed []try) []try {
	if !c.dispatch.hold.drop {
		return failed
	}
	var gone []try
	for _, t := range failed {
		if t.answer != nil && t.answer.Failed() {
			c.dispatch.drop(t.came, t.answer)
			gone = append(gone, t)
		}
	}
	c.tell(itemsOf(gone), task.Settled)
	return slices.DeleteFunc(failed, func(t try) bool { return t.answer != nil && t.answer.Failed() })
}

// putOff says when the message is to be tried again, unless that was said since it failed.
func (t *try) putOff(now time.Time, wait time.Duration) {
	switch a := t.answer; {
	case a == nil:
		return
	case a.Failed():
		t.came.FirstFailed = cmp.Or(t.came.FirstFailed, now)
		t.came.Attempt++
	default:
		t.came.Snoozes++
	}
	t.first = cmp.Or(t.first, t.answer.Trace)
	t.due = now.Add(cmp.Or(t.answer.After, wait))
	t.answer = nil
}

// inOrder puts the messages in the order in which they came, and off as long as any before them for
// which they have to wait.
func (c *caller) inOrder(failed []try) {
	slices.SortFunc(failed, func(a, b try) int { return cmp.Compare(a.place, b.place) })
	type group struct {
		of  task.Gatherable
		key string // empty where a partition is handled in its order
	}
	last := map[group]time.Time{}
	for i := range failed {
		t, g := &failed[i], group{of: failed[i].of}
		switch {
		case c.order == streams.OrderPartition:
		case c.order == streams.OrderKey && t.came.Key != nil:
			g.key = string(t.came.Key)
		default:
			continue
		}
		if last[g].After(t.due) {
			t.due = last[g]
		}
		last[g] = t.due
	}
}

// rest waits until the first of the messages is due, without a seat. It returns those that are
// still to be handled here: none when ctx ends.
func (c *caller) rest(ctx context.Context, failed []try) []try {
	c.stand()
	c.rests(failed, true)
	defer c.rests(failed, false)
	for {
		kicked := c.kicked() // before the look, so that none is missed
		if failed = c.leaveHalted(failed); len(failed) == 0 {
			return nil
		}
		first := slices.MinFunc(failed, func(a, b try) int { return a.due.Compare(b.due) })
		wait := time.Until(first.due)
		if wait <= 0 && !c.lane.isPaused() {
			break
		}
		sleep(ctx, max(wait, 0), kicked, c.lane.isPaused())
		if ctx.Err() != nil {
			c.tell(itemsOf(failed), task.Abandoned)
			return nil
		}
	}
	// Retries of the same handler may have had the seat meanwhile.
	if c.seated = c.seats.Take(ctx.Done()); !c.seated {
		c.tell(itemsOf(failed), task.Abandoned)
		return nil
	}
	return failed
}

// sleep returns after so long, unless something kicks or ctx ends before; in a pause it does not
// return without that.
func sleep(ctx context.Context, d time.Duration, kicked <-chan struct{}, paused bool) {
	var over <-chan time.Time
	if !paused {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-ctx.Done():
	case <-kicked:
	case <-over:
	}
}

// leaveHalted leaves out what is not to be handled here any more.
func (c *caller) leaveHalted(failed []try) (kept []try) {
	var left []item
	for _, t := range failed {
		if t.of.Halted() || !t.isOurs() {
			left = append(left, t.item)
		} else {
			kept = append(kept, t)
		}
	}
	c.tell(left, task.Abandoned)
	return kept
}

// rests tells the origins of the messages that they rest, or have rested: what rests is no work
// that hangs.
func (c *caller) rests(failed []try, begin bool) {
	for _, t := range c.sorted(itemsOf(failed)) {
		t.of.Rest(t.offsets, begin)
	}
}

// again calls the handler with what is due, and returns what is left to be tried.
func (c *caller) again(ctx context.Context, failed []try) (left []try) {
	if len(failed) == 0 {
		return nil
	}
	now := time.Now()
	var called []try
	var messages []*stepwell.Message
	var before []telemetry.TraceContext // calls that these messages had together, each once
	for _, t := range failed {
		if t.due.After(now) {
			left = append(left, t)
			continue
		}
		called, messages = append(called, t), append(messages, t.came.Clone())
		if !slices.Contains(before, t.first) {
			before = append(before, t.first)
		}
	}
	if len(messages) == 0 {
		return left
	}
	c.began = now
	answers := c.dispatch.calls.CallBatch(ctx, messages, c.number, before)
	return append(left, c.judge(called, answers)...)
}
