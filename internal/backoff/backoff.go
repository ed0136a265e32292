// Package backoff has the arithmetic of the waits before retries, for those who keep them and for
// those who check beforehand whether they fit: what a start refuses is what would have been made,
// and both call a wait the same.
package backoff

import (
	"math"
	"strings"
	"time"
)

// Linear are count waits, delay first and step longer each: the n-th is delay + (n-1)·step, and the
// longest duration where that is longer. A count below 0 is 0.
func Linear(delay, step time.Duration, count int) []time.Duration {
	all := make([]time.Duration, max(0, count))
	for i := range all {
		all[i] = delay
		delay = Add(delay, step)
	}
	return all
}

// Exponential are count waits, delay first and factor times longer each, but none longer than
// longest: the n-th is the smaller of delay·factor^(n-1), in whole milliseconds, rounded up, and
// longest. A count below 0 is 0.
func Exponential(delay time.Duration, factor float64, longest time.Duration, count int) []time.Duration {
	all := make([]time.Duration, max(0, count))
	for i := range all {
		ms := math.Ceil(float64(delay) * math.Pow(factor, float64(i)) / float64(time.Millisecond))
		all[i] = longest
		if ms < float64(longest/time.Millisecond) {
			all[i] = time.Duration(ms) * time.Millisecond
		}
	}
	return all
}

// Sum is how long the waits are together; the longest duration where that is longer.
func Sum(all []time.Duration) (sum time.Duration) {
	for _, wait := range all {
		sum = Add(sum, wait)
	}
	return sum
}

// Add is a + b, and the longest duration where that is longer.
func Add(a, b time.Duration) time.Duration {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Text is a duration without units that are zero: 5m, not 5m0s.
func Text(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
