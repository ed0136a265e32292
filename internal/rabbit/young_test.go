package rabbit

import (
	"fmt"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/testbroker"
)

// A single node that is killed forgets a quorum queue younger than about a second, with all that
// was confirmed in it.
func TestWhatIsConfirmedInNewQueuesOutlivesAKillThatComesAtOnce(t *testing.T) {
	onOwn(t, testbroker.RabbitOptions{}, func(t *testing.T, node *testbroker.Rabbit) {
		first, n := newNames(t, ""), newNames(t, "")
		b, _ := run(t, Config{URLs: []string{node.URL}})
		declare(t, b, first.specs())
		publish(t, b, first.dead, 0, 1)
		declare(t, b, n.specs()[2:]) // one alone: to make another would have the broker store it
		publish(t, b, n.dead, 0, 4)
		node.Kill()
		node.Start()
		holds(t, b, first.dead, 1)
		holds(t, b, n.dead, 4)
	})
}

func TestWhatIsConfirmedInAQueueMadeAnewOutlivesAKillThatComesAtOnce(t *testing.T) {
	onOwn(t, testbroker.RabbitOptions{}, func(t *testing.T, node *testbroker.Rabbit) {
		n := newNames(t, "")
		b, _ := run(t, Config{URLs: []string{node.URL}})
		declare(t, b, n.specs())
		publish(t, b, n.dead, 0, 1)
		deleteQueue(t, node.URL, n.dead)
		publish(t, b, n.dead, 1, 6) // comes back, has the queue declared, and waits
		node.Kill()
		node.Start()
		holds(t, b, n.dead, 5)
	})
}

// holds waits until the queue has what it should: one that the broker forgot is declared again, and
// stays empty.
func holds(t *testing.T, b *Broker, name string, want int) {
	t.Helper()
	eventually(t, 30*time.Second, fmt.Sprintf("%s to have the %d messages that were confirmed", name, want), func() bool {
		depth, err := b.Depth(within(t, 15*time.Second), name)
		return err == nil && depth == want // a node that comes back may answer before it has read what it kept
	})
}
