package testbroker

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stepwell/stepwell/internal/testbroker/local"
)

// KafkaOptions say what a private cluster has beyond the defaults.
type KafkaOptions = local.KafkaOptions

// Listener is one of the ways into a private cluster.
type Listener = local.Listener

// The listeners of a cluster: all but Plaintext need KafkaOptions.Secure.
const (
	Plaintext = local.Plaintext
	Plain     = local.Plain     // SASL PLAIN without TLS
	Scram     = local.Scram     // SASL SCRAM-SHA-256 and -512 without TLS
	TLS       = local.TLS       // TLS, no client certificate
	ScramTLS  = local.ScramTLS  // SASL SCRAM-SHA-256 and -512 over TLS
	MutualTLS = local.MutualTLS // TLS, a client certificate required
)

// Who may come in at the listeners that ask for a name.
const (
	KafkaUser     = local.KafkaUser
	KafkaPassword = local.KafkaPassword
)

// Cluster is a Kafka cluster that belongs to one test. What goes wrong with
// a node itself ends the test.
type Cluster struct {
	Bootstrap string // of the plain listener
	Certs     Certs  // with KafkaOptions.Secure

	t     testing.TB
	kafka *local.Kafka
}

// StartKafka starts a cluster and ends it with the test.
func StartKafka(t testing.TB, o KafkaOptions) *Cluster {
	t.Helper()
	if testing.Short() {
		notRun(t, "a private Kafka is not started with -short")
	}
	if !local.HaveKafka() {
		notRun(t, "no Kafka to start: run `make brokers`")
	}
	o.Brief = true
	k, err := local.StartKafka(t.Context(), t.TempDir(), o)
	check(t, err)
	t.Cleanup(func() { check(t, k.Close()) })
	return &Cluster{Bootstrap: k.Bootstrap(), Certs: k.Certs, t: t, kafka: k}
}

// Addr has the addresses of one listener on all nodes, joined by commas.
func (c *Cluster) Addr(l Listener) string { return c.kafka.Addr(l) }

// Segment is the file of node n that has the first records of a partition.
func (c *Cluster) Segment(n int, topic string, partition int32) string {
	return filepath.Join(c.kafka.Dir(), fmt.Sprintf("data%d", n), fmt.Sprintf("%s-%d", topic, partition), fmt.Sprintf("%020d.log", 0))
}

// Kill ends node n, counted from 1, with SIGKILL.
func (c *Cluster) Kill(n int) { c.t.Helper(); check(c.t, c.kafka.Kill(n)) }

// Stop ends node n in order.
func (c *Cluster) Stop(n int) { c.t.Helper(); check(c.t, c.kafka.Stop(n)) }

// Freeze stops node n from running; connections to it stay open.
func (c *Cluster) Freeze(n int) { c.t.Helper(); check(c.t, c.kafka.Freeze(c.t.Context(), n)) }

// Thaw lets a frozen node go on.
func (c *Cluster) Thaw(n int) { c.t.Helper(); check(c.t, c.kafka.Thaw(n)) }

// Restart starts node n again after Kill or Stop.
func (c *Cluster) Restart(n int) { c.t.Helper(); check(c.t, c.kafka.Restart(c.t.Context(), n)) }
