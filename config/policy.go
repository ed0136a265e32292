package config

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell/internal/backoff"
)

// The policies of RETRY_POLICY.
const (
	Linear      = "linear"
	Exponential = "exponential"
	Schedule    = "schedule"
)

const (
	maxCount = 1000
	maxWaits = 24 // distinct ones, each a queue
	// maxDelayQueues is how many queues a wait may have.
	maxDelayQueues = 16
	maxWait        = math.MaxUint32 // milliseconds, RabbitMQ's limit of a TTL
	maxFactor      = 100
	maxJitter      = 0.5
)

// limitOfWaits is what is said of a wait that no queue can have.
const limitOfWaits = "must be above 0 and at most 2^32-1 ms (49 days), RabbitMQ's limit"

// waits checks how long messages of a stream or channel wait; at is its path, with a dot at its
// end.
type waits struct {
	*checker
	at string
}

// policy checks the waits of a policy.
func (w waits) policy(r *Retry) {
	w.oneOf(w.at+"retry.policy", r.Policy, Linear, Exponential, Schedule)
	w.only(r.Policy, "retry.step", Linear)
	w.only(r.Policy, "retry.factor", Exponential)
	w.only(r.Policy, "retry.max_delay", Exponential)
	w.only(r.Policy, "retry.schedule", Schedule)
	w.only(r.Policy, "retry.delay", Linear, Exponential)
	w.only(r.Policy, "retry.count", Linear, Exponential)
	w.check(*r.Count >= 0 && *r.Count <= maxCount, w.at+"retry.count", "is not within 0 to %d", maxCount)
	w.wait(w.at+"retry.delay", r.Delay)
	w.check(r.Step >= 0, w.at+"retry.step", "must not be below 0")
	w.check(r.Step%time.Millisecond == 0, w.at+"retry.step", "must be whole milliseconds")
	w.check(r.Factor >= 1 && r.Factor <= maxFactor, w.at+"retry.factor", "is not within 1 to %d", maxFactor)
	w.wait(w.at+"retry.max_delay", r.MaxDelay)
	switch r.Policy {
	case Linear:
		w.linear(*r)
	case Exponential:
		w.exponential(*r)
	case Schedule:
		w.schedule(r)
	}
}

// only refuses a setting that the policy of a stream or channel does not look at, and says what to
// do about it. What a policy that is not known would look at nobody knows.
func (w waits) only(policy, name string, of ...string) {
	if !slices.Contains([]string{Linear, Exponential, Schedule}, policy) || slices.Contains(of, policy) {
		return
	}
	if len(of) > 1 {
		w.useless(name, "retry.policy", policy, fmt.Sprintf("leave it out, the list in %s says it", w.shown(w.at, "retry.schedule")))
		return
	}
	w.useless(name, "retry.policy", policy, fmt.Sprintf("set %s=%s, or leave it out", w.beside(name, "retry.policy"), of[0]))
}

// beside is the variable by which another setting is to be set so that it counts where one was
// found: for all streams, the stream or the channel, as that one, or as the other one where that is
// set nearer.
func (w waits) beside(name, other string) string {
	path := strings.TrimSuffix(w.cfg.setting(w.at+name).found, name) + other
	if s := w.cfg.setting(w.at + other); s.origin != "default" && len(s.found) > len(path) {
		path = s.found
	}
	return w.names.variable(path)
}

// useless refuses a setting at which nobody looks because of another one of the stream or channel.
// One for all streams, or of a channel's stream, may be meant for others, where the other one is
// its own. help says what to do instead.
func (w waits) useless(name, because, value, help string) {
	s, b := w.cfg.setting(w.at+name), w.cfg.setting(w.at+because)
	own := func(s *setting) bool { return s.found == s.path }
	if s.origin == "default" || !own(s) && own(b) && b.origin != "default" {
		return
	}
	// The code spoke for another value, in whose place somebody who cannot change it put this one.
	if s.origin == "code" && b.origin != "code" && b.origin != "default" {
		return
	}
	w.check(false, w.at+name, "is not for %s=%s: %s", w.shown(w.at, because), value, help)
}

// wait checks one wait.
func (w waits) wait(path string, d time.Duration) {
	w.check(d > 0 && d.Milliseconds() <= maxWait, path, limitOfWaits)
	w.check(d%time.Millisecond == 0, path, "must be whole milliseconds")
}

// linear bounds how many queues a linear policy makes, and how long the last wait is, and says what
// would fit. With a step each wait is another one; without it all retries share one wait.
func (w waits) linear(r Retry) {
	if *r.Count > maxCount || r.Delay.Milliseconds() > maxWait || r.Step < time.Millisecond || r.Step > maxDuration {
		return
	}
	all := backoff.Linear(r.Delay, r.Step, *r.Count)
	fits := slices.IndexFunc(all, func(wait time.Duration) bool { return wait.Milliseconds() > maxWait })
	if fits < 0 {
		fits = len(all)
	}
	count, step := w.shown(w.at, "retry.count"), w.shown(w.at, "retry.step")
	w.check(len(all) <= maxWaits, w.at+"retry.count", "makes %d different waits with %s=%s, each a queue, and %d are the limit: %s=%d, or %s=0s fits",
		len(all), step, backoff.Text(r.Step), maxWaits, count, min(fits, maxWaits), step)
	w.check(fits == len(all) || len(all) > maxWaits, w.at+"retry.step", "makes wait %d, of %s + %d × %s, longer than 2^32-1 ms (49 days), RabbitMQ's limit: %s=%s, or %s=%d fits",
		fits+1, backoff.Text(r.Delay), fits, backoff.Text(r.Step), step, backoff.Text(r.longestStep()), count, fits)
}

// longestStep is the longest RETRY_STEP, in whole seconds, with which no wait of a linear policy is
// above RabbitMQ's limit.
func (r Retry) longestStep() time.Duration {
	left := maxWait*time.Millisecond - r.Delay
	return (left / time.Duration(max(1, *r.Count-1))).Truncate(time.Second)
}

// exponential bounds how many queues an exponential policy makes, and says which factor would fit.
func (w waits) exponential(r Retry) {
	w.check(r.MaxDelay >= r.Delay, w.at+"retry.max_delay", "must not be below %s", w.shown(w.at, "retry.delay"))
	if r.Delay <= 0 || r.MaxDelay < r.Delay || r.Factor < 1 || *r.Count > maxCount {
		return
	}
	n := levels(r, r.Factor)
	if n <= maxWaits {
		return
	}
	fits := math.Ceil(100*math.Pow(float64(r.MaxDelay)/float64(r.Delay), 1.0/(maxWaits-1))) / 100
	// Waits are rounded to whole milliseconds, so that the factor above may make one wait more than
	// it would without rounding.
	for levels(r, fits) > maxWaits {
		fits += 0.01
	}
	w.check(false, w.at+"retry.factor", "makes %d different waits, each a queue, and %d are the limit: from %s on it fits",
		n, maxWaits, strconv.FormatFloat(fits, 'f', 2, 64))
}

// levels is how many different waits an exponential policy has: equal ones follow one another.
func levels(r Retry, factor float64) int {
	return len(slices.Compact(backoff.Exponential(r.Delay, factor, r.MaxDelay, *r.Count)))
}

// schedule bounds how many waits a schedule has, and queues they make. It sets Count: there are as
// many retries as waits.
func (w waits) schedule(r *Retry) {
	path := w.at + "retry.schedule"
	if len(r.Schedule) == 0 {
		set, _, _ := w.layers.find([]string{path, "retry.schedule"}) // a mistake in it was told
		w.check(set != "", w.at+"retry.policy", "needs %s: the waits, with commas, as in 1s,10s,1m", w.beside("retry.policy", "retry.schedule"))
		return
	}
	count := len(r.Schedule)
	if r.Count = &count; count <= maxCount {
		w.cfg.setting(w.at + "retry.count").value = strconv.Itoa(count)
	}
	w.check(count <= maxCount, path, "has %d waits, and %d are the limit", count, maxCount)
	for _, d := range r.Schedule {
		w.wait(path, d)
	}
	w.check(differentWaits(r.Schedule) <= maxWaits, path, "has %d different waits, each a queue, and %d are the limit: its first %d fit",
		differentWaits(r.Schedule), maxWaits, min(maxCount, sort.Search(count, func(n int) bool { return differentWaits(r.Schedule[:n+1]) > maxWaits })))
}

// differentWaits is how many of waits there are, equal ones counted once.
func differentWaits(all []time.Duration) int {
	return len(slices.Compact(slices.Sorted(slices.Values(all))))
}
