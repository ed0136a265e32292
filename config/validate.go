package config

import (
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

	"github.com/stepwell/stepwell/internal/backoff"
)

// id is what apps and streams may be called: it becomes part of queue names.
var id = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)

// topicName is what Kafka allows.
var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

const (
	maxID       = 60
	maxDuration = 10 * 365 * 24 * time.Hour
	maxVHost    = 255 // bytes, AMQP's short string
	mostPages   = 512 // deadset.MaxPages
	// longestTrash is for how long operations are known; RabbitMQ's clock takes 49 days.
	longestTrash = 30 * 24 * time.Hour
	maxPrefetch  = 2000 // what RabbitMQ allows a quorum queue's consumer at most
	// minMessageSize has room for headers of 64 KiB, which is what may stay of a message that is
	// too large, and for what is added on its way.
	minMessageSize = 72 << 10
)

// checker says what is wrong with values that were found: each by itself, and those that do not go
// together. Where a value follows from others it fills it in.
type checker struct {
	*mistakes
	source Source
	names  names
	layers layers
	cfg    *Config
}

// refuse complains about a setting under the name it was found by, with where it came from.
func (v *checker) refuse(path, format string, args ...any) {
	s, from := v.cfg.setting(path), ""
	if s.origin != "" && s.origin != "default" {
		from = " (from " + s.origin + ")"
	}
	v.complain("%s: %s%s", v.names.variable(s.found), fmt.Sprintf(format, args...), from)
}

// check refuses a setting unless ok, with its value where that is no secret.
func (v *checker) check(ok bool, path, format string, args ...any) {
	if ok {
		return
	}
	value := ""
	if s := v.cfg.setting(path); !s.secret && s.value != "" {
		value = quote(s.value) + " "
	}
	v.refuse(path, "%s"+format, append([]any{value}, args...)...)
}

// shown is the variable of a stream's setting, as it was set; that for all streams where nobody
// did.
func (v *checker) shown(at, name string) string {
	if s := v.cfg.setting(at + name); s.origin != "default" {
		name = s.found
	}
	return v.names.variable(name)
}

// oneOf refuses a word that is none of those allowed, and lists them.
func (v *checker) oneOf(path, value string, allowed ...string) {
	v.check(slices.Contains(allowed, value), path, "is not known; known: %s", strings.Join(allowed, ", "))
}

// validate goes through all settings. It stops at nothing: a person is to see all mistakes at once.
func (v *checker) validate() {
	c := v.cfg
	v.check(c.App.Name != "", "app.name", "is required: it names queues and consumer groups")
	v.check(c.App.Name == "" || validID(c.App.Name), "app.name", "must be of a-z, 0-9, - and _, at most %d of them, and begin with a letter or digit", maxID)
	if c.Kafka.ClientID == "" {
		c.Kafka.ClientID = c.App.Name
		v.cfg.setting("kafka.client_id").value = c.App.Name
	}
	if len(v.source.ids()) == 0 {
		v.complain("no streams: register at least one in App.Streams")
	}
	v.modes()
	v.kafka(&c.Kafka)
	retries := false
	for _, id := range v.source.ids() {
		s := c.Streams[id]
		v.stream(id, &s)
		c.Streams[id] = s
		retries = retries || *s.Retry.Enabled || len(s.Channels) > 0
	}
	v.groups()
	v.rabbitMQ(&c.RabbitMQ, retries)
	v.check(c.Server.Address == "off" || validAddress(c.Server.Address, 0), "server.address", "is neither host:port nor off")
	c.Server.check(v)
	v.check(c.Server.BodyLimit > 0, "server.body_limit", "must be above 0")
	v.check(c.Server.TraceURL == "" || validTemplate(c.Server.TraceURL), "server.trace_url", "must be an http(s):// URL with {trace_id} in it, behind the host")
	v.check(c.DeadSet.WalkBytes > 0, "dead_set.walk_bytes", "must be above 0")
	v.check(c.DeadSet.Index >= 0, "dead_set.index", "must be 0 or more")
	v.oneOf("dead_set.values", c.DeadSet.Values, Viewer, Operator, "none")
	v.check(c.DeadSet.Trash >= 0 && c.DeadSet.Trash <= longestTrash && c.DeadSet.Trash%time.Second == 0, "dead_set.trash", "must be whole seconds, 0s … %dh", longestTrash/time.Hour)
	v.check(c.DeadSet.TrashPages >= 1 && c.DeadSet.TrashPages <= mostPages/2, "dead_set.trash_pages", "must be 1 … %d", mostPages/2)
	v.check(!c.DeadSet.Edit || c.DeadSet.Trash > 0, "dead_set.edit", "needs a trash, which keeps what was there before: %s must be above 0", v.names.variable("dead_set.trash"))
	v.check(!c.DeadSet.Edit || c.DeadSet.Values != "none", "dead_set.edit", "is for those who see values, and nobody does: %s must be %s or %s", v.names.variable("dead_set.values"), Viewer, Operator)
	v.check(c.DeadSet.EditLimit > 0, "dead_set.edit_limit", "must be above 0")
	v.check(c.DeadSet.Pages >= 0 && c.DeadSet.Pages <= mostPages, "dead_set.pages", "must be 0 … %d", mostPages)
	v.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	v.oneOf("log.format", c.Log.Format, "text", "json")
	v.oneOf("log.errors", c.Log.Errors, "text", "type")
	v.check(c.Shutdown.Timeout > 0, "shutdown.timeout", "must be above 0")
	v.check(c.Telemetry.DepthInterval > 0, "telemetry.depth_interval", "must be above 0")
	v.durations(fields(reflect.ValueOf(c).Elem(), ""))
}

// durations refuses what no clock can add, twice over.
func (v *checker) durations(all []field) {
	for _, f := range all {
		if d, ok := f.value.Interface().(time.Duration); ok {
			v.check(d <= maxDuration, f.path, "must be at most %s, ten years", backoff.Text(maxDuration))
		}
	}
}

// validID says whether apps, streams and channels may be called so.
func validID(s string) bool { return len(s) <= maxID && id.MatchString(s) }

// validTemplate says whether a URL is made of s by a trace's id in its place, on one host whatever
// the id.
func validTemplate(s string) bool {
	u, err := url.Parse(strings.ReplaceAll(s, "{trace_id}", "0"))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return false
	}
	before, _, found := strings.Cut(s, "{trace_id}")
	behind, ours := strings.CutPrefix(before, u.Scheme+"://"+u.Host)
	return found && ours && behind != "" && strings.Contains("/?#", behind[:1])
}

// validAddress says whether s is host:port, with a port from lowest on.
func validAddress(s string, lowest uint64) bool {
	_, port, err := net.SplitHostPort(s)
	n, bad := strconv.ParseUint(port, 10, 16)
	return err == nil && bad == nil && n >= lowest
}

// kafka checks how the cluster is reached. Brokers are not required where nothing is read, or where
// the app brings brokers of its own.
func (v *checker) kafka(k *Kafka) {
	v.check(len(k.Brokers) > 0 || v.source.Embedded || !v.cfg.readsAny() && len(v.source.ids()) > 0, "kafka.brokers", "is required: host:port of one broker or more")
	for _, b := range k.Brokers {
		if !validAddress(b, 1) || strings.HasPrefix(b, ":") {
			v.refuse("kafka.brokers", "%s is not host:port", quote(b))
		}
	}
	v.oneOf("kafka.group_protocol", k.GroupProtocol, "classic", "consumer")
	v.check(k.SessionTimeout >= time.Second && k.SessionTimeout <= 24*time.Hour, "kafka.session_timeout", "is not within 1s to 24h")
	v.check(k.GroupProtocol != "consumer" || v.cfg.setting("kafka.session_timeout").origin == "default", "kafka.session_timeout",
		"is for the classic protocol: with %s=consumer the brokers say it (group.consumer.session.timeout.ms)", v.names.variable("kafka.group_protocol"))
	v.tls("kafka.tls", k.TLS)
	v.oneOf("kafka.isolation", k.Isolation, "read_committed", "read_uncommitted")
	v.sasl(k.SASL, k.TLS.Enabled)
}

// setForBrokers warns of variables that somebody set to lead to brokers, for where the app brings
// its own: they believe that messages are there.
func (c *Config) setForBrokers() []string {
	var all []string
	for _, s := range c.settings {
		if s.origin != "default" && leadsToBroker(s.path) {
			all = append(all, c.Variable(s.path))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return []string{"set and not used, since App.Brokers stands in the place of the configured brokers: " + strings.Join(all, ", ")}
}

// leadsToBroker says whether a setting is only for connections to configured brokers. Others of
// Kafka and RabbitMQ are for all brokers, as their limits.
func leadsToBroker(path string) bool {
	const of = "rabbitmq."
	return slices.Contains([]string{"kafka.brokers", of + "url", of + "vhost", of + "username", of + "password", of + "confirm_timeout", of + "publish_window"}, path) ||
		strings.HasPrefix(path, "kafka.tls.") || strings.HasPrefix(path, "kafka.sasl.") || strings.HasPrefix(path, of+"tls.")
}

// tls checks the files by reading them: a wrong path shows at the start, not at the first
// connection.
func (v *checker) tls(path string, t TLS) {
	if !t.Enabled {
		v.check(t == TLS{}, path+".enabled", "must be true, since other settings of TLS are set")
		return
	}
	t.client(func(key string, err error) { v.check(false, path+"."+key, "%v", err) })
}

// rabbitMQ checks how RabbitMQ is reached. It is required as soon as one stream retries or has
// channels. No complaint shows a URL, which holds a password.
func (v *checker) rabbitMQ(r *RabbitMQ, retries bool) {
	why := fmt.Sprintf("unless %s is false for every stream, and none has channels", v.names.variable("retry.enabled"))
	for _, id := range v.source.ids() {
		if !v.cfg.HasTopics(id) {
			why = "by stream " + id + ", whose messages come from RabbitMQ"
		}
	}
	v.check(len(r.URL) > 0 || !retries || v.source.Embedded, "rabbitmq.url", "is required %s", why)
	for i, raw := range r.URL {
		u, err := url.Parse(raw)
		good := err == nil && (u.Scheme == "amqp" || u.Scheme == "amqps") && u.Hostname() != "" && (u.Port() == "" || validAddress(u.Host, 1))
		switch {
		case !good, strings.ContainsAny(u.Path+u.RawQuery+u.Fragment, "@"):
			v.refuse("rabbitmq.url", "URL %d must look like amqp://user:password@host:5672/vhost or amqps://…, with %%XX for /, ?, #, @, : and the comma in a user or password", i+1)
		case u.Scheme == "amqp" && r.TLS.Enabled:
			v.refuse("rabbitmq.url", "URL %d must begin with amqps://, since %s is true", i+1, v.names.variable("rabbitmq.tls.enabled"))
		}
	}
	v.check(len(r.VHost) <= maxVHost, "rabbitmq.vhost", "is longer than %d bytes", maxVHost)
	v.tls("rabbitmq.tls", r.TLS)
	v.check(r.ConfirmTimeout > 0, "rabbitmq.confirm_timeout", "must be above 0")
	v.check(r.ConsumerTimeout > 0, "rabbitmq.consumer_timeout", "must be above 0")
	v.check(r.MaxMessageSize >= minMessageSize, "rabbitmq.max_message_size", "must be at least %d (%d KiB), or a failed message may find no place",
		minMessageSize, minMessageSize>>10)
	v.check(r.PublishWindow > 0 && r.PublishWindow <= math.MaxInt32, "rabbitmq.publish_window", "must be above 0 and at most 2147483647")
	v.oneOf("rabbitmq.declare", r.Declare, "create", "check")
}
