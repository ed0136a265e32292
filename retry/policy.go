package retry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell/internal/backoff"
)

// Budget is what a policy yields: the wait before each further try. Its length is how often a
// message is tried again.
//
// A policy is a pure function that returns a Budget; here are [Linear], [Exponential] and
// [Schedule]. Nothing else in this package would change for another.
type Budget []time.Duration

// Linear waits delay before the first retry and step longer before each further one: the n-th wait
// is delay + (n-1)·step. A step of 0 makes all waits the same.
func Linear(delay, step time.Duration, count int) Budget { return backoff.Linear(delay, step, count) }

// Exponential waits delay before the first retry and factor times longer before each further one,
// but never longer than longest: the n-th wait is the smaller of delay·factor^(n-1) and longest, in
// whole milliseconds, rounded up.
func Exponential(delay time.Duration, factor float64, longest time.Duration, count int) Budget {
	return backoff.Exponential(delay, factor, longest, count)
}

// Schedule waits as the list says, and has as many retries.
func Schedule(list []time.Duration) Budget { return slices.Clone(list) }

// Wait returns the wait after the attempt failed; false when that was the last one.
func (b Budget) Wait(attempt int) (time.Duration, bool) {
	if attempt < 1 || attempt > len(b) {
		return 0, false
	}
	return b[attempt-1], true
}

// Total is the sum of all waits.
func (b Budget) Total() time.Duration { return backoff.Sum(b) }

// String says every wait and the total, as in "5s, 10s, 15s: 30s in all, then the dead set". More
// than three equal waits in a row are one item.
func (b Budget) String() string {
	if len(b) == 0 {
		return "no retries: the first failure goes to the dead set"
	}
	var items []string
	for i := 0; i < len(b); {
		run := 1
		for i+run < len(b) && b[i+run] == b[i] {
			run++
		}
		if run > 3 {
			items = append(items, fmt.Sprintf("%d × %s", run, backoff.Text(b[i])))
			i += run
			continue
		}
		items = append(items, backoff.Text(b[i]))
		i++
	}
	return fmt.Sprintf("%s: %s in all, then the dead set", strings.Join(items, ", "), backoff.Text(b.Total()))
}
