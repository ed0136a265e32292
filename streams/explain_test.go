package streams

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/internal/login"
)

func TestWhyAClientDoesNotGetInNamesTheSettingThatIsWrong(t *testing.T) {
	t.Parallel()
	sasl, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL())
	if err != nil {
		t.Fatal(err)
	}
	defer sasl.Close()
	for name, test := range map[string]struct {
		opts []kgo.Opt
		says string
	}{
		"a port of RabbitMQ's":                    {[]kgo.Opt{kgo.SeedBrokers(greeting(t, "AMQP\x00\x00\x09\x01"))}, "is it a port of kafka's, see kafka.brokers: "},
		"a port of HTTP":                          {[]kgo.Opt{kgo.SeedBrokers(greeting(t, "HTTP/1.1 400 Bad Request\r\n\r\n"))}, "is it a port of kafka's, see kafka.brokers: "},
		"no login where there must be one":        {[]kgo.Opt{kgo.SeedBrokers(sasl.ListenAddrs()...)}, "see kafka.tls.enabled, kafka.sasl.mechanism: "},
		"a port that takes what is sent and ends": {[]kgo.Opt{kgo.SeedBrokers(greeting(t, ""))}, "see kafka.tls.enabled, kafka.sasl.mechanism: "},
	} {
		client, err := kgo.NewClient(append(test.opts, kgo.RequestRetries(1))...)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		why := Explain(byKey, client, Ping(ctx, client))
		cancel()
		client.Close()
		if text := why.Error(); !strings.Contains(text, test.says) || strings.Contains(text, "cannot be reached") {
			t.Errorf("%s: %s, want %s", name, text, test.says)
		}
	}
}

func TestWithoutATokenTheSettingIsNamedThatSaysWhereItComesFrom(t *testing.T) {
	t.Parallel()
	none := httptest.NewServer(http.NotFoundHandler())
	defer none.Close()
	hangsUp := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer hangsUp.Close()
	for _, from := range []login.OAuth{{File: filepath.Join(t.TempDir(), "none")}, {URL: none.URL}, {URL: hangsUp.URL}} {
		client, err := kgo.NewClient(kgo.SASL(from.Mechanism()))
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = from.Mechanism().Authenticate(t.Context(), "kafka:9092")
		const want = "no credentials to log in to kafka with, see kafka.sasl.oauth.token_file or kafka.sasl.oauth.token_url: token for kafka: "
		if text := Explain(byKey, client, err).Error(); !strings.HasPrefix(text, want) {
			t.Errorf("%s, want %s", text, want)
		}
		client.Close()
	}
}

// A broker that was well may send an answer that is too large, or go away: no setting is wrong.
func TestABrokerThatWasWellIsNotTakenForAnotherServer(t *testing.T) {
	t.Parallel()
	s := newStatus(Config{Stream: "orders", Setting: byKey, Logger: slog.New(slog.DiscardHandler)})
	s.reached(nil, nil)
	for _, text := range []string{"invalid large response size 1095586128 > limit 104857600", "the broker connection has died and the request will be retried on a new connection"} {
		if err := s.explain(topicPartition{}, told(text)); err.Error() != text {
			t.Errorf("%v", err)
		}
	}
}

// told is an error that says that.
type told string

func (e told) Error() string { return string(e) }

// greeting is the address of a server that answers whatever is sent with the same, and hangs up.
func greeting(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, text)
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}
