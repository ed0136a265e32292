package actor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/call"
	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/task"
)

// caller is a goroutine that calls batches of one lane. It is the [task.Call] of its calls.
type caller struct {
	*batches
	lane   *lane
	number int
	began  time.Time // of the call that runs
	// seated: it has a seat, which stand gives back.
	seated bool
	// regular: run came to its end, and was not cut off by a handler that ended the goroutine.
	regular bool
	batch   []item // that is called, as far as it was not told how that ended

	// memory, came, headers and tolls are used by one batch after another; letGo empties them.
	memory  []item
	came    []stepwell.Message
	headers []stepwell.Header
	tolls   []toll
}

// run calls one batch after another until over is closed.
func (c *caller) run(calls context.Context, over <-chan struct{}, end context.CancelFunc) {
	defer func() {
		if c.regular {
			return
		}
		if p := recover(); p != nil {
			panic(p)
		}
		// The death is told before the run ends. A stop that has begun before commits it all the
		// same: see Desert.
		c.deserted()
		end()
		c.sweep(over)
	}()
	for c.lane.await(over, c.letGo) {
		c.lane.stands(1)
		sits := c.sit(over, func() {})
		c.lane.stands(-1)
		if !sits {
			break
		}
		batch, left := c.lane.take(c.memory)
		c.tell(left, task.Abandoned)
		if len(batch) > 0 {
			c.batch, c.memory = batch, batch
			c.call(calls)
			c.batch = nil
		}
		c.stand()
	}
	c.regular = true
}

// sit takes a seat. Retries may have all seats for as long as their calls take: messages that are
// halted meanwhile are told without waiting for one, those in the lane here, and those that the
// caller itself has by look. The lane knows by then that the caller cannot call what waits there.
func (c *caller) sit(over <-chan struct{}, look func()) bool {
	c.seated = c.seats.TakeLooking(over, func() <-chan struct{} {
		kicked := c.kicked() // before the look, so that none is missed
		look()
		c.tell(c.lane.giveUp(true), task.Abandoned)
		return kicked
	})
	return c.seated
}

// letGo forgets the last batch: its messages hold what was fetched with them.
func (c *caller) letGo() {
	clear(c.memory[:cap(c.memory)])
	clear(c.came[:cap(c.came)])
	clear(c.headers[:cap(c.headers)])
}

// deserted is for a batch whose handler ended its goroutine.
func (c *caller) deserted() {
	c.stand()
	var err error
	for _, t := range c.sorted(c.batch) {
		if e := t.of.Desert(t.offsets); err == nil {
			err = fmt.Errorf("%w, in a batch of %d", e, len(c.batch))
		}
	}
	c.failed <- err
}

// sweep leaves to the next owner what comes into the lane of a goroutine that ends: its partitions
// wait for nobody.
func (c *caller) sweep(over <-chan struct{}) {
	for c.lane.await(over, func() {}) {
		batch, left := c.lane.take(nil)
		c.tell(append(left, batch...), task.Abandoned)
	}
}

// stand gives the seat back.
func (c *caller) stand() {
	if c.seated {
		c.seated = false
		c.seats.Leave()
	}
}

// call calls the handler with the batch.
func (c *caller) call(ctx context.Context) {
	failpoint.Hit("batch")
	messages := c.prepare()
	c.began = time.Now()
	answers := c.dispatch.calls.CallBatch(ctx, messages, c.number, nil)
	failpoint.Hit("batched")
	if answers == nil {
		c.tell(c.batch, task.Settled)
		return
	}
	c.settle(ctx, answers)
}

// prepare keeps the messages as they came, and returns those of the handler.
func (c *caller) prepare() []*stepwell.Message {
	messages := make([]*stepwell.Message, len(c.batch))
	c.came, c.headers = c.came[:0], c.headers[:0]
	for i := range c.batch {
		m := c.batch[i].message
		c.came = append(c.came, *m)
		if c.dispatch.copies {
			m = m.Clone()
		} else if n := len(c.headers); len(m.Headers) > 0 {
			c.headers = append(c.headers, m.Headers...)
			c.came[i].Headers = c.headers[n:len(c.headers):len(c.headers)]
		}
		messages[i] = m
	}
	return messages
}

// settle sees to it that what is done is settled, and what failed is tried again or parked.
func (c *caller) settle(ctx context.Context, answers []*call.Answer) {
	tries := make([]try, len(c.batch))
	for i := range tries {
		tries[i] = try{item: c.batch[i], came: &c.came[i], place: i}
	}
	failed := c.judge(tries, answers)
	failpoint.Hit("marked")
	c.until(ctx, failed)
}

// judge tells what a call said of messages that are done, or were cancelled, and returns the
// others. c.batch is these from here on: what was told is not to be told again, should the
// goroutine end.
func (c *caller) judge(tries []try, answers []*call.Answer) (failed []try) {
	var done, cancelled []item
	for i, t := range tries {
		if answers != nil {
			t.answer = answers[i]
		}
		switch a := t.answer; {
		case a == call.Cancelled:
			cancelled = append(cancelled, t.item)
		case a.Finished():
			done = append(done, t.item)
		default:
			failed = append(failed, t)
		}
	}
	c.batch = itemsOf(failed)
	c.tell(done, task.Settled)
	c.tell(cancelled, task.Abandoned)
	return failed
}

// told tells how the call of one message of the batch ended.
func (c *caller) told(i item, o task.Outcome) {
	c.batch = slices.DeleteFunc(c.batch, func(other item) bool { return other == i })
	c.tell([]item{i}, o)
}

func itemsOf(tries []try) (items []item) {
	for _, t := range tries {
		items = append(items, t.item)
	}
	return items
}

// toll is what became of the messages of one origin.
type toll struct {
	of      task.Gatherable
	offsets []int64
}

// tell says how the call of messages ended, to each of their origins at once.
func (c *caller) tell(items []item, o task.Outcome) {
	if o == task.Abandoned {
		c.lane.leave(items)
	}
	for _, t := range c.sorted(items) {
		t.of.Ended(t.offsets, o)
	}
}

// sorted are the messages by their origin. It holds until it is called again.
func (c *caller) sorted(items []item) []toll {
	for i := range c.tolls {
		c.tolls[i].of, c.tolls[i].offsets = nil, c.tolls[i].offsets[:0]
	}
	used, at := 0, 0
	for n := range items {
		i := &items[n]
		if used == 0 || c.tolls[at].of != i.of {
			for at = 0; at < used && c.tolls[at].of != i.of; at++ {
			}
		}
		if at == used {
			if used++; used > len(c.tolls) {
				c.tolls = append(c.tolls, toll{})
			}
			c.tolls[at].of = i.of
		}
		c.tolls[at].offsets = append(c.tolls[at].offsets, i.offset)
	}
	return c.tolls[:used]
}

// Running is the number of the goroutine among all who call the same handler, and when the call
// began.
func (c *caller) Running() (lane int, began time.Time) { return c.number, c.began }

// Rest only waits.
func (c *caller) Rest(ctx context.Context, _ int64, d time.Duration, _ *stepwell.Message) bool {
	return task.Sleep(ctx, d)
}

// RestUntil only waits, too.
func (c *caller) RestUntil(ctx context.Context, _ int64, over <-chan struct{}, _ *stepwell.Message) {
	task.Wait(ctx, over)
}
