package rabbit

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/testbroker"
)

// leader has the process of a quorum queue that orders its messages be suspended, or resumed: it
// confirms nothing, while the node, the connection and all other queues go on.
func leader(node *testbroker.Rabbit, what, queue string) {
	node.Ctl("eval", fmt.Sprintf(`ok = sys:%s(whereis(list_to_atom("%%2F_%s"))).`, what, queue))
}

func TestAQueueThatConfirmsNothingHoldsUpNoOther(t *testing.T) {
	onOwn(t, testbroker.RabbitOptions{}, func(t *testing.T, node *testbroker.Rabbit) {
		b, _ := run(t, Config{URLs: []string{node.URL}, ConfirmTimeout: time.Second})
		silent, well := newNames(t, ""), newNames(t, "")
		declare(t, b, append(silent.specs(), well.specs()...))
		p := b.Publisher("test")
		first := newTally(1)
		p.Publish(t.Context(), silent.instant, numbered(0), first.done)
		first.wait(t, 10*time.Second)

		leader(node, "suspend", silent.instant)
		const held = 300
		waits := newTally(held)
		for i := range held {
			p.Publish(t.Context(), silent.instant, numbered(1+i), waits.done)
		}
		// The channel that met the silence is given up, at most with its connection. From then on
		// messages to the other queue wait for nothing, whatever is published to the silent one.
		one := newTally(1)
		p.Publish(t.Context(), well.instant, numbered(0), one.done)
		one.wait(t, 30*time.Second)
		session, _ := b.publish.current()
		var slowest time.Duration
		more := newTally(100)
		for i := range 100 {
			p.Publish(t.Context(), silent.instant, numbered(1+held+i), more.done)
			c, since := newTally(1), time.Now()
			p.Publish(t.Context(), well.instant, numbered(1+i), c.done)
			c.wait(t, 10*time.Second)
			slowest = max(slowest, time.Since(since))
			time.Sleep(60 * time.Millisecond) // for six confirm time-outs in all: the queue is asked anew meanwhile
		}
		if slowest > time.Second {
			t.Errorf("a message to a queue that is well waited %s for its confirm", slowest)
		}
		if now, _ := b.publish.current(); now != session {
			t.Error("the connection was given up")
		}
		if n := waits.told() + more.told(); n > 0 {
			t.Errorf("%d messages to the silent queue were told to be stored", n)
		}
		leader(node, "resume", silent.instant)
		waits.wait(t, 30*time.Second)
		more.wait(t, 30*time.Second)
		if n := len(ids(t, node.URL, silent.instant)); n != 1+held+100 {
			t.Errorf("%d messages are in the queue that was silent, of %d that were told to be", n, 1+held+100)
		}
		if what := b.Status().Detail; strings.Contains(what, silent.instant) {
			t.Errorf("the queue is well, and it says %q", what)
		}
	})
}

func TestAQueueWhoseConfirmIsLostIsAskedAnew(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		var steals atomic.Bool
		var stolen atomic.Int64
		const basic, ack = 60, 80
		proxy := newThief(t, url, func(class, method uint16) bool {
			gone := steals.Load() && class == basic && method == ack
			if gone {
				stolen.Add(1)
			}
			return gone
		})
		b, _ := run(t, Config{URLs: []string{proxy.url}, ConfirmTimeout: time.Second})
		declare(t, b, n.specs())
		publish(t, b, n.instant, 0, 1)
		steals.Store(true)
		c := newTally(10)
		p := b.Publisher("test")
		for i := range 10 {
			p.Publish(t.Context(), n.instant, numbered(10+i), c.done)
		}
		// The first is that of the channel that is given up, the second that of the question.
		eventually(t, 20*time.Second, "the confirm of the question to be lost", func() bool { return stolen.Load() >= 2 })
		steals.Store(false)
		c.wait(t, 30*time.Second)
	})
}

func TestASilentQueueIsAskedAgainOnEachConnection(t *testing.T) {
	onOwn(t, testbroker.RabbitOptions{}, func(t *testing.T, node *testbroker.Rabbit) {
		proxy := newProxy(t, node.URL)
		b, _ := run(t, Config{URLs: []string{proxy.url}, ConfirmTimeout: time.Second})
		silent, well := newNames(t, ""), newNames(t, "")
		declare(t, b, append(silent.specs(), well.specs()...))
		p := b.Publisher("test")
		leader(node, "suspend", silent.instant)
		waits := newTally(100)
		for i := range 100 {
			p.Publish(t.Context(), silent.instant, numbered(i), waits.done)
		}
		gone, cancel := context.WithCancel(t.Context())
		var given atomic.Bool
		p.Publish(gone, silent.instant, numbered(1000), func(err error) { given.Store(err != nil) })
		others := newTally(100)
		for i := range 100 {
			p.Publish(t.Context(), well.instant, numbered(i), others.done)
			if i%20 == 0 {
				before := others.told()
				proxy.cut()
				eventually(t, 30*time.Second, "confirms after a cut", func() bool { return others.told() > before })
			}
		}
		others.wait(t, 30*time.Second)
		cancel()
		eventually(t, 30*time.Second, "a message whose context ended to be given back", given.Load)
		leader(node, "resume", silent.instant)
		waits.wait(t, 30*time.Second)
	})
}

// A message that is taken for returned is sent once more.
func TestAChannelThatIsClosedHasReturnedNothing(t *testing.T) {
	for what, c := range map[string]struct {
		fill func(returns chan amqp.Return)
		want bool
	}{
		"open":                      {func(chan amqp.Return) {}, false},
		"closed":                    {func(returns chan amqp.Return) { close(returns) }, false},
		"returned":                  {func(returns chan amqp.Return) { returns <- amqp.Return{} }, true},
		"returned, and then closed": {func(returns chan amqp.Return) { returns <- amqp.Return{}; close(returns) }, true},
	} {
		returns := make(chan amqp.Return, 1)
		c.fill(returns)
		a := aside{asked: &outgoing{}, open: &opened{returns: returns}}
		a.noteReturn()
		a.noteReturn()
		if a.asked.returned != c.want {
			t.Errorf("%s: returned is %v", what, a.asked.returned)
		}
	}
}
