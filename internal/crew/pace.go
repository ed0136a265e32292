package crew

import "time"

const (
	// slowCall is how long a call may take on average for messages to be handled in stretches. What
	// it costs to hand a message to another goroutine is a few percent of it.
	slowCall = 50 * time.Microsecond
	// fastCalls is how many calls in a row must be fast until slow ones are forgotten.
	fastCalls = 64
)

// pace learns from the calls of a feed whether handlers are slow. It is fast at first.
type pace struct {
	slow   bool
	streak int // of fast calls
}

// ran notes how long a number of calls took together.
func (p *pace) ran(calls int, took time.Duration) {
	if took > time.Duration(calls)*slowCall {
		p.slow, p.streak = true, 0
		return
	}
	if p.streak += calls; p.streak >= fastCalls {
		p.slow = false
	}
}
