package testbroker

import (
	"testing"

	"github.com/stepwell/stepwell/internal/testbroker/local"
)

// StartRabbitCluster starts so many nodes, of the "oldest" or the "newest" RabbitMQ there is, as
// one cluster, and ends them with the test.
func StartRabbitCluster(t testing.TB, version string, nodes int, o RabbitOptions) []*Rabbit {
	t.Helper()
	members, err := local.StartRabbitCluster(t.Context(), findRabbit(t, version), t.TempDir(), nodes, o)
	check(t, err)
	t.Cleanup(func() { check(t, local.CloseRabbits(members)) })
	var all []*Rabbit
	for _, node := range members {
		all = append(all, newRabbit(t, node))
	}
	return all
}

// StartTogether starts nodes after Kill or Stop, all at once: when the whole cluster was down, one
// waits for the others.
func StartTogether(nodes ...*Rabbit) {
	if len(nodes) == 0 {
		return
	}
	t := nodes[0].t
	t.Helper()
	var all []*local.Rabbit
	for _, r := range nodes {
		all = append(all, r.node)
	}
	check(t, local.StartRabbits(t.Context(), all))
}
