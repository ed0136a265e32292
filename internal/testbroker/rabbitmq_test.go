package testbroker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestRabbitMQKeepsItsMessagesThroughAKill(t *testing.T) {
	t.Parallel()
	for _, version := range Releases() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := StartRabbitMQ(t, version, RabbitOptions{Conf: []string{"default_vhost = /"}})
			store(t, r.URL, "kept")
			// A quorum queue that is younger than about a second does not outlive
			// the kill of its only node, whatever was confirmed.
			<-time.After(2 * time.Second)
			r.Kill()
			if _, err := amqp.Dial(r.URL); err == nil {
				t.Fatal("a killed node still takes connections")
			}
			r.Restart()
			if body := fetch(t, r.URL, "kept"); body != "survivor" {
				t.Fatalf("after the kill the queue gave %q", body)
			}
			if status := r.Ctl("status"); !strings.Contains(status, r.Version) {
				t.Errorf("the node does not say that it is version %s: %s", r.Version, status)
			}
		})
	}
}

func TestRabbitMQWithClientCertificatesRefusesWhoHasNone(t *testing.T) {
	t.Parallel()
	r := StartRabbitMQ(t, "newest", RabbitOptions{ClientCerts: true})
	roots, own := trust(t, r.Certs)
	dial := func(certs ...tls.Certificate) error {
		c, err := amqp.DialTLS(r.TLSURL, &tls.Config{RootCAs: roots, Certificates: certs, MinVersion: tls.VersionTLS12})
		if err != nil {
			return err
		}
		return c.Close()
	}
	if err := dial(own); err != nil {
		t.Errorf("with our certificate: %v", err)
	}
	if err := dial(); err == nil {
		t.Error("without a certificate the node let us in")
	}
}

func TestFrozenRabbitMQAnswersOnlyOnceItIsThawed(t *testing.T) {
	t.Parallel()
	r := StartRabbitMQ(t, "newest", RabbitOptions{})
	conn, err := amqp.Dial(r.URL)
	check(t, err)
	defer func() { _ = conn.Close() }()
	r.Freeze()
	opened := make(chan error, 1)
	go func() {
		_, err := conn.Channel()
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("a frozen node answered: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	r.Thaw()
	check(t, <-opened)
}

// store puts one message into a quorum queue and waits for its confirm.
func store(t *testing.T, url, queue string) {
	t.Helper()
	conn, err := amqp.Dial(url)
	check(t, err)
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	check(t, err)
	check(t, ch.Confirm(false))
	_, err = ch.QueueDeclare(queue, true, false, false, false, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum})
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	sent, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("survivor")})
	check(t, err)
	if ok, err := sent.WaitContext(ctx); err != nil || !ok {
		t.Fatalf("the message was not confirmed: %v", err)
	}
}

// fetch takes one message; a queue's depth is no help, since it is counted
// anew only seconds after a start.
func fetch(t *testing.T, url, queue string) string {
	t.Helper()
	body, err := get(url, queue)
	check(t, err)
	return body
}

func trust(t *testing.T, c Certs) (*x509.CertPool, tls.Certificate) {
	t.Helper()
	ca, err := os.ReadFile(c.CA)
	check(t, err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		t.Fatal("the CA's file has no certificate")
	}
	own, err := tls.LoadX509KeyPair(c.ClientCert, c.ClientKey)
	check(t, err)
	return roots, own
}

func get(url, queue string) (string, error) {
	conn, err := amqp.Dial(url)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		return "", err
	}
	m, _, err := ch.Get(queue, true)
	return string(m.Body), err
}
