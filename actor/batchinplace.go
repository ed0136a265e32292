package actor

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/call"
	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/internal/telemetry"
	"github.com/stepwell/stepwell/retry"
	"github.com/stepwell/stepwell/streams"
)

// What failed of a batch is tried again in place as [hold] or [inPlace] says, all together: the
// same batch is called again with it. Its lane waits meanwhile, so that no message passes another
// of its key.

// try is a message of a call, what came of it, and, where that is tried again in place, when.
type try struct {
	item
	// came is the message as it came; until the next call of the caller, or on its own memory.
	came   *stepwell.Message
	answer *call.Answer // nil: it was not called since it was put off
	due    time.Time
	place  int                    // in its batch
	first  telemetry.TraceContext // of its first call, once it failed
	spent  time.Duration          // for how long it has rested
	past   *retry.Past            // its tries in place; nil: there are none
}

// departure is a message on its way to its queue: what waits for the message waits until it
// is there.
type departure struct {
	of   task.Gatherable
	safe <-chan struct{} // closed once it is there
}

// round is what those have in common that failed together: they are called together again.
type round struct {
	now   time.Time
	pause time.Duration // of hold
	drawn float64       // of jitter
}

// until calls the handler again and again with what failed of a batch and is to be tried in place,
// until all of it is done, on its way to a queue, or no longer ours.
func (c *caller) until(ctx context.Context, failed []try) {
	p := c.dispatch.hold
	for pause := p.pause; len(failed) > 0; pause = min(2*pause, p.longest) {
		var parked []departure
		failed, parked = c.putOff(ctx, failed, round{time.Now(), pause/2 + rand.N(pause/2+1), rand.Float64()})
		if len(failed) > 0 {
			failpoint.Hit("rests")
		}
		if len(failed)+len(parked) > 0 {
			c.letGo() // this may take long, and they have memory of their own
		}
		c.batch = itemsOf(failed)
		inOrder(c.order, failed)
		failed = c.rest(ctx, failed, parked)
		c.batch = itemsOf(failed)
		failed = c.again(ctx, failed)
		c.batch = itemsOf(failed)
	}
}

// putOff returns what is to be tried again in place. It sees to the rest, of which parked has to
// arrive before the lane goes on.
func (c *caller) putOff(ctx context.Context, failed []try, r round) (kept []try, parked []departure) {
	for _, t := range failed {
		if t.answer == nil {
			kept = append(kept, t)
			continue
		}
		again, safe := c.follow(ctx, &t, r)
		if again {
			kept = append(kept, t)
		} else if safe != nil {
			parked = append(parked, departure{t.of, safe})
		}
	}
	return kept, parked
}

// follow puts a message off that is to be tried again in place; else it sees to it, and safe is as
// for [dispatch.park].
func (c *caller) follow(ctx context.Context, t *try, r round) (again bool, safe <-chan struct{}) {
	d, ticket := c.dispatch, task.NewTicket(t.of, t.offset, c)
	if d.retrier == nil && t.answer.Kind != stepwell.HandedOver {
		return c.hold(t, r), nil
	}
	o, f := d.follow(ctx, *t.came, t.answer, ticket)
	if f == nil {
		c.told(t.item, o)
		return false, nil
	}
	what, wait := d.inPlace.after(f, t.spent, r.drawn)
	if what != rests {
		safe = d.park(f, t.past, what, ticket)
		c.told(t.item, task.Pending)
		return false, safe
	}
	if t.past == nil {
		t.past = &retry.Past{}
	}
	if f.snooze() == 0 {
		d.telemetry.RetriedInPlace()
	}
	t.spent += wait
	t.putOff(f.again(t.past), r.now.Add(wait))
	return true, nil
}

// hold puts off what failed where there are no queues, unless ON_FAILURE says that it is dropped.
func (c *caller) hold(t *try, r round) (again bool) {
	a, kept := t.answer, t.came.Clone()
	switch {
	case a.Failed() && c.dispatch.hold.drop:
		c.dispatch.drop(t.came, a)
		c.told(t.item, task.Settled)
		return false
	case a.Failed():
		kept.FirstFailed = cmp.Or(kept.FirstFailed, r.now)
		kept.Attempt++
	default:
		kept.Snoozes++
	}
	t.putOff(kept, r.now.Add(cmp.Or(a.After, r.pause)))
	return true
}

// putOff has the message be tried again, as it is kept until then.
func (t *try) putOff(kept *stepwell.Message, due time.Time) {
	t.first = cmp.Or(t.first, t.answer.Trace)
	t.came, t.message, t.due, t.answer = kept, kept, due, nil
}

// inOrder puts the messages in the order in which they came, and off as long as any before them for
// which they have to wait.
func inOrder(order streams.Order, failed []try) {
	slices.SortFunc(failed, func(a, b try) int { return cmp.Compare(a.place, b.place) })
	type group struct {
		of  task.Gatherable
		key string // empty where a partition is handled in its order
	}
	last := map[group]time.Time{}
	for i := range failed {
		t, g := &failed[i], group{of: failed[i].of}
		switch {
		case order == streams.OrderPartition:
		case order == streams.OrderKey && t.came.Key != nil:
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

// rest waits, without a seat, until the first of the messages is due and all that was parked is
// safe. It returns those that are still to be handled here: none when ctx ends.
func (c *caller) rest(ctx context.Context, failed []try, parked []departure) []try {
	c.stand()
	c.rests(failed, true)
	defer c.rests(failed, false)
	left := c.awaitDue(ctx, failed, parked)
	if len(left) == 0 {
		return nil
	}
	// Retries of the same handler may have had the seat meanwhile.
	if !c.sit(ctx.Done(), func() { left = c.leaveHalted(left) }) {
		c.tell(itemsOf(left), task.Abandoned)
		return nil
	}
	return c.leaveHalted(left)
}

// awaitDue waits, and returns the messages that are still ours.
func (c *caller) awaitDue(ctx context.Context, failed []try, parked []departure) []try {
	for {
		kicked := c.kicked() // before the look, so that none is missed
		failed = c.leaveHalted(failed)
		var ends []item
		parked, ends = underWay(parked)
		c.lane.leave(ends)
		if len(failed) == 0 && len(parked) == 0 {
			return nil
		}
		// Nobody else calls in time what waits in this lane, and a revoke waits for it.
		c.tell(c.lane.giveUp(false), task.Abandoned)
		var safe <-chan struct{}
		var due <-chan time.Time
		switch {
		case len(parked) > 0:
			safe = parked[0].safe
		case !c.lane.isPaused():
			first := slices.MinFunc(failed, func(a, b try) int { return a.due.Compare(b.due) })
			due = time.After(time.Until(first.due))
		}
		select {
		case <-kicked:
		case <-safe:
		case <-due:
			return failed
		case <-ctx.Done():
			c.tell(itemsOf(failed), task.Abandoned)
			c.lane.leave(origins(parked))
			return nil
		}
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

// underWay returns as left what the lane still waits for, and as ends what it waits for no more,
// though that is not safe: its partition is given up here. What comes after such a message in its
// partition is the next owner's, too, who has the message before it.
func underWay(parked []departure) (left []departure, ends []item) {
	for _, p := range parked {
		select {
		case <-p.safe:
			continue
		default:
		}
		if p.of.Halted() || p.of.Calls().Err() != nil {
			ends = append(ends, item{of: p.of})
		} else {
			left = append(left, p)
		}
	}
	return left, ends
}

// origins are where what is parked came from, as [lane.leave] has it.
func origins(parked []departure) (items []item) {
	for _, p := range parked {
		items = append(items, item{of: p.of})
	}
	return items
}

// rests tells the origins that their messages begin to rest, or have rested, and the lane that a
// batch of it does: neither what rests nor what waits behind it in the lane is work that hangs.
func (c *caller) rests(failed []try, begin bool) {
	for _, t := range failed {
		if !begin {
			t.due = time.Time{}
		}
		t.of.Rest(t.offset, t.due)
	}
	if begin {
		c.lane.rests(1)
	} else {
		c.lane.rests(-1)
	}
}

// again calls the handler with what is due, and returns what is left to be tried.
func (c *caller) again(ctx context.Context, failed []try) (left []try) {
	if len(failed) == 0 {
		return nil
	}
	failpoint.Hit("rested")
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
