//go:build long

package chaos

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/stepwell/stepwell/internal/testbroker"
)

// rest lets a node that came back take part again, before another one goes: else a fault would be
// one of two nodes.
func (r *run) rest() { r.pause(4*time.Second + time.Duration(r.random.Int64N(int64(2*time.Second)))) }

func killEachRabbitMQ(r *run) {
	for _, n := range r.random.Perm(len(r.rabbits)) {
		r.rabbits[n].Kill()
		r.sometime(4 * time.Second)
		r.rabbits[n].Start()
		r.rest()
	}
}

// killTheLeaderAtExpiry has many messages moved from the delay queue when the node dies that moves
// them.
func killTheLeaderAtExpiry(r *run) {
	for range 3 {
		leader := r.leader(r.queue(r.delayed()))
		r.load.burst(2000)
		r.pause(r.delay() + time.Duration(r.random.Int64N(int64(300*time.Millisecond))))
		leader.Kill()
		r.sometime(3 * time.Second)
		leader.Start()
		r.rest()
	}
}

// leader is the node that leads a queue.
func (r *run) leader(queue string) *testbroker.Rabbit {
	r.t.Helper()
	for line := range strings.Lines(r.rabbit.Ctl("-q", "list_queues", "name", "leader")) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == queue {
			for _, node := range r.rabbits {
				if node.Name() == fields[1] {
					return node
				}
			}
		}
	}
	r.t.Fatalf("nobody leads %s", queue)
	return nil
}

// killRabbitMQs takes so many nodes away at once, for longer than a confirm may take, and does
// something in the middle of that. The one that leads the delay queue is among them: a leader that
// is left alone still writes down what it gets, and would have it later.
func (r *run) killRabbitMQs(n int, do func()) {
	killed := []*testbroker.Rabbit{r.leader(r.queue(r.delayed()))}
	for _, i := range r.random.Perm(len(r.rabbits)) {
		if len(killed) < n && r.rabbits[i] != killed[0] {
			killed = append(killed, r.rabbits[i])
		}
	}
	for _, node := range killed {
		node.Kill()
	}
	r.pause(3 * time.Second)
	do()
	r.pause(3 * time.Second)
	testbroker.StartTogether(killed...)
}

func killANodeAndAnActor(r *run) {
	node := r.rabbits[r.random.IntN(len(r.rabbits))]
	node.Kill()
	r.killOne()
	r.sometime(3 * time.Second)
	node.Start()
}

// The brokers of the Kafka cluster, as they are numbered.
const kafkas3 = 3

func killEachKafka(r *run) {
	for _, n := range r.random.Perm(kafkas3) {
		r.killBroker(n + 1)
	}
}

func killTheCoordinator(r *run) {
	for range 2 {
		ctx, cancel := r.shortly()
		found := kadm.NewClient(r.client).FindGroupCoordinators(ctx, r.app+".orders")[r.app+".orders"]
		cancel()
		r.check(found.Err)
		r.killBroker(int(found.NodeID))
	}
}

func (r *run) killBroker(n int) {
	r.kafka.Kill(n)
	r.sometime(6 * time.Second)
	r.kafka.Restart(n)
	r.pause(5 * time.Second) // until it has what it missed
}

func killTwoKafkas(r *run) {
	gone := r.random.Perm(kafkas3)[:2]
	for _, n := range gone {
		r.kafka.Kill(n + 1)
	}
	r.pause(8 * time.Second)
	for _, n := range gone {
		r.kafka.Restart(n + 1)
	}
}
