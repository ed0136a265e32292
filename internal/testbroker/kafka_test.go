package testbroker

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func TestEveryListenerOfASecureKafkaLetsInOnlyWhoMayComeIn(t *testing.T) {
	t.Parallel()
	k := StartKafka(t, KafkaOptions{Secure: true})
	roots, own := trust(t, k.Certs)
	trusting := kgo.DialTLSConfig(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
	showing := kgo.DialTLSConfig(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12})
	password := kgo.SASL(plain.Auth{User: KafkaUser, Pass: KafkaPassword}.AsMechanism())
	salted := kgo.SASL(scram.Auth{User: KafkaUser, Pass: KafkaPassword}.AsSha512Mechanism())
	salted256 := kgo.SASL(scram.Auth{User: KafkaUser, Pass: KafkaPassword}.AsSha256Mechanism())
	for _, c := range []struct {
		name     string
		listener Listener
		opts     []kgo.Opt
		in       bool
	}{
		{"plain text", Plaintext, nil, true},
		{"PLAIN with the password", Plain, []kgo.Opt{password}, true},
		{"PLAIN without one", Plain, nil, false},
		{"SCRAM-SHA-512", Scram, []kgo.Opt{salted}, true},
		{"SCRAM-SHA-256", Scram, []kgo.Opt{salted256}, true},
		{"SCRAM with PLAIN", Scram, []kgo.Opt{password}, false},
		{"TLS", TLS, []kgo.Opt{trusting}, true},
		{"TLS in plain text", TLS, nil, false},
		{"SCRAM over TLS", ScramTLS, []kgo.Opt{trusting, salted}, true},
		{"mutual TLS", MutualTLS, []kgo.Opt{showing}, true},
		{"mutual TLS without a certificate", MutualTLS, []kgo.Opt{trusting}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := ping(t, append(c.opts, kgo.SeedBrokers(k.Addr(c.listener)))...)
			if (err == nil) != c.in {
				t.Errorf("let in: %t, want %t (%v)", err == nil, c.in, err)
			}
		})
	}
}

func TestKafkaOfThreeNodesGoesOnWithoutOne(t *testing.T) {
	t.Parallel()
	k := StartKafka(t, KafkaOptions{Nodes: 3})
	write := func() {
		client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(k.Bootstrap, ",")...), kgo.AllowAutoTopicCreation())
		check(t, err)
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		check(t, client.ProduceSync(ctx, &kgo.Record{Topic: "kept", Value: []byte("x")}).FirstErr())
	}
	write()
	k.Kill(1)
	write()
	k.Restart(1)
}

func ping(t *testing.T, opts ...kgo.Opt) error {
	t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.RetryTimeout(2*time.Second))...)
	check(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return client.Ping(ctx)
}
