package rabbit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// handshakeLimit bounds each attempt: TCP, TLS and the AMQP handshake.
	handshakeLimit = 5 * time.Second
	// frameSize is what the broker offers by default. A body may take many frames, headers only
	// one: see maxHeaders.
	frameSize = 128 << 10
)

// target is one URL of the configuration, ready to connect to.
type target struct {
	// uri has the user, password and vhost that count, those of Config before the URL's own.
	uri amqp.URI
	// host:port
	addr   string
	config amqp.Config
	tls    *tls.Config // nil: plain
	// called is Config.Setting: how errors name a setting.
	called func(key string) string
}

// targets reads the URLs. Its errors never repeat a URL, which holds a password.
func (c *Config) targets() ([]target, error) {
	if len(c.URLs) == 0 {
		return nil, fmt.Errorf("no RabbitMQ to connect to: %s is empty", c.Setting("rabbitmq.url"))
	}
	var all []target
	for i, text := range c.URLs {
		uri, err := amqp.ParseURI(text)
		if err != nil {
			var parse *url.Error
			if errors.As(err, &parse) {
				err = parse.Err
			}
			return nil, fmt.Errorf("URL %d of %s is not amqp://user:password@host:port/vhost: %w", i+1, c.Setting("rabbitmq.url"), err)
		}
		if c.TLS != nil && uri.Scheme != "amqps" {
			return nil, fmt.Errorf("URL %d of %s is amqp://, which sends everything in the clear, though %s is set: "+
				"write amqps://", i+1, c.Setting("rabbitmq.url"), c.Setting("rabbitmq.tls"))
		}
		all = append(all, c.target(uri))
	}
	return all, nil
}

func (c *Config) target(uri amqp.URI) target {
	if c.Username != "" {
		uri.Username = c.Username
	}
	if c.Password != "" {
		uri.Password = c.Password
	}
	if c.VHost != "" {
		uri.Vhost = c.VHost
	}
	t := target{uri: uri, addr: net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)), called: c.Setting}
	t.config = amqp.Config{Vhost: uri.Vhost, Heartbeat: c.Heartbeat, Locale: "en_US", FrameSize: frameSize}
	if uri.Scheme == "amqps" {
		t.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		if c.TLS != nil {
			t.tls = c.TLS.Clone()
		}
		if t.tls.ServerName == "" {
			t.tls.ServerName = uri.Host
		}
	}
	return t
}

// sasl is made anew for each connection, since the library clears the password of what it used.
func (t *target) sasl() []amqp.Authentication {
	for _, mechanism := range t.uri.AuthMechanism {
		if strings.EqualFold(mechanism, "EXTERNAL") {
			return []amqp.Authentication{&amqp.ExternalAuth{}}
		}
	}
	return []amqp.Authentication{t.uri.PlainAuth()}
}

// connect makes one AMQP connection. Its error says which setting to look at.
func (t *target) connect(ctx context.Context, name string) (*amqp.Connection, *coalescer, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	tcp, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.addr)
	if err != nil {
		return nil, nil, t.explain(err)
	}
	// Closing the TCP connection is what ends a handshake for good: the library's has no context.
	// The wire's own limit is longer: where it was over first, a broker that hangs was said to have
	// ended the handshake.
	w := newWire(tcp, 2*handshakeLimit)
	stopWatching := context.AfterFunc(ctx, func() { _ = tcp.Close() })
	conn, c, err := t.handshake(ctx, w, name)
	// The time was over as the handshake ended: the connection is closed already, or about to be.
	if !stopWatching() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = tcp.Close()
		// The coalescer has a goroutine, which ends with Close.
		if c != nil {
			_ = c.Close()
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer within %s", handshakeLimit)
		}
		return nil, nil, t.explain(err)
	}
	// The heartbeat that both sides agreed on, which may be shorter than ours.
	w.setQuiet(2 * conn.Config.Heartbeat)
	return conn, c, nil
}

// handshake speaks TLS, where the URL asks for it, and AMQP. It returns a coalescer, which the
// caller has to close, also beside an error of the AMQP handshake.
func (t *target) handshake(ctx context.Context, w *wire, name string) (*amqp.Connection, *coalescer, error) {
	var conn net.Conn = w
	if t.tls != nil {
		client := tls.Client(w, t.tls)
		if err := client.HandshakeContext(ctx); err != nil {
			return nil, nil, &tlsError{err}
		}
		conn = client
	}
	config := t.config
	config.SASL = t.sasl()
	config.Properties = amqp.NewConnectionProperties()
	config.Properties.SetClientConnectionName(name)
	// Above TLS: frames are gathered first, and encrypted together.
	c := newCoalescer(conn, w)
	opened, err := amqp.Open(c, config)
	return opened, c, err
}

// tlsError marks an error of the TLS handshake.
type tlsError struct{ error }

func (e *tlsError) Unwrap() error { return e.error }

// explain says which setting an error of connecting is about. The order of the cases counts: an
// answer that is no TLS is an error of the TLS handshake, too, and a client certificate that is
// refused under TLS 1.3 shows only at the first read, as an AMQP error that quotes TLS.
func (t *target) explain(err error) error {
	var secure *tlsError
	var record tls.RecordHeaderError
	var refused *amqp.Error
	url := t.called("rabbitmq.url")
	switch {
	case errors.As(err, &record):
		return fmt.Errorf("%s does not speak TLS: %s says amqps://: %w", t.addr, url, err)
	case errors.As(err, &secure), errors.As(err, &refused) && strings.Contains(refused.Reason, "tls: "):
		return fmt.Errorf("TLS with %s (%s, %s): %w", t.addr, t.called("rabbitmq.tls.ca_file"), t.called("rabbitmq.tls.cert_file"), err)
	// What the library makes of a bare end of the connection, at two steps of the login.
	case errors.Is(err, amqp.ErrCredentials):
		return fmt.Errorf("%s refuses user %q, or the connection was cut off at the login: is the user and password in %s right?", t.addr, t.uri.Username, url)
	case errors.Is(err, amqp.ErrVhost):
		return fmt.Errorf("%s refuses vhost %q to user %q, or the connection was cut off at the login (%s, %s)", t.addr, t.uri.Vhost, t.uri.Username, url, t.called("rabbitmq.vhost"))
	case errors.As(err, &refused) && refused.Code == amqp.AccessRefused && !strings.Contains(refused.Reason, "vhost"):
		return fmt.Errorf("%s refuses user %q: is the user and password in %s right? %w", t.addr, t.uri.Username, url, err)
	case errors.As(err, &refused) && (refused.Code == amqp.NotAllowed || refused.Code == amqp.AccessRefused):
		return fmt.Errorf("%s refuses vhost %q to user %q (%s, %s): %w", t.addr, t.uri.Vhost, t.uri.Username, url, t.called("rabbitmq.vhost"), err)
	case errors.As(err, &refused):
		return fmt.Errorf("%s ended the AMQP handshake (%s: is it an AMQP port, and is TLS, amqps://, expected there?): %w", t.addr, url, err)
	default:
		return fmt.Errorf("cannot reach %s (%s): %w", t.addr, url, err)
	}
}
