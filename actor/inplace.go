package actor

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/retry"
)

// inPlace says which waits of a message from the source are spent in the process: it rests on its
// worker's goroutine, without a seat or place, and what ORDER lets wait for it waits. All other
// waits are those of the queues. It is for streams that have these; for those without there is
// hold.
type inPlace struct {
	// budget has the policy's waits; jitter is by which part of itself a wait may be shorter.
	budget retry.Budget
	jitter float64
	// waits is how many of the first waits are spent in place; 0: none.
	waits int
	// order: what waits for a message goes on waiting until the queue that the message ends in has
	// it.
	order bool
}

// newInPlace is that of a stream; of a channel, and where retries are off, no wait is in place.
func newInPlace(s config.Stream) inPlace {
	if !*s.Retry.Enabled {
		return inPlace{}
	}
	all := s.Retry.InPlace == config.All
	return inPlace{budgetOf(s.Retry), s.Retry.Jitter, s.Retry.WaitsInPlace(), all && s.Order != "none"}
}

// next is what becomes of a message after a call.
type next int

const (
	rests   next = iota + 1 // it is called again after a wait in place
	leaves                  // its wait is for the queues
	tooLong                 // likewise, though it was to be in place
	dies
	isHanded // over to a channel
)

// after says what becomes of a message that failed or was put off, and how long it rests. spent is
// how long it has rested so far, and drawn, from 0 to 1, which of the waits it has that jitter
// allows.
func (p inPlace) after(f *failed, spent time.Duration, drawn float64) (next, time.Duration) {
	attempt, wait := max(1, f.message.Attempt), f.snooze
	if f.to != nil {
		return isHanded, 0
	}
	if wait == 0 {
		policy, left := p.budget.Wait(attempt)
		if !left || f.failure.Reason != "" {
			return dies, 0
		}
		shorter := time.Duration(p.jitter * drawn * float64(policy))
		wait = cmp.Or(f.failure.After, policy-shorter)
	}
	switch {
	case attempt > p.waits:
		return leaves, 0
	// A message that rests for longer would hold the window and commits for as long.
	case spent+wait > config.MostRest:
		return tooLong, wait
	}
	return rests, wait
}

// sum is for how long the policy lets a message rest in all.
func (p inPlace) sum() time.Duration { return p.budget[:min(p.waits, len(p.budget))].Total() }

// bound is how many messages a setting lets in.
type bound struct {
	setting  string
	messages int
}

// says is how the start of a stream tells it. span is its WINDOW_SPAN, window its WINDOW_MESSAGES,
// and batches how many it calls at once, of which one that rests is called no more meanwhile. 0: it
// has a handler.
func (p inPlace) says(span, window bound, batches int) string {
	sum, which, others := p.sum(), fmt.Sprintf("the first %d waits", p.waits), "others go on"
	switch p.waits {
	case 0:
		return "none"
	case math.MaxInt:
		which = "all waits"
	}
	of, room := fmt.Sprintf("%s %d", span.setting, span.messages), span.messages
	switch {
	case sum == 0:
		return which
	case batches == 1:
		return fmt.Sprintf("%s, %s: nothing else is called meanwhile", which, sum)
	case batches > 1:
		others = fmt.Sprintf("one of %d batches at once waits, others go on", batches)
		// Of what comes a share waits behind the batch that rests, until the window has no room.
		if held := window.messages * batches; held < room {
			of, room = fmt.Sprintf("%s %d × %d", window.setting, window.messages, batches), held
		}
	}
	return fmt.Sprintf("%s, %s: %s at up to %.0f messages a second (%s ÷ %s)",
		which, sum, others, math.Floor(float64(room)/sum.Seconds()), of, sum)
}

// fail is for a message of the source that failed or was put off. It tries it again in place as
// long as its waits are spent there, and then parks it.
func (p inPlace) fail(ctx context.Context, d *dispatch, f *failed, t task.Ticket) task.Outcome {
	past, spent := &retry.Past{}, time.Duration(0)
	for {
		what, wait := p.after(f, spent, rand.Float64())
		if what != rests {
			if safe := p.park(d, f, past, what, t); safe != nil {
				// Where this ends early, so does the partition: nothing more of it is called.
				t.RestUntil(ctx, safe, &stepwell.Message{Origin: f.message.Origin})
			}
			return task.Pending
		}
		spent += wait
		kept := f.again(past)
		if f.snooze == 0 {
			d.telemetry.RetriedInPlace()
		}
		t = t.After(f.trace.Parent, f.trace.State) // before the rest: f holds what was fetched with the message
		failpoint.Hit("rests")
		if !t.Rest(ctx, wait, kept) {
			return task.Abandoned
		}
		failpoint.Hit("rested")
		var o task.Outcome
		if o, f = d.run(ctx, kept, t); f == nil {
			return o
		}
	}
}

// park publishes the message to a delay queue, the dead set or a channel's queue. Where it keeps
// its order it is to hold its key until it is there, which is when safe is closed: if what waits
// for it were called before, and the process died then, the message would be called once more,
// after it. Nil: it holds nothing.
func (p inPlace) park(d *dispatch, f *failed, past *retry.Past, what next, t task.Ticket) (safe <-chan struct{}) {
	if what == tooLong {
		d.telemetry.OrderGivenUp()
		d.failures.orderGivenUp(f)
	}
	if !p.order || what != dies && what != isHanded {
		d.hand(t.Context(), f, past, settles(t))
		return nil
	}
	there := make(chan struct{})
	d.hand(t.Context(), f, past, func(err error) {
		if err == nil {
			t.Settle()
			close(there)
		}
	})
	return there
}

// again is the message as it is called next, on its own memory.
func (f *failed) again(past *retry.Past) *stepwell.Message {
	kept := f.message.Clone()
	if f.snooze > 0 {
		kept.Snoozes++
		return kept
	}
	past.Failed(max(1, kept.Attempt), f.failure)
	kept.Attempt = max(1, kept.Attempt) + 1
	kept.FirstFailed = cmp.Or(kept.FirstFailed, f.failure.At)
	return kept
}
