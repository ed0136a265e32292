package streams

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/internal/testbroker"
)

func TestWhyTheClusterLetsNobodyInIsNamedInTheStatus(t *testing.T) {
	t.Parallel()
	k := testbroker.StartKafka(t, testbroker.KafkaOptions{Secure: true})
	for name, c := range map[string]struct {
		listener testbroker.Listener
		opt      kgo.Opt
		words    []string
	}{
		"a wrong password": {testbroker.Plain,
			kgo.SASL(plain.Auth{User: testbroker.KafkaUser, Pass: "tell-nobody"}.AsMechanism()), []string{"kafka.sasl.password"}},
		"a wrong SCRAM password": {testbroker.Scram,
			kgo.SASL(scram.Auth{User: testbroker.KafkaUser, Pass: "tell-nobody"}.AsSha512Mechanism()), []string{"kafka.sasl.password"}},
		"another mechanism": {testbroker.Scram,
			kgo.SASL(plain.Auth{User: testbroker.KafkaUser, Pass: "tell-nobody"}.AsMechanism()), []string{"kafka.sasl.mechanism"}},
		"no login":              {testbroker.Plain, kgo.ClientID("c"), []string{"kafka.sasl.mechanism"}},
		"no TLS":                {testbroker.TLS, kgo.ClientID("c"), []string{"kafka.tls.enabled"}},
		"TLS at a port without": {testbroker.Plaintext, kgo.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12}), []string{"port without TLS", "kafka.tls.enabled"}},
		"a name of another":     {testbroker.TLS, kgo.DialTLSConfig(trusting(t, k.Certs.CA, "elsewhere.example")), []string{"kafka.tls.server_name"}},
		"an unknown authority":  {testbroker.TLS, kgo.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12}), []string{"kafka.tls.ca_file"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := (&world{t: t}).run(Config{
				Stream: "orders", Group: Group{ID: "g"}, Topics: []string{"t"},
				Kafka: Kafka{Options: []kgo.Opt{kgo.SeedBrokers(k.Addr(c.listener)), c.opt}},
			}, newJournal().settleAll)
			r.says(c.words...)
			if strings.Contains(r.Status().Err, "tell-nobody") {
				t.Error("it tells the password")
			}
			if err := r.end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// trusting is TLS with an authority of a file, and a name that the server must have.
func trusting(t *testing.T, file, name string) *tls.Config {
	t.Helper()
	pem, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: name}
}

func TestABrokerThatIsKilledIsWaitedForAndNothingIsLost(t *testing.T) {
	t.Parallel()
	k := testbroker.StartKafka(t, testbroker.KafkaOptions{})
	w := newWorld(t, 3, []string{k.Bootstrap})
	l := newAudit()
	var log logbook
	cfg := w.config()
	cfg.Logger = log.logger()
	r := w.run(cfg, func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		l.call(m)
		l.settle(m)
		return task.Settled
	})
	for p := range int32(3) {
		w.produce(p, 1000)
	}
	eventually(t, "the first 3000", func() bool { return l.count() == 3000 })
	k.Kill(1)
	within(t, 20*time.Second, "the status tells", func() bool { return r.Status().Err != "" })
	t.Log(r.Status().Err)
	k.Restart(1)
	log.hasEnds(t)
	w.goesOn(r, l)
	if log.count("kafka.tls") > 0 {
		t.Errorf("logged:\n%s", &log.text)
	}
}

func TestABrokerThatHangsIsWaitedForAndNothingIsLost(t *testing.T) {
	t.Parallel()
	k := testbroker.StartKafka(t, testbroker.KafkaOptions{})
	w := newWorld(t, 3, []string{k.Bootstrap})
	l := newAudit()
	cfg := w.config()
	cfg.Group.SessionTimeout, cfg.Group.HeartbeatInterval = 6*time.Second, time.Second
	var log logbook
	cfg.Logger = log.logger()
	r := w.run(cfg, func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		l.call(m)
		l.settle(m)
		return task.Settled
	})
	for p := range int32(3) {
		w.produce(p, 1000)
	}
	eventually(t, "the first records", func() bool { return l.count() > 0 })
	k.Freeze(1) // perhaps with commits and fetches under way
	within(t, 30*time.Second, "the status tells", func() bool { return r.Status().Err != "" })
	t.Log(r.Status().Err)
	k.Thaw(1)
	log.hasEnds(t)
	w.goesOn(r, l)
}

// goesOn produces the second thousand of each partition, and waits until all is handled and the
// reader well, and ended.
func (w *world) goesOn(r *running, l *audit) {
	t := w.t
	t.Helper()
	for p := range int32(3) {
		w.produce(p, 1000)
	}
	began := time.Now()
	eventually(t, "all", func() bool { return l.count() == 6000 })
	t.Log("went on after", time.Since(began), "repeats:", l.repeats)
	eventually(t, "all is well", func() bool { return r.Status().Err == "" && r.Status().Joined })
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if err := l.check(w.committed()); err != nil {
		t.Error(err)
	}
	for p, at := range w.committed() {
		if at != 2000 {
			t.Errorf("partition %d is committed at %d", p, at)
		}
	}
}
