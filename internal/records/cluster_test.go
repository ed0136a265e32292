//go:build long

package records

import (
	"testing"

	"github.com/stepwell/stepwell/internal/testbroker"
)

// Each node of a cluster has a copy, and with one of three gone a change is stored by the others.
func TestRecordsOutliveTheLossOfANodeOfTheirCluster(t *testing.T) {
	for _, version := range testbroker.Releases() {
		t.Run(version, func(t *testing.T) { outliveANode(t, version) })
	}
}

func outliveANode(t *testing.T, version string) {
	nodes := testbroker.StartRabbitCluster(t, version, 3, testbroker.RabbitOptions{})
	w := &world{Broker: connect(t, nodes[0].URL), t: t, log: "app.records"}
	one := w.ready(w.store())
	w.Broker = connect(t, nodes[1].URL)
	other := w.ready(w.store())
	w.set(one, "a", 1)
	w.is(other, "a", "1")
	nodes[0].Kill() // it made the log, and leads it
	w.set(other, "a", 2)
	w.set(other, "b", 3)
	nodes[0].Start()
	w.is(one, "a", "2")
	w.is(one, "b", "3")
	w.set(one, "a", 4)
	w.is(other, "a", "4")
}
