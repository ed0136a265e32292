package actor

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/config"
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
	attempt, wait := max(1, f.message.Attempt), f.snooze()
	if f.to != nil {
		return isHanded, 0
	}
	if wait == 0 {
		policy, left := p.budget.Wait(attempt)
		if !left || f.answer.Kind == stepwell.Dead {
			return dies, 0
		}
		shorter := time.Duration(p.jitter * drawn * float64(policy))
		wait = cmp.Or(f.answer.After, policy-shorter)
	}
	switch {
	case attempt > p.waits:
		return leaves, 0
	// A message that rests for longer would hold the window and commits for as long.
	case spent+wait > config.MostRest:
		return tooLong, 0
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
