package actor

import (
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/retry"
)

// budgetOf is what the configured policy yields: the wait before each retry.
func budgetOf(r config.Retry) retry.Budget {
	switch r.Policy {
	case config.Exponential:
		return retry.Exponential(r.Delay, r.Factor, r.MaxDelay, *r.Count)
	case config.Schedule:
		return retry.Schedule(r.Schedule)
	default:
		return retry.Linear(r.Delay, r.Step, *r.Count)
	}
}
