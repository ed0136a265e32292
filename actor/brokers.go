package actor

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/internal/login"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/rabbit"
)

// configured are the brokers that the configuration names.
type configured struct {
	kafka  []kgo.Opt
	unset  string         // the setting of Kafka's brokers, where it has no value
	queues *rabbit.Broker // nil where none are configured
	// needed: some stream retries. Else RabbitMQ is asked for what is left from before, and may be
	// whatever it likes.
	needed bool
	log    *slog.Logger
}

// newConfigured makes the clients that the configuration names, and connects nowhere. Without
// retries RabbitMQ is used only where it is named.
func newConfigured(cfg *config.Config, retries bool, log *slog.Logger) (*configured, error) {
	opts, err := kafkaOptions(cfg)
	unset := ""
	if len(cfg.Kafka.Brokers) == 0 {
		unset = cfg.Variable("kafka.brokers")
	}
	if err != nil || !retries && len(cfg.RabbitMQ.URL) == 0 {
		return &configured{kafka: opts, unset: unset}, err
	}
	tls, err := cfg.RabbitMQ.TLS.Client()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Variable("rabbitmq.tls"), err)
	}
	r := cfg.RabbitMQ
	return &configured{kafka: opts, unset: unset, needed: retries, log: log, queues: rabbit.New(rabbit.Config{
		URLs: r.URL, VHost: r.VHost, Username: r.Username, Password: r.Password, TLS: tls,
		ConfirmTimeout: r.ConfirmTimeout, ConsumerTimeout: r.ConsumerTimeout,
		MaxMessageSize: r.MaxMessageSize, PublishWindow: r.PublishWindow,
		DeclareOnlyCheck: r.Declare == "check",
		ConnectionName:   cfg.App.Name,
		Setting:          cfg.Variable,
		Logger:           log,
	})}, nil
}

// kafkaOptions are the options that lead a client to the cluster and let it in.
func kafkaOptions(cfg *config.Config) ([]kgo.Opt, error) {
	k := cfg.Kafka
	opts := []kgo.Opt{kgo.SeedBrokers(k.Brokers...)}
	tls, err := k.TLS.Client()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Variable("kafka.tls"), err)
	}
	if tls != nil {
		opts = append(opts, kgo.DialTLSConfig(tls))
	}
	mechanism, err := mechanism(k.SASL)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Variable("kafka.sasl.mechanism"), err)
	}
	if mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts, nil
}

// mechanism is how to log in; nil: not at all.
func mechanism(s config.SASL) (sasl.Mechanism, error) {
	switch s.Mechanism {
	case "":
		return nil, nil
	case "PLAIN":
		return plain.Auth{User: s.Username, Pass: s.Password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: s.Username, Pass: s.Password}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: s.Username, Pass: s.Password}.AsSha512Mechanism(), nil
	case "AWS_MSK_IAM":
		return login.AWS(os.Getenv), nil
	case "OAUTHBEARER":
		o := s.OAuth
		extensions := map[string]string{}
		for _, e := range o.Extensions {
			name, value, _ := strings.Cut(e, "=")
			extensions[name] = value
		}
		return login.OAuth{
			File: o.TokenFile, URL: o.TokenURL, ClientID: o.ClientID, ClientSecret: o.ClientSecret,
			Scopes: strings.Fields(o.Scope), Extensions: extensions,
		}.Mechanism(), nil
	}
	return nil, fmt.Errorf("unknown mechanism %q", s.Mechanism)
}

// noticeOf is what a user must know about brokers that are not the configured ones, on one line;
// empty: they are.
func noticeOf(a *Actor) string {
	if a.app.Brokers == nil {
		return ""
	}
	return fmt.Sprintf("%s; %s and %s are not used", cmp.Or(a.brokers.Notice(), "App.Brokers is set"), a.cfg.Variable("kafka.brokers"), a.cfg.Variable("rabbitmq.url"))
}

// foundBy says by what a broker is found: the setting, where it is a configured one.
func foundBy(a *Actor, key string) string {
	if a.app.Brokers != nil {
		return "App.Brokers"
	}
	return a.cfg.Variable(key)
}

// settingOf is how errors about topics call a setting. Topics of embedded brokers are made by their
// options, or when something is first written to them: reading makes none.
func settingOf(a *Actor, key string) string {
	name := a.cfg.Variable(key)
	if a.app.Brokers != nil && (strings.HasSuffix(key, ".topics") || strings.HasSuffix(key, ".topic_pattern")) {
		name += ", and embedded.Options.Topics where App.Brokers is embedded"
	}
	return name
}

// Run owns the connections to RabbitMQ.
func (c *configured) Run(ctx context.Context) error {
	if c.queues == nil {
		<-ctx.Done()
		return nil
	}
	err := c.queues.Run(ctx)
	// Without retries no message depends on RabbitMQ: its trouble must not end the actor.
	if err != nil && !c.needed {
		c.log.Warn("RabbitMQ cannot be asked for what waits there from before retries were off", "error", err)
		<-ctx.Done()
		return nil
	}
	return err
}

// Kafka returns the options at once: each reader connects by itself. It is an error where nobody
// has said where Kafka is, since nothing here reads it.
func (c *configured) Kafka(context.Context) ([]kgo.Opt, error) {
	if c.unset != "" {
		return nil, fmt.Errorf("%s is not set, and this process reads no stream", c.unset)
	}
	return c.kafka, nil
}

// Queues returns RabbitMQ, or nil where none is configured.
func (c *configured) Queues() queue.Broker {
	// An interface with a nil pointer in it would not be nil.
	if c.queues == nil {
		return nil
	}
	return c.queues
}

// Notice is empty.
func (c *configured) Notice() string { return "" }
