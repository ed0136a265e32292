package local

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Who may come in at the listeners that ask for a name.
const (
	KafkaUser     = "actor"
	KafkaPassword = "actor-secret"
)

// Listener is one of the ways into a Kafka cluster.
type Listener int

// The listeners. All but Plaintext exist only in a secure cluster.
const (
	Plaintext Listener = iota + 1
	Plain              // SASL PLAIN without TLS
	Scram              // SASL SCRAM-SHA-256 and -512 without TLS
	TLS                // TLS, no client certificate
	ScramTLS           // SASL SCRAM-SHA-256 and -512 over TLS
	MutualTLS          // TLS, a client certificate signed by Certs.CA required
)

const controllerPort = 0

// port is the listener's port within the block of its node; 0 is the controller's.
func (l Listener) port() int { return int(l) }

// protocol is the listener's name in Kafka's properties and its protocol.
func (l Listener) protocol() (name, protocol string) {
	switch l {
	case Plain:
		return "PLAIN", "SASL_PLAINTEXT"
	case Scram:
		return "SCRAM", "SASL_PLAINTEXT"
	case TLS:
		return "TLS", "SSL"
	case ScramTLS:
		return "SCRAMTLS", "SASL_SSL"
	case MutualTLS:
		return "MTLS", "SSL"
	default:
		return "PLAINTEXT", "PLAINTEXT"
	}
}

// listeners are those that the cluster has.
func (k *Kafka) listeners() []Listener {
	if !k.secure {
		return []Listener{Plaintext}
	}
	return []Listener{Plaintext, Plain, Scram, TLS, ScramTLS, MutualTLS}
}

// Only warnings go to the log, which is read when a test fails.
const logging = `rootLogger.level=WARN
rootLogger.appenderRef.c.ref=C
appender.c.type=Console
appender.c.name=C
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=[%d] %p %m (%c)%n
`

// small makes a cluster quick to start and small: few internal partitions,
// groups that do not wait for more members.
const small = `process.roles=broker,controller
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
group.consumer.min.session.timeout.ms=6000
group.consumer.session.timeout.ms=6000
group.consumer.min.heartbeat.interval.ms=500
group.consumer.heartbeat.interval.ms=2000
group.consumer.regex.refresh.interval.ms=10000
broker.session.timeout.ms=6000
`

// properties are those of node n. From three nodes on topics have three copies, two of which have
// to be written, as in a cluster that must survive the loss of a node.
func (k *Kafka) properties(n int, extra []string) string {
	ports := k.ports[n-1]
	var open, protocols, voters []string
	for _, l := range k.listeners() {
		name, protocol := l.protocol()
		open = append(open, name+"://"+ports.Addr(l.port()))
		protocols = append(protocols, name+":"+protocol)
	}
	for i, p := range k.ports {
		voters = append(voters, fmt.Sprintf("%d@%s", i+1, p.Addr(controllerPort)))
	}
	copies, inSync := 1, 1
	if len(k.ports) >= 3 {
		copies, inSync = 3, 2
	}
	var b strings.Builder
	b.WriteString(small)
	fmt.Fprintf(&b, "node.id=%d\nlog.dirs=%s\n", n, filepath.Join(k.dir, fmt.Sprintf("data%d", n)))
	fmt.Fprintf(&b, "listeners=%s,CONTROLLER://%s\n", strings.Join(open, ","), ports.Addr(controllerPort))
	fmt.Fprintf(&b, "advertised.listeners=%s\n", strings.Join(open, ","))
	fmt.Fprintf(&b, "listener.security.protocol.map=%s,CONTROLLER:PLAINTEXT\n", strings.Join(protocols, ","))
	fmt.Fprintf(&b, "controller.quorum.voters=%s\n", strings.Join(voters, ","))
	for _, key := range []string{"default.replication.factor", "offsets.topic.replication.factor", "transaction.state.log.replication.factor", "share.coordinator.state.topic.replication.factor"} {
		fmt.Fprintf(&b, "%s=%d\n", key, copies)
	}
	for _, key := range []string{"min.insync.replicas", "transaction.state.log.min.isr", "share.coordinator.state.topic.min.isr"} {
		fmt.Fprintf(&b, "%s=%d\n", key, inSync)
	}
	if k.secure {
		b.WriteString(k.security())
	}
	b.WriteString(strings.Join(extra, "\n") + "\n")
	return b.String()
}

// security has what the listeners with a name or TLS need beside the plain ones.
func (k *Kafka) security() string {
	lines := []string{
		"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"listener.name.plain.sasl.enabled.mechanisms=PLAIN",
		`listener.name.plain.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_` + KafkaUser + `="` + KafkaPassword + `";`,
		"ssl.keystore.type=PEM", "ssl.keystore.location=" + k.keyStore(),
		"ssl.truststore.type=PEM", "ssl.truststore.location=" + k.Certs.CA,
		"listener.name.mtls.ssl.client.auth=required",
	}
	for _, listener := range []string{"scram", "scramtls"} {
		lines = append(lines, "listener.name."+listener+".sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512")
		for _, mechanism := range []string{"scram-sha-256", "scram-sha-512"} {
			lines = append(lines, "listener.name."+listener+"."+mechanism+".sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;")
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

func (k *Kafka) keyStore() string { return filepath.Join(k.dir, "certs", "server-store.pem") }

// keyStore writes the one file that Kafka wants: the key, then its certificate.
func keyStore(file string, c Certs) error {
	var b bytes.Buffer
	for _, part := range []string{c.ServerKey, c.ServerCert} {
		text, err := os.ReadFile(part)
		if err != nil {
			return fmt.Errorf("make Kafka's key store: %w", err)
		}
		b.Write(text)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		return fmt.Errorf("make Kafka's key store: %w", err)
	}
	return nil
}
