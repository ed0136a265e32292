package config

import (
	"errors"
	"reflect"
	"regexp/syntax"
	"strconv"
	"time"
)

const (
	maxDeaths    = 100
	maxBatchWait = 10 * time.Second
	maxFetchers  = 8 // each is a client with connections of its own
	// windowPerCall lets all calls find a key that is free: of as many keys as calls, each has so
	// many messages in the window on average, and what a fetch brings is never spread evenly.
	windowPerCall = 40
)

func (l *loader) stream(name string, s *Stream) {
	at := "streams." + name + "."
	if !validID(name) {
		l.complain("stream %s: an id must be of a-z, 0-9, - and _, at most %d of them, and begin with a letter or digit", quote(name), maxID)
	}
	if s.Group == "" {
		s.Group = l.cfg.App.Name + "." + name
		l.cfg.setting(at + "group").value = s.Group
	}
	l.batch(name, at, s)
	if window := l.cfg.setting(at + "window_messages"); window.origin == "default" && s.Concurrency < maxPrefetch {
		s.WindowMessages = max(s.WindowMessages, min(windowPerCall*s.Concurrency, s.WindowSpan))
		window.value = strconv.Itoa(s.WindowMessages)
	}
	l.topics(at, s)
	if s.Start != "earliest" && s.Start != "latest" {
		_, err := time.Parse(time.RFC3339, s.Start)
		l.check(err == nil, at+"start", "is neither earliest, latest, nor a time such as 2026-01-31T00:00:00Z")
	}
	l.check(s.MaxAge >= 0, at+"max_age", "must not be below 0")
	l.check(s.WindowMessages > 0, at+"window_messages", "must be above 0")
	l.check(s.WindowBytes > 0, at+"window_bytes", "must be above 0")
	l.check(s.WindowSpan >= s.WindowMessages, at+"window_span", "must not be below %s", l.names.variable("window_messages"))
	l.check(s.Fetchers > 0 && s.Fetchers <= maxFetchers, at+"fetchers", "is not within 1 to %d", maxFetchers)
	l.oneOf(at+"order", s.Order, "key", "partition", "none")
	l.oneOf(at+"on_failure", s.OnFailure, "retry", "drop")
	l.check(!*s.Retry.Enabled || s.OnFailure != "drop", at+"on_failure", "is for streams with %s=false: with retries nothing is dropped",
		l.names.variable("retry.enabled"))
	l.handler(at, s)
	l.inPlace(at, s.Retry)
	l.durations(fields(reflect.ValueOf(s).Elem(), "streams."+name))
	l.channels(name, s)
}

// handler checks what streams and channels have: a handler and its retries.
func (l *loader) handler(at string, s *Stream) {
	l.check(s.HandlerTimeout > 0, at+"handler_timeout", "must be above 0")
	l.check(s.Concurrency > 0 && s.Concurrency < maxPrefetch, at+"concurrency", "is not within 1 to %d", maxPrefetch-1)
	l.check(*s.CrashLimit >= 0 && *s.CrashLimit <= maxDeaths, at+"crash_limit", "is not within 0 to %d", maxDeaths)
	l.check(*s.CrashLimit == 0 || s.CrashProbation > l.cfg.Kafka.SessionTimeout && s.CrashProbation <= time.Hour, at+"crash_probation",
		"must be longer than %s (%s), and at most 1h", l.names.variable("kafka.session_timeout"), l.cfg.setting("kafka.session_timeout").value)
	l.retry(at, s)
}

// batch is before whatever looks at CONCURRENCY: a batch takes a thread's time, but many messages.
func (l *loader) batch(name, at string, s *Stream) {
	if !l.source.Batches[name] {
		for _, key := range []string{"batch.size", "batch.wait"} {
			s := l.cfg.setting(at + key)
			l.check(!s.isOwn(), at+key, "is for streams with a Batch: this one has a Handler")
		}
		return
	}
	inPlace := l.cfg.setting(at + "retry.in_place")
	l.check(s.Retry.InPlace == "0" || !inPlace.isOwn(), at+"retry.in_place",
		"is for streams with a Handler: what fails of a batch goes through the queues")
	s.Retry.InPlace, inPlace.value = "0", "0"
	if concurrency := l.cfg.setting(at + "concurrency"); concurrency.origin == "default" {
		s.Concurrency, concurrency.value = 1, "1"
	}
	l.check(s.Batch.Size > 0, at+"batch.size", "must be above 0")
	l.check(s.Batch.Wait >= 0 && s.Batch.Wait <= maxBatchWait, at+"batch.wait", "is not within 0 to %s", brief(maxBatchWait))
	if s.Batch.Size <= 0 || s.Concurrency <= 0 || s.Concurrency >= maxPrefetch {
		return
	}
	l.check(s.Batch.Size <= s.WindowMessages/2/s.Concurrency, at+"batch.size",
		"times %s (%d) is more than half of %s (%d), which has to hold what is gathered while batches run: at most %d, or %s of at least %d",
		l.shown(at, "concurrency"), s.Concurrency, l.shown(at, "window_messages"), s.WindowMessages,
		s.WindowMessages/2/s.Concurrency, l.shown(at, "window_messages"), 2*s.Batch.Size*s.Concurrency)
}

func (l *loader) topics(at string, s *Stream) {
	l.check(len(s.Topics) > 0 || s.TopicPattern != "", at+"topics", "is required, or %s", l.names.variable(at+"topic_pattern"))
	l.check(len(s.Topics) == 0 || s.TopicPattern == "", at+"topic_pattern", "stands beside %s: keep one", l.names.variable(at+"topics"))
	for _, topic := range s.Topics {
		if !topicName.MatchString(topic) || topic == "." || topic == ".." {
			l.refuse(at+"topics", "%s is no name that a topic of Kafka can have: letters, digits, dots, - and _, at most 249", quote(topic))
		}
	}
	if _, err := syntax.Parse(s.TopicPattern, syntax.Perl); err != nil {
		l.check(false, at+"topic_pattern", "is no regular expression of Go: %s", reason(err))
	}
}

func (l *loader) retry(at string, s *Stream) {
	l.policy(at, &s.Retry)
	r := s.Retry
	l.check(r.Jitter >= 0 && r.Jitter <= maxJitter, at+"retry.jitter", "is not within 0 to %v", maxJitter)
	l.check(r.DelayQueues >= 1 && r.DelayQueues <= maxDelayQueues, at+"retry.delay_queues", "is not within 1 to %d", maxDelayQueues)
	l.check(r.Prefetch >= 1 && r.Prefetch <= maxPrefetch, at+"retry.prefetch", "is not within 1 to %d", maxPrefetch)
	if !*r.Enabled {
		return
	}
	half := l.cfg.RabbitMQ.ConsumerTimeout / 2
	l.check(s.HandlerTimeout <= half, at+"handler_timeout",
		"is above half of %s (%s): the broker would hand messages out again while they run", l.names.variable("rabbitmq.consumer_timeout"), brief(half))
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
func (l *loader) groups() {
	seen := map[string]string{}
	for _, name := range l.ids {
		g := l.cfg.Streams[name].Group
		if other, taken := seen[g]; taken {
			l.check(false, "streams."+name+".group", "is the consumer group of stream %q too: each needs its own", other)
		}
		seen[g] = name
	}
}
