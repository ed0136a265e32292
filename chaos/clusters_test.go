//go:build long

package chaos

import (
	"os"
	"testing"

	"github.com/stepwell/stepwell/internal/testbroker"
)

// The actors know all nodes of both clusters, and reach them without a proxy.
func TestNothingIsLostWhenNodesOfClustersAreKilled(t *testing.T) {
	if testing.Short() {
		t.Skip(testbroker.NotRun + "actors are not killed with -short")
	}
	chosen := chosen(clusters(), os.Getenv(timeVariable) != "")
	if len(chosen) == 0 {
		t.Skip(testbroker.NotRun + "clusters are for `make chaos`")
	}
	seed := seed(t)
	t.Logf("%s=%d", seedVariable, seed)
	child := buildChild(t)
	kafka := testbroker.StartKafka(t, testbroker.KafkaOptions{Nodes: 3})
	for _, release := range releases() {
		t.Run(release, func(t *testing.T) {
			rabbits := testbroker.StartRabbitCluster(t, release, 3, testbroker.RabbitOptions{})
			s := &site{release: release, child: child, rabbit: rabbits[0], rabbits: rabbits, kafka: kafka}
			for _, c := range chosen {
				t.Run(c.name, func(t *testing.T) { s.test(t, c, choices(seed, release+c.name)) })
			}
		})
	}
}

// clusters are the faults of several nodes, of which some go on.
func clusters() []scenario {
	return []scenario{
		{name: "each of three RabbitMQ nodes is killed in its turn", fault: killEachRabbitMQ},
		{name: "the node that leads the delay queue is killed when thousands of messages expire", fault: killTheLeaderAtExpiry},
		{name: "two of three RabbitMQ nodes are killed", fault: func(r *run) { r.killRabbitMQs(2, func() {}) }},
		{name: "two of three RabbitMQ nodes are killed, and an actor while they are away", fault: func(r *run) { r.killRabbitMQs(2, r.killOne) }},
		{name: "three of three RabbitMQ nodes are killed", fault: func(r *run) { r.killRabbitMQs(3, func() {}) }},
		{name: "a RabbitMQ node and an actor are killed at once", fault: killANodeAndAnActor},
		{name: "each of three Kafka brokers is killed in its turn", fault: killEachKafka},
		{name: "the Kafka broker that coordinates the group is killed", fault: killTheCoordinator},
		{name: "two of three Kafka brokers are killed", fault: killTwoKafkas},
	}
}
