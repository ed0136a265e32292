package config

import (
	"math"
	"slices"
	"strconv"
	"time"
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

// policy checks the waits of a stream.
func (l *loader) policy(at string, r *Retry) {
	l.oneOf(at+"retry.policy", r.Policy, Linear, Exponential, Schedule)
	l.only(at, r.Policy, "retry.step", Linear)
	l.only(at, r.Policy, "retry.factor", Exponential)
	l.only(at, r.Policy, "retry.max_delay", Exponential)
	l.only(at, r.Policy, "retry.schedule", Schedule)
	l.only(at, r.Policy, "retry.delay", Linear, Exponential)
	l.only(at, r.Policy, "retry.count", Linear, Exponential)
	l.check(*r.Count >= 0 && *r.Count <= maxCount, at+"retry.count", "is not within 0 to %d", maxCount)
	l.wait(at+"retry.delay", r.Delay)
	l.check(r.Step >= 0, at+"retry.step", "must not be below 0")
	l.check(r.Step%time.Millisecond == 0, at+"retry.step", "must be whole milliseconds")
	l.check(r.Factor >= 1 && r.Factor <= maxFactor, at+"retry.factor", "is not within 1 to %d", maxFactor)
	l.wait(at+"retry.max_delay", r.MaxDelay)
	switch r.Policy {
	case Linear:
		l.linear(at, *r)
	case Exponential:
		l.exponential(at, *r)
	case Schedule:
		l.schedule(at, r)
	}
}

// only refuses a setting that the policy of a stream or channel does not look at.
func (l *loader) only(at, policy, name string, of ...string) {
	if !slices.Contains(of, policy) {
		l.useless(at, name, "retry.policy", policy)
	}
}

// useless refuses a setting at which nobody looks because of another one of the stream or channel.
// One for all streams, or of a channel's stream, may be meant for others, where the other one is
// its own.
func (l *loader) useless(at, name, because, value string) {
	s, b := l.cfg.setting(at+name), l.cfg.setting(at+because)
	own := func(s *setting) bool { return s.found == s.path }
	if s.origin == "default" || !own(s) && own(b) && b.origin != "default" {
		return
	}
	l.check(false, at+name, "is not for %s=%s", l.shown(at, because), value)
}

// shown is the variable of a stream's setting, as it was set; that for all streams where nobody
// did.
func (l *loader) shown(at, name string) string {
	if s := l.cfg.setting(at + name); s.origin != "default" {
		name = s.found
	}
	return l.names.variable(name)
}

// wait checks one wait.
func (l *loader) wait(path string, d time.Duration) {
	l.check(d > 0 && d.Milliseconds() <= maxWait, path, limitOfWaits)
	l.check(d%time.Millisecond == 0, path, "must be whole milliseconds")
}

func (l *loader) linear(at string, r Retry) {
	if *r.Count > maxCount || r.Delay.Milliseconds() > maxWait || r.Step == 0 {
		return
	}
	l.check(*r.Count <= maxWaits, at+"retry.count", "makes %d different waits with %s, each a queue, and %d are the limit",
		*r.Count, l.shown(at, "retry.step"), maxWaits)
	last := float64(r.Delay.Milliseconds()) + float64(max(0, *r.Count-1))*float64(r.Step.Milliseconds())
	l.check(last <= maxWait || *r.Count > maxWaits, at+"retry.step", "makes the last wait longer than 2^32-1 ms (49 days), RabbitMQ's limit")
}

func (l *loader) exponential(at string, r Retry) {
	l.check(r.MaxDelay >= r.Delay, at+"retry.max_delay", "must not be below %s", l.shown(at, "retry.delay"))
	if r.Delay <= 0 || r.MaxDelay < r.Delay || r.Factor < 1 || *r.Count > maxCount {
		return
	}
	n := levels(r, r.Factor)
	if n <= maxWaits {
		return
	}
	fits := math.Ceil(100*math.Pow(float64(r.MaxDelay)/float64(r.Delay), 1.0/(maxWaits-1))) / 100
	for levels(r, fits) > maxWaits { // two waits may be one when rounded, or two
		fits += 0.01
	}
	l.check(false, at+"retry.factor", "makes %d different waits, each a queue, and %d are the limit: from %s on it fits",
		n, maxWaits, strconv.FormatFloat(fits, 'f', 2, 64))
}

// levels is how many different waits an exponential policy has, in whole milliseconds.
func levels(r Retry, factor float64) int {
	seen := map[int64]bool{}
	for i := range *r.Count {
		ms := math.Ceil(float64(r.Delay) * math.Pow(factor, float64(i)) / float64(time.Millisecond))
		seen[int64(min(ms, float64(r.MaxDelay.Milliseconds())))] = true
	}
	return len(seen)
}

// schedule has as many retries as waits.
func (l *loader) schedule(at string, r *Retry) {
	path := at + "retry.schedule"
	if len(r.Schedule) == 0 {
		set, _, _ := l.find([]string{path, "retry.schedule"}) // a mistake in it was told
		l.check(set != "", at+"retry.policy", "needs %s: the waits, with commas, as in 1s,10s,1m", l.shown(at, "retry.schedule"))
		return
	}
	count := len(r.Schedule)
	if r.Count = &count; count <= maxCount {
		l.cfg.setting(at + "retry.count").value = strconv.Itoa(count)
	}
	l.check(count <= maxCount, path, "has %d waits, and %d are the limit", count, maxCount)
	for _, d := range r.Schedule {
		l.wait(path, d)
	}
	different := slices.Compact(slices.Sorted(slices.Values(r.Schedule)))
	l.check(len(different) <= maxWaits, path, "has %d different waits, each a queue, and %d are the limit", len(different), maxWaits)
}
