package rabbit

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
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

// Who finds a queue cannot know how old it is: another process may have made it a moment ago, and
// still waits before it uses it.
func TestWhatIsConfirmedInAQueueThatAnotherProcessHasJustMadeOutlivesAKillThatComesAtOnce(t *testing.T) {
	onOwn(t, testbroker.RabbitOptions{}, func(t *testing.T, node *testbroker.Rabbit) {
		first, n := newNames(t, ""), newNames(t, "")
		maker, _ := run(t, Config{URLs: []string{node.URL}})
		finder, _ := run(t, Config{URLs: []string{node.URL}})
		declare(t, maker, first.specs())
		declare(t, finder, first.specs())
		made := make(chan error, 1)
		go func() { made <- maker.Declare(t.Context(), n.specs()[2:]) }()
		eventually(t, 10*time.Second, "the queue is there", func() bool {
			_, err := finder.Depth(within(t, 5*time.Second), n.dead)
			return err == nil
		})
		declare(t, finder, n.specs()[2:])
		publish(t, finder, n.dead, 0, 4)
		node.Kill()
		node.Start()
		if err := <-made; err != nil {
			t.Error(err)
		}
		holds(t, finder, n.dead, 4)
	})
}

// Published before, while and after it comes of age.
func TestWhatWaitsForAYoungQueueKeepsItsOrder(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		maker, _ := run(t, Config{URLs: []string{url}})
		declare(t, maker, n.specs())
		finder, _ := run(t, Config{URLs: []string{url}})
		declare(t, finder, n.specs())
		const most = 3000
		c := newTally(most)
		p := finder.Publisher("test")
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for i := range most {
			p.Publish(t.Context(), n.dead, numbered(i), c.done)
			<-tick.C
		}
		c.wait(t, time.Minute)
		var in inbox
		stop := consume(t, finder, queue.Consumption{Queue: n.dead, Prefetch: func() int { return most }, Handle: func(ctx context.Context, d queue.Delivery) bool {
			d.Ack()
			return in.add(ctx, d)
		}})
		eventually(t, 30*time.Second, "all of them", in.has(most))
		stop()
		for i, d := range in.deliveries() {
			if want := numbered(i).ID; d.ID != want {
				t.Fatalf("message %d is %s, want %s", i, d.ID, want)
			}
		}
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
