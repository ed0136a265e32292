package rabbit

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"time"
)

// Config says how to reach RabbitMQ and how to use it. A zero value means the default that its
// comment names.
type Config struct {
	// URLs are tried in turn, amqp:// or amqps://.
	URLs []string
	// VHost, Username and Password take the place of what the URLs say, where they are not empty.
	VHost, Username, Password string
	// TLS is for amqps:// URLs, and refuses others; the name of the server comes from the URL
	// unless it is set here.
	TLS *tls.Config
	// ConfirmTimeout is how long a confirm may take, not counting alarms, before the session is
	// given up; 60 s.
	ConfirmTimeout time.Duration
	// BindInterval is how often queues are bound again to the exchanges that they have; 60 s.
	BindInterval time.Duration
	// ConsumerTimeout is what the broker is set to; it is named in the log when a consumer is lost
	// to it; 30 min.
	ConsumerTimeout time.Duration
	// MaxMessageSize is the largest body with headers, in bytes, that is sent; 16 MiB.
	MaxMessageSize int
	// PublishWindow is how many messages of a publisher may wait for their confirms; 1000.
	PublishWindow int
	// DeclareOnlyCheck makes Declare create no queue, only compare the arguments of those that are
	// there.
	DeclareOnlyCheck bool
	// ConnectionName is shown in RabbitMQ's list of connections; "stepwell".
	ConnectionName string
	// Heartbeat is offered to the broker, whole seconds; after twice as long without a byte a
	// connection is given up; 10 s.
	Heartbeat time.Duration
	// BackoffMin and BackoffMax bound the waits before another attempt; 100 ms and 3 s.
	BackoffMin, BackoffMax time.Duration
	// LeaseWait is how long a lease waits for a broker that is away, and who is to publish for one
	// that takes nothing; neither waits for one that has been away for as long; 10 s.
	LeaseWait time.Duration
	// Setting is how users call a setting, by its key, say "rabbitmq.url"; nil: by that.
	Setting func(key string) string
	// Logger is told what is waited for and what was put right; nil: nobody is.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.ConfirmTimeout = cmp.Or(c.ConfirmTimeout, time.Minute)
	c.BindInterval = cmp.Or(c.BindInterval, time.Minute)
	c.ConsumerTimeout = cmp.Or(c.ConsumerTimeout, 30*time.Minute)
	c.MaxMessageSize = cmp.Or(c.MaxMessageSize, 16<<20)
	c.PublishWindow = cmp.Or(c.PublishWindow, 1000)
	c.ConnectionName = cmp.Or(c.ConnectionName, "stepwell")
	c.Heartbeat = cmp.Or(c.Heartbeat, 10*time.Second)
	c.BackoffMin = cmp.Or(c.BackoffMin, 100*time.Millisecond)
	c.BackoffMax = cmp.Or(c.BackoffMax, 3*time.Second)
	c.LeaseWait = cmp.Or(c.LeaseWait, 10*time.Second)
	if c.Setting == nil {
		c.Setting = func(key string) string { return key }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
