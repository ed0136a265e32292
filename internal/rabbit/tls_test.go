package rabbit

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/testbroker"
)

// trusting is a TLS configuration for the certificates' authority, with the client's own when it
// has one.
func trusting(t *testing.T, c testbroker.Certs, own bool) *tls.Config {
	t.Helper()
	pem, err := os.ReadFile(c.CA)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(pem)
	if own {
		cert, err := tls.LoadX509KeyPair(c.ClientCert, c.ClientKey)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	return config
}

func TestTLSConnectsOnlyToWhomItTrustsAndWhoTrustsIt(t *testing.T) {
	t.Parallel()
	node := testbroker.StartRabbitMQ(t, "newest", testbroker.RabbitOptions{ClientCerts: true})
	for what, c := range map[string]struct {
		tls  *tls.Config
		says string
	}{
		"both trust":       {trusting(t, node.Certs, true), "RabbitMQ"},
		"unknown server":   {nil, "rabbitmq.tls.ca_file"},
		"no certificate":   {trusting(t, node.Certs, false), "rabbitmq.tls"},
		"other authority":  {trusting(t, testbroker.NewCerts(t), true), "rabbitmq.tls.ca_file"},
		"plain, not amqps": {nil, "amqps://"},
	} {
		t.Run(what, func(t *testing.T) {
			url := node.TLSURL
			if c.says == "amqps://" {
				url = strings.Replace(url, "amqps", "amqp", 1)
			}
			b, _ := run(t, Config{URLs: []string{url}, TLS: c.tls})
			eventually(t, 15*time.Second, c.says, func() bool { return strings.Contains(b.Status().Detail, c.says) })
			if up := b.Status().Up; up != (what == "both trust") {
				t.Errorf("status: %+v", b.Status())
			}
			t.Log(b.Status().Detail)
		})
	}
}
