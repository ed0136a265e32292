package config

import (
	"crypto/tls"
	"fmt"
	"math"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// id is what apps and streams may be called: it becomes part of queue names.
var id = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)

// topicName is what Kafka allows.
var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

const (
	maxID       = 60
	maxDuration = 10 * 365 * 24 * time.Hour
	maxVHost    = 255  // bytes, AMQP's short string
	maxPrefetch = 2000 // what RabbitMQ allows a quorum queue's consumer at most
	// minMessageSize has room for headers of 64 KiB, which is what may stay of a message that is
	// too large, and for what is added on its way.
	minMessageSize = 72 << 10
)

// refuse complains about a setting under the name it was found by, with where it came from.
func (l *loader) refuse(path, format string, args ...any) {
	s, from := l.cfg.setting(path), ""
	if s.origin != "" && s.origin != "default" {
		from = " (from " + s.origin + ")"
	}
	l.complain("%s: %s%s", l.names.variable(s.found), fmt.Sprintf(format, args...), from)
}

// check refuses a setting unless ok, with its value where that is no secret.
func (l *loader) check(ok bool, path, format string, args ...any) {
	if ok {
		return
	}
	value := ""
	if s := l.cfg.setting(path); !s.secret && s.value != "" {
		value = quote(s.value) + " "
	}
	l.refuse(path, "%s"+format, append([]any{value}, args...)...)
}

func (l *loader) oneOf(path, value string, allowed ...string) {
	l.check(slices.Contains(allowed, value), path, "is not known; known: %s", strings.Join(allowed, ", "))
}

func (l *loader) validate() {
	c := l.cfg
	l.check(c.App.Name != "", "app.name", "is required: it names queues and consumer groups")
	l.check(c.App.Name == "" || validID(c.App.Name), "app.name", "must be of a-z, 0-9, - and _, at most %d of them, and begin with a letter or digit", maxID)
	if c.Kafka.ClientID == "" {
		c.Kafka.ClientID = c.App.Name
		l.cfg.setting("kafka.client_id").value = c.App.Name
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
		retries = retries || *s.Retry.Enabled || len(s.Channels) > 0
	}
	l.groups()
	l.rabbitMQ(&c.RabbitMQ, retries)
	l.check(c.Server.Address == "off" || validAddress(c.Server.Address, 0), "server.address", "is neither host:port nor off")
	l.check(c.Server.BodyLimit > 0, "server.body_limit", "must be above 0")
	l.check(c.DeadSet.WalkBytes > 0, "dead_set.walk_bytes", "must be above 0")
	l.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	l.oneOf("log.format", c.Log.Format, "text", "json")
	l.oneOf("log.errors", c.Log.Errors, "text", "type")
	l.check(c.Shutdown.Timeout > 0, "shutdown.timeout", "must be above 0")
	l.check(c.Telemetry.DepthInterval > 0, "telemetry.depth_interval", "must be above 0")
	l.durations(fields(reflect.ValueOf(c).Elem(), ""))
}

// durations refuses what no clock can add, twice over.
func (l *loader) durations(all []field) {
	for _, f := range all {
		if d, ok := f.value.Interface().(time.Duration); ok {
			l.check(d <= maxDuration, f.path, "must be at most %s, ten years", brief(maxDuration))
		}
	}
}

func validID(s string) bool { return len(s) <= maxID && id.MatchString(s) }

func validAddress(s string, lowest uint64) bool {
	_, port, err := net.SplitHostPort(s)
	n, bad := strconv.ParseUint(port, 10, 16)
	return err == nil && bad == nil && n >= lowest
}

func (l *loader) kafka(k *Kafka) {
	l.check(len(k.Brokers) > 0 || l.source.Embedded, "kafka.brokers", "is required: host:port of one broker or more")
	for _, b := range k.Brokers {
		if !validAddress(b, 1) || strings.HasPrefix(b, ":") {
			l.refuse("kafka.brokers", "%s is not host:port", quote(b))
		}
	}
	l.oneOf("kafka.group_protocol", k.GroupProtocol, "classic", "consumer")
	l.check(k.SessionTimeout >= time.Second && k.SessionTimeout <= 24*time.Hour, "kafka.session_timeout", "is not within 1s to 24h")
	l.tls("kafka.tls", k.TLS)
	l.oneOf("kafka.isolation", k.Isolation, "read_committed", "read_uncommitted")
	l.sasl(k.SASL, k.TLS.Enabled)
}

func (l *loader) tls(path string, t TLS) {
	if !t.Enabled {
		l.check(t == TLS{}, path+".enabled", "must be true, since other settings of TLS are set")
		return
	}
	if key, err := t.fill(&tls.Config{}); err != nil {
		l.check(false, path+"."+key, "%v", err)
	}
}

func (l *loader) rabbitMQ(r *RabbitMQ, retries bool) {
	l.check(len(r.URL) > 0 || !retries || l.source.Embedded, "rabbitmq.url", "is required unless %s is false for every stream, and none has channels", l.names.variable("retry.enabled"))
	for i, raw := range r.URL {
		u, err := url.Parse(raw)
		good := err == nil && (u.Scheme == "amqp" || u.Scheme == "amqps") && u.Hostname() != "" && (u.Port() == "" || validAddress(u.Host, 1))
		switch {
		case !good, strings.ContainsAny(u.Path+u.RawQuery+u.Fragment, "@"):
			l.refuse("rabbitmq.url", "URL %d must look like amqp://user:password@host:5672/vhost or amqps://…, with %%XX for /, ?, #, @, : and the comma in a user or password", i+1)
		case u.Scheme == "amqp" && r.TLS.Enabled:
			l.refuse("rabbitmq.url", "URL %d must begin with amqps://, since %s is true", i+1, l.names.variable("rabbitmq.tls.enabled"))
		}
	}
	l.check(len(r.VHost) <= maxVHost, "rabbitmq.vhost", "is longer than %d bytes", maxVHost)
	l.tls("rabbitmq.tls", r.TLS)
	l.check(r.ConfirmTimeout > 0, "rabbitmq.confirm_timeout", "must be above 0")
	l.check(r.ConsumerTimeout > 0, "rabbitmq.consumer_timeout", "must be above 0")
	l.check(r.MaxMessageSize >= minMessageSize, "rabbitmq.max_message_size", "must be at least %d (%d KiB), or a failed message may find no place",
		minMessageSize, minMessageSize>>10)
	l.check(r.PublishWindow > 0 && r.PublishWindow <= math.MaxInt32, "rabbitmq.publish_window", "must be above 0 and at most 2147483647")
	l.oneOf("rabbitmq.declare", r.Declare, "create", "check")
}
