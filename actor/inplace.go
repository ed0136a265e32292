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
// how long it has rested so far.
func (p inPlace) after(f *failed, spent time.Duration) (next, time.Duration) {
	attempt, wait := max(1, f.message.Attempt), f.snooze
	if f.to != nil {
		return isHanded, 0
	}
	if wait == 0 {
		policy, left := p.budget.Wait(attempt)
		if !left || f.failure.Reason != "" {
			return dies, 0
		}
		shorter := time.Duration(p.jitter * rand.Float64() * float64(policy))
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

// says is how the start of a stream tells it; span is its WINDOW_SPAN.
func (p inPlace) says(span int, setting string) string {
	sum, which := p.sum(), fmt.Sprintf("the first %d waits", p.waits)
	switch p.waits {
	case 0:
		return "none"
	case math.MaxInt:
		which = "all waits"
	}
	if sum == 0 {
		return which
	}
	return fmt.Sprintf("%s, %s: others go on at up to %.0f messages a second (%s %d ÷ %s)",
		which, sum, math.Floor(float64(span)/sum.Seconds()), setting, span, sum)
}

// fail is for a message of the source that failed or was put off. It tries it again in place as
// long as its waits are spent there, and then parks it.
func (p inPlace) fail(ctx context.Context, d *dispatch, f *failed, t task.Ticket) task.Outcome {
	past, spent := &retry.Past{}, time.Duration(0)
	for {
		what, wait := p.after(f, spent)
		if what != rests {
			return p.park(ctx, d, f, past, what, t)
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
// its order it holds its key until it is there.
func (p inPlace) park(ctx context.Context, d *dispatch, f *failed, past *retry.Past, what next, t task.Ticket) task.Outcome {
	if what == tooLong {
		d.telemetry.OrderGivenUp()
		d.failures.orderGivenUp(f)
	}
	done, wait := settles(t), func() {}
	if p.order && (what == dies || what == isHanded) {
		done, wait = p.holds(ctx, f.message.Origin, t)
	}
	d.hand(t.Context(), f, past, done)
	wait()
	return task.Pending
}

// holds settles the message once it is safe in a queue, and has wait return then, so that what
// waits for it is not called before: if it were, and the process died then, the message would be
// called once more, after it.
func (p inPlace) holds(ctx context.Context, origin stepwell.Origin, t task.Ticket) (done func(error), wait func()) {
	safe := make(chan struct{})
	done = func(err error) {
		if err == nil {
			t.Settle()
			close(safe)
		}
	}
	return done, func() {
		// Where this ends early, so does the partition: nothing more of it is called.
		t.RestUntil(ctx, safe, &stepwell.Message{Origin: origin})
	}
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
