// Package testbroker gives tests real brokers: those that the runner of
// `make test` started for all, and private ones that a test may kill. A test
// whose broker is missing is skipped with a line that begins NOT RUN; with
// CI=true it fails.
package testbroker

import (
	"hash/fnv"
	"os"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/internal/testbroker/local"
)

// The variables through which the runner names the brokers it started.
const (
	EnvRabbitMQ = "STEPWELL_TEST_RABBITMQ" // "3.10.8=amqp://…;4.3.6=amqp://…"
	EnvKafka    = "STEPWELL_TEST_KAFKA"    // "host:port", several joined by commas
	EnvReleases = "STEPWELL_TEST_RELEASES" // "all": see Sample
)

// Releases are those of RabbitMQ that a test can start a node of.
func Releases() []string { return []string{"oldest", "newest"} }

// Sample is the one of the releases that has the test, by its name, so that each has about as many
// tests; with STEPWELL_TEST_RELEASES=all it is all of them. It is for what hardly depends on the
// release, as most of what stands above internal/rabbit.
func Sample[R any](t testing.TB, releases []R) []R {
	if len(releases) == 0 || os.Getenv(EnvReleases) == "all" {
		return releases
	}
	name := fnv.New32a()
	_, _ = name.Write([]byte(t.Name()))
	i := int(name.Sum32()>>16) % len(releases)
	return releases[i : i+1]
}

// NotRun begins the text with which a test is skipped for want of a broker.
const NotRun = "NOT RUN: "

// Node is a RabbitMQ that tests share: use names of your own for what you
// make there, and delete it again.
type Node struct {
	Version string
	URL     string
}

// RabbitMQs are the nodes a suite is to run on, one after the other: at least
// one, else the test ends here.
func RabbitMQs(t testing.TB) []Node {
	t.Helper()
	nodes := ParseNodes(os.Getenv(EnvRabbitMQ))
	if len(nodes) == 0 {
		notRun(t, "no RabbitMQ: run `make test`, or name one in "+EnvRabbitMQ+" as VERSION=URL")
	}
	return nodes
}

// Kafka is the address of the cluster that tests share, else the test ends here.
func Kafka(t testing.TB) string {
	t.Helper()
	addr := os.Getenv(EnvKafka)
	if addr == "" {
		notRun(t, "no Kafka: run `make test`, or name one in "+EnvKafka)
	}
	return addr
}

// ParseNodes reads the value of EnvRabbitMQ.
func ParseNodes(text string) []Node {
	var nodes []Node
	for part := range strings.SplitSeq(text, ";") {
		if version, url, ok := strings.Cut(part, "="); ok {
			nodes = append(nodes, Node{Version: version, URL: url})
		}
	}
	return nodes
}

// FormatNodes is what ParseNodes reads.
func FormatNodes(nodes []Node) string {
	var parts []string
	for _, n := range nodes {
		parts = append(parts, n.Version+"="+n.URL)
	}
	return strings.Join(parts, ";")
}

// Address is one that nobody else listens on until the test ends, for a process that has to be
// told where: a port that is merely free now may be the other end of somebody's connection soon.
func Address(t testing.TB) string {
	t.Helper()
	ports, err := local.TakePorts()
	check(t, err)
	t.Cleanup(func() { check(t, ports.Release()) })
	return ports.Addr(0)
}

// notRun ends the test: it was asked to run only what needs no broker, or a
// developer has none. In CI a missing broker is a failure.
func notRun(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" && !testing.Short() {
		t.Fatal(NotRun + why)
	}
	t.Skip(NotRun + why)
}
