package config

import (
	"math"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// id is what apps and streams may be called: it becomes part of queue names.
var id = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)

const (
	maxID       = 60
	maxWaits    = 24             // distinct ones, each a queue
	maxWait     = math.MaxUint32 // milliseconds, RabbitMQ's limit of a TTL
	maxPrefetch = 2000           // what RabbitMQ allows a quorum queue's consumer at most
)

// check complains about the setting unless ok.
func (l *loader) check(ok bool, path, format string, args ...any) {
	if !ok {
		l.complain(l.names.variable(path)+": "+format, args...)
	}
}

func (l *loader) oneOf(path, value string, allowed ...string) {
	l.check(slices.Contains(allowed, value), path, "%q is not one of: %s", value, strings.Join(allowed, ", "))
}

func (l *loader) validate() {
	c := l.cfg
	l.check(c.App.Name != "", "app.name", "is required: it names queues and consumer groups")
	l.check(c.App.Name == "" || validID(c.App.Name), "app.name", "%q must be of a-z, 0-9, - and _, at most %d of them, and begin with a letter or digit", c.App.Name, maxID)
	if c.Kafka.ClientID == "" {
		c.Kafka.ClientID = c.App.Name
	}
	if len(l.ids) == 0 {
		l.complain("no streams: register at least one in App.Streams")
	}
	l.kafka(&c.Kafka)
	retries := false
	for _, id := range l.ids {
		s := c.Streams[id]
		l.stream(id, &s)
		c.Streams[id] = s
		retries = retries || s.Retry.Enabled != nil && *s.Retry.Enabled
	}
	l.groups()
	l.rabbitMQ(&c.RabbitMQ, retries)
	_, _, err := net.SplitHostPort(c.Server.Address)
	l.check(c.Server.Address == "off" || err == nil, "server.address", "%q is neither host:port nor off", c.Server.Address)
	l.check(c.Server.BodyLimit > 0, "server.body_limit", "must be above 0")
	l.check(c.DeadSet.WalkBytes > 0, "dead_set.walk_bytes", "must be above 0")
	l.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	l.oneOf("log.format", c.Log.Format, "text", "json")
	l.check(c.Shutdown.Timeout > 0, "shutdown.timeout", "must be above 0")
	l.check(c.Telemetry.DepthInterval > 0, "telemetry.depth_interval", "must be above 0")
}

func validID(s string) bool { return len(s) <= maxID && id.MatchString(s) }

func (l *loader) kafka(k *Kafka) {
	l.check(len(k.Brokers) > 0 || l.source.Embedded, "kafka.brokers", "is required: host:port of one broker or more")
	for _, b := range k.Brokers {
		host, port, err := net.SplitHostPort(b)
		_, bad := strconv.ParseUint(port, 10, 16)
		l.check(err == nil && bad == nil && host != "", "kafka.brokers", "%q is not host:port", b)
	}
	l.oneOf("kafka.group_protocol", k.GroupProtocol, "classic", "consumer")
	l.check(k.SessionTimeout > 0, "kafka.session_timeout", "must be above 0")
	l.tls("kafka.tls", k.TLS)
	if k.SASL.Mechanism == "" {
		l.check(k.SASL.Username == "" && k.SASL.Password == "", "kafka.sasl.mechanism", "is required beside a user name or password: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
		return
	}
	l.oneOf("kafka.sasl.mechanism", k.SASL.Mechanism, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
	l.check(k.SASL.Username != "", "kafka.sasl.username", "is required with a mechanism")
	l.check(k.SASL.Password != "", "kafka.sasl.password", "is required with a mechanism")
}

func (l *loader) tls(path string, t TLS) {
	if !t.Enabled {
		l.check(t == TLS{}, path+".enabled", "is false, but other settings of TLS are set")
		return
	}
	if _, err := t.Client(); err != nil {
		l.complain("%s_%v", l.names.variable(path), err)
	}
}

func (l *loader) rabbitMQ(r *RabbitMQ, retries bool) {
	l.check(len(r.URL) > 0 || !retries || l.source.Embedded, "rabbitmq.url", "is required unless RETRY_ENABLED is false for every stream")
	for _, raw := range r.URL {
		u, err := url.Parse(raw)
		l.check(err == nil && (u.Scheme == "amqp" || u.Scheme == "amqps") && u.Host != "", "rabbitmq.url", "each must look like amqp://user:password@host:5672/ or amqps://…")
	}
	l.tls("rabbitmq.tls", r.TLS)
	l.check(r.ConfirmTimeout > 0, "rabbitmq.confirm_timeout", "must be above 0")
	l.check(r.ConsumerTimeout > 0, "rabbitmq.consumer_timeout", "must be above 0")
	l.check(r.MaxMessageSize > 0, "rabbitmq.max_message_size", "must be above 0")
	l.check(r.PublishWindow > 0, "rabbitmq.publish_window", "must be above 0")
	l.oneOf("rabbitmq.declare", r.Declare, "create", "check")
}

func (l *loader) stream(name string, s *Stream) {
	at := "streams." + name + "."
	if !validID(name) {
		l.complain("stream %q: an id must be of a-z, 0-9, - and _, at most %d of them, and begin with a letter or digit", name, maxID)
	}
	if s.Group == "" {
		s.Group = l.cfg.App.Name + "." + name
	}
	l.check(len(s.Topics) > 0 || s.TopicPattern != "", at+"topics", "is required, or %s", l.names.variable(at+"topic_pattern"))
	l.check(len(s.Topics) == 0 || s.TopicPattern == "", at+"topic_pattern", "and %s are both set: keep one", l.names.variable(at+"topics"))
	_, err := regexp.Compile(s.TopicPattern)
	l.check(err == nil, at+"topic_pattern", "%v", err)
	if s.Start != "earliest" && s.Start != "latest" {
		_, err := time.Parse(time.RFC3339, s.Start)
		l.check(err == nil, at+"start", "%q is neither earliest, latest, nor a time such as 2026-01-31T00:00:00Z", s.Start)
	}
	l.check(s.MaxAge >= 0, at+"max_age", "must not be below 0")
	l.check(s.HandlerTimeout > 0, at+"handler_timeout", "must be above 0")
	l.check(s.WindowMessages > 0, at+"window_messages", "must be above 0")
	l.check(s.WindowBytes > 0, at+"window_bytes", "must be above 0")
	l.check(s.Concurrency > 0 && s.Concurrency < maxPrefetch, at+"concurrency", "must be 1 to %d", maxPrefetch-1)
	l.oneOf(at+"on_failure", s.OnFailure, "retry", "drop")
	l.retry(at, s)
}

func (l *loader) retry(at string, s *Stream) {
	r := s.Retry
	if r.Enabled == nil || r.Count == nil {
		return // could not be read, which was said
	}
	l.check(!*r.Enabled || s.OnFailure != "drop", at+"on_failure", "drop is for streams with RETRY_ENABLED=false: with retries nothing is dropped")
	l.oneOf(at+"retry.policy", r.Policy, "linear")
	l.check(*r.Count >= 0 && *r.Count <= 1000, at+"retry.count", "%d is not within 0 to 1000", *r.Count)
	l.check(r.Delay > 0, at+"retry.delay", "must be above 0")
	l.check(r.Step >= 0, at+"retry.step", "must not be below 0")
	l.check(r.Delay%time.Millisecond == 0 && r.Step%time.Millisecond == 0, at+"retry.delay", "and RETRY_STEP must be whole milliseconds")
	l.check(r.Prefetch >= 1 && r.Prefetch <= maxPrefetch, at+"retry.prefetch", "%d is not within 1 to %d", r.Prefetch, maxPrefetch)
	if !*r.Enabled {
		return
	}
	if half := l.cfg.RabbitMQ.ConsumerTimeout / 2; s.HandlerTimeout > half {
		l.check(false, at+"handler_timeout", "%s is above half of RABBITMQ_CONSUMER_TIMEOUT (%s): the broker would hand messages out again while they run", s.HandlerTimeout, half)
	}
	last := float64(r.Delay.Milliseconds()) + float64(max(0, *r.Count-1))*float64(r.Step.Milliseconds())
	l.check(last <= maxWait, at+"retry.step", "the last wait would be longer than RabbitMQ's limit of 2^32-1 ms (49 days)")
	l.check(r.Step == 0 || *r.Count <= maxWaits, at+"retry.count", "with RETRY_STEP each of %d waits needs a queue of its own, and %d are the limit", *r.Count, maxWaits)
}

// groups complains about streams that would take records from one another.
func (l *loader) groups() {
	seen := map[string]string{}
	for _, name := range l.ids {
		g := l.cfg.Streams[name].Group
		if other, taken := seen[g]; taken {
			l.complain("streams %s and %s have the same consumer group %s: each needs its own", other, name, g)
		}
		seen[g] = name
	}
}
