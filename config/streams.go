package config

import (
	"errors"
	"reflect"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell/internal/backoff"
)

const (
	maxDeaths    = 100
	maxBatchWait = 10 * time.Second
	// maxBatchSize is more than any window holds of batches, and times two and CONCURRENCY an int.
	maxBatchSize = 1_000_000
	maxFetchers  = 8 // each is a client with connections of its own
	// windowPerCall lets all calls find a key that is free: of as many keys as calls, each has so
	// many messages in the window on average, and what a fetch brings is never spread evenly.
	windowPerCall = 40
)

func (v *checker) stream(name string, s *Stream) {
	at := "streams." + name + "."
	if !validID(name) {
		v.complain("stream %s: an id must be of a-z, 0-9, - and _, at most %d of them, and begin with a letter or digit", quote(name), maxID)
	}
	// The group follows from the name of the app and the id: who renames either begins as a new
	// group.
	if s.Group == "" && v.cfg.HasTopics(name) {
		s.Group = v.cfg.App.Name + "." + name
		v.cfg.setting(at + "group").value = s.Group
	}
	v.check(s.Group == "" || strings.TrimSpace(s.Group) == s.Group, at+"group", "must not begin or end with a space")
	v.queued(name, at, s)
	v.batch(name, at, s)
	// A window that was chosen stays as it is, also where it is small beside CONCURRENCY.
	if window := v.cfg.setting(at + "window_messages"); window.origin == "default" && s.Concurrency < maxPrefetch {
		s.WindowMessages = max(s.WindowMessages, min(windowPerCall*s.Concurrency, s.WindowSpan))
		window.value = strconv.Itoa(s.WindowMessages)
	}
	v.topics(at, s, v.cfg.Reads(name))
	if s.Start != "earliest" && s.Start != "latest" {
		_, err := time.Parse(time.RFC3339, s.Start)
		v.check(err == nil, at+"start", "is neither earliest, latest, nor a time such as 2026-01-31T00:00:00Z")
	}
	v.check(s.MaxAge >= 0, at+"max_age", "must not be below 0")
	v.check(s.WindowMessages > 0, at+"window_messages", "must be above 0")
	v.check(s.WindowBytes > 0, at+"window_bytes", "must be above 0")
	v.check(s.WindowSpan >= s.WindowMessages, at+"window_span", "must not be below %s (%d)", v.names.variable("window_messages"), s.WindowMessages)
	v.check(s.Fetchers > 0 && s.Fetchers <= maxFetchers, at+"fetchers", "is not within 1 to %d", maxFetchers)
	v.oneOf(at+"order", s.Order, "key", "partition", "none")
	v.oneOf(at+"on_failure", s.OnFailure, "retry", "drop")
	v.check(!*s.Retry.Enabled || s.OnFailure != "drop", at+"on_failure", "is for streams with %s=false: with retries nothing is dropped",
		v.names.variable("retry.enabled"))
	v.handler(at, s, v.cfg.HasOnDead(name, ""))
	waits{v, at}.inPlace(s.Retry)
	v.durations(fields(reflect.ValueOf(s).Elem(), "streams."+name))
	v.channels(name, s)
	v.retired(at, s)
}

// handler checks what streams and channels have: a handler and its retries, and what goes with an
// OnDead.
func (v *checker) handler(at string, s *Stream, onDead bool) {
	v.check(s.HandlerTimeout > 0, at+"handler_timeout", "must be above 0")
	v.check(s.Concurrency > 0 && s.Concurrency < maxPrefetch, at+"concurrency", "is not within 1 to %d", maxPrefetch-1)
	v.check(*s.CrashLimit >= 0 && *s.CrashLimit <= maxDeaths, at+"crash_limit", "is not within 0 to %d", maxDeaths)
	v.probation(at, s)
	v.check(!onDead || *s.Retry.Enabled, at+"retry.enabled", "cannot be beside an OnDead, which is called in place of the dead set: without retries nothing goes there; %s=true sets it for this stream alone",
		v.names.variable(at+"retry.enabled"))
	v.retry(at, s, onDead)
}

// probation checks CRASH_PROBATION, which is to outlast the session of a member that died; who
// reads no topic is no member, and only RabbitMQ has to notice that its connection is gone.
func (v *checker) probation(at string, s *Stream) {
	switch {
	case *s.CrashLimit == 0:
	case len(s.Topics) == 0 && s.TopicPattern == "":
		v.check(s.CrashProbation >= 5*time.Second && s.CrashProbation <= time.Hour, at+"crash_probation", "must be at least 5s, and at most 1h")
	default:
		v.check(s.CrashProbation > v.cfg.Kafka.SessionTimeout && s.CrashProbation <= time.Hour, at+"crash_probation",
			"must be longer than %s (%s), and at most 1h", v.names.variable("kafka.session_timeout"), v.cfg.setting("kafka.session_timeout").value)
	}
}

// batch is before whatever looks at CONCURRENCY: a batch takes a thread's time, but many messages.
func (v *checker) batch(name, at string, s *Stream) {
	if !v.source.Batches[name] {
		for _, key := range []string{"batch.size", "batch.wait"} {
			s := v.cfg.setting(at + key)
			v.check(!s.isOwn(), at+key, "is for streams with a Batch: this one has a Handler")
		}
		return
	}
	if concurrency := v.cfg.setting(at + "concurrency"); concurrency.origin == "default" {
		s.Concurrency, concurrency.value = 1, "1"
	}
	v.check(s.Batch.Size > 0 && s.Batch.Size <= maxBatchSize, at+"batch.size", "is not within 1 to %d", maxBatchSize)
	v.check(s.Batch.Wait >= 0 && s.Batch.Wait <= maxBatchWait, at+"batch.wait", "is not within 0 to %s", backoff.Text(maxBatchWait))
	if s.Batch.Size <= 0 || s.Batch.Size > maxBatchSize || s.Concurrency <= 0 || s.Concurrency >= maxPrefetch {
		return
	}
	if !v.cfg.HasTopics(name) {
		v.check(s.Batch.Size <= maxPrefetch/2/s.Concurrency, at+"batch.size",
			"times %s (%d) is more than half of %d, which RabbitMQ hands out at once and which have to hold what is gathered while batches run: at most %d",
			v.shown(at, "concurrency"), s.Concurrency, maxPrefetch, maxPrefetch/2/s.Concurrency)
		// A message waits for two batches before its own. Between two of them a retry may have the
		// seat, where there is one, so that these are five calls.
		sixth := v.cfg.RabbitMQ.ConsumerTimeout / 6
		v.check(sixth <= 0 || s.HandlerTimeout <= sixth, at+"handler_timeout",
			"is above a sixth of %s (%s): a message also waits for two batches before its own, and for retries between them",
			v.names.variable("rabbitmq.consumer_timeout"), backoff.Text(sixth))
		return
	}
	v.check(s.WindowMessages <= 0 || s.Batch.Size <= s.WindowMessages/2/s.Concurrency, at+"batch.size",
		"times %s (%d) is more than half of %s (%d), which has to hold what is gathered while batches run: at most %d, or %s of at least %d",
		v.shown(at, "concurrency"), s.Concurrency, v.shown(at, "window_messages"), s.WindowMessages,
		s.WindowMessages/2/s.Concurrency, v.shown(at, "window_messages"), 2*s.Batch.Size*s.Concurrency)
}

// topics checks what is read. A stream that this process does not read needs no topics.
func (v *checker) topics(at string, s *Stream, read bool) {
	v.check(len(s.Topics) > 0 || s.TopicPattern != "" || !read, at+"topics", "is required, or %s; for messages of RabbitMQ %s or %s",
		v.names.variable(at+"topic_pattern"), v.names.variable(at+"queue"), v.names.variable(at+"exchange"))
	v.check(len(s.Topics) == 0 || s.TopicPattern == "", at+"topic_pattern", "stands beside %s: keep one", v.names.variable(at+"topics"))
	for i, topic := range s.Topics {
		if slices.Contains(s.Topics[:i], topic) {
			v.refuse(at+"topics", "%s stands there twice", quote(topic))
		}
		if !topicName.MatchString(topic) || topic == "." || topic == ".." {
			v.refuse(at+"topics", "%s is no name that a topic of Kafka can have: letters, digits, dots, - and _, at most 249", quote(topic))
		}
	}
	if _, err := syntax.Parse(s.TopicPattern, syntax.Perl); err != nil {
		v.check(false, at+"topic_pattern", "is no regular expression of Go: %s", reason(err))
	}
}

// retry checks what no policy has of its own, and how it goes with the broker's time-out.
func (v *checker) retry(at string, s *Stream, onDead bool) {
	waits{v, at}.policy(&s.Retry)
	r := s.Retry
	v.check(r.Jitter >= 0 && r.Jitter <= maxJitter, at+"retry.jitter", "is not within 0 to %v", maxJitter)
	v.check(r.DelayQueues >= 1 && r.DelayQueues <= maxDelayQueues, at+"retry.delay_queues", "is not within 1 to %d", maxDelayQueues)
	v.check(r.Prefetch >= 1 && r.Prefetch <= maxPrefetch, at+"retry.prefetch", "is not within 1 to %d", maxPrefetch)
	if !*r.Enabled {
		return
	}
	if onDead {
		// A retry holds its delivery for the handler's time and OnDead's, which is the same: both
		// have to end well before the broker gives up the consumer.
		quarter := v.cfg.RabbitMQ.ConsumerTimeout / 4
		v.check(quarter <= 0 || s.HandlerTimeout <= quarter, at+"handler_timeout",
			"is above a quarter of %s (%s), the most beside an OnDead, which has the handler's time once more: %s=%s fits",
			v.names.variable("rabbitmq.consumer_timeout"), backoff.Text(v.cfg.RabbitMQ.ConsumerTimeout), v.names.variable(at+"handler_timeout"), backoff.Text(quarter))
		return
	}
	half := v.cfg.RabbitMQ.ConsumerTimeout / 2
	v.check(half <= 0 || s.HandlerTimeout <= half, at+"handler_timeout",
		"is above half of %s (%s): the broker would hand messages out again while they run", v.names.variable("rabbitmq.consumer_timeout"), backoff.Text(half))
}

// reason is what is wrong with a pattern, without the pattern.
func reason(err error) string {
	var wrong *syntax.Error
	if errors.As(err, &wrong) {
		return wrong.Code.String()
	}
	return "it cannot be parsed"
}

// groups complains about streams that would take records from one another.
func (v *checker) groups() {
	seen := map[string]string{}
	for _, name := range v.source.ids() {
		g := v.cfg.Streams[name].Group
		if other, taken := seen[g]; taken && g != "" { // who reads nothing has none
			v.check(false, "streams."+name+".group", "is the consumer group of stream %q too: each needs its own", other)
		}
		seen[g] = name
	}
}
