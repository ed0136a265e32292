package config

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell/internal/backoff"
)

// All is the [Retry].InPlace that says that every wait of a message is spent in the process.
const All = "all"

// How long a message that fails may rest in the process: what was read after it is not committed
// meanwhile.
const (
	// LongestRest is the longest wait of a policy in place.
	LongestRest = 15 * time.Minute
	// MostRest is the most of all waits of a message in place, those included that its handler asks
	// for.
	MostRest = time.Hour
)

// WaitsInPlace is how many waits of a message, the first ones, are spent in the process: of
// [math.MaxInt] all are.
func (r Retry) WaitsInPlace() int {
	if r.InPlace == All {
		return math.MaxInt
	}
	n, _ := strconv.Atoi(r.InPlace) // it was checked
	return n
}

// inPlace checks how long messages of a stream may rest in the process.
func (w waits) inPlace(r Retry) {
	path := w.at + "retry.in_place"
	if n, err := strconv.Atoi(r.InPlace); r.InPlace != All && (err != nil || n < 0 || n > maxCount) {
		w.check(false, path, "is neither %s nor a number of waits from 0 to %d", All, maxCount)
		return
	}
	wanted := r.WaitsInPlace()
	if !*r.Enabled && wanted > 0 {
		w.useless("retry.in_place", "retry.enabled", "false", "leave it out, all waits are in place")
		return
	}
	all := r.waits()
	all = all[:min(wanted, len(all))]
	fits, sum := resting(all)
	if fits == len(all) {
		return
	}
	too := fmt.Sprintf("lets a message rest for %s before retry %d, and %s is the most of one wait in place", backoff.Text(all[fits]), fits+1, backoff.Text(LongestRest))
	if all[fits] <= LongestRest {
		too = fmt.Sprintf("lets a message rest for %s in its first %d waits, and %s is the most in place", backoff.Text(backoff.Add(sum, all[fits])), fits+1, backoff.Text(MostRest))
	}
	ways := []string{fmt.Sprintf("%s=%d", w.names.variable(w.cfg.setting(path).found), fits)}
	switch {
	case r.Policy == Schedule:
	case fits == 0:
		if d := r.longestDelay(len(all)); d > 0 {
			ways = append(ways, fmt.Sprintf("%s=%s", w.shown(w.at, "retry.delay"), backoff.Text(d)))
		}
	case r.InPlace == All:
		ways = append(ways, fmt.Sprintf("%s=%d", w.shown(w.at, "retry.count"), fits))
	}
	rest := ""
	if fits > 0 {
		rest = fmt.Sprintf(" (%s in place)", backoff.Text(sum))
	}
	w.check(false, path, "%s: %s fits%s", too, strings.Join(ways, ", or "), rest)
}

// longestDelay is the longest RETRY_DELAY, in whole seconds, with which so many waits may be in
// place; 0: none is short enough.
func (r Retry) longestDelay(wanted int) time.Duration {
	seconds := sort.Search(int(LongestRest/time.Second), func(n int) bool {
		r.Delay = time.Duration(n+1) * time.Second
		fits, _ := resting(r.waits()[:wanted])
		return fits < wanted
	})
	return time.Duration(seconds) * time.Second
}

// resting is how many waits, the first ones, a message may rest in place, and for how long that is.
func resting(all []time.Duration) (fits int, sum time.Duration) {
	for fits < len(all) && all[fits] <= LongestRest && sum+all[fits] <= MostRest {
		sum += all[fits]
		fits++
	}
	return fits, sum
}

// waits are those of the policy; none where its settings are mistakes, which are told elsewhere.
func (r Retry) waits() []time.Duration {
	if *r.Count < 0 || *r.Count > maxCount {
		return nil
	}
	switch r.Policy {
	case Linear:
		return backoff.Linear(r.Delay, r.Step, *r.Count)
	case Exponential:
		return backoff.Exponential(r.Delay, r.Factor, r.MaxDelay, *r.Count)
	case Schedule:
		return r.Schedule
	}
	return nil
}
