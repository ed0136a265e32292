package rabbit

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
)

// One that is declared then would be made anew without anybody's knowledge: no line in the log,
// and publishers and consumers that take it for the old one.
func TestAQueueThatIsDeletedJustAfterARepairHasSeenItIsDeclaredAgainWithAWord(t *testing.T) {
	for when, miss := range map[string]func(b *Broker, name string){
		"and missed later":                     func(*Broker, string) {},
		"and missed before the repair goes on": func(b *Broker, name string) { b.topology.forget(name) },
	} {
		t.Run(when, func(t *testing.T) {
			onEach(t, func(t *testing.T, url string) {
				n := newNames(t, url)
				var log text
				var b *Broker
				var repairs, deleted atomic.Bool
				proxy := newThief(t, url, func(class, method uint16) bool {
					if declareOK := class == 50 && method == 11; declareOK && repairs.CompareAndSwap(true, false) {
						deleteQueue(t, url, n.dead)
						miss(b, n.dead)
						deleted.Store(true)
					}
					return false
				})
				b, _ = run(t, Config{URLs: []string{proxy.url}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				declare(t, b, n.specs()[2:])
				repairs.Store(true)
				b.topology.missing("another")
				eventually(t, 10*time.Second, "the repair to have seen the queue", deleted.Load)
				eventually(t, 10*time.Second, "the queue to be declared again, with a line in the log", func() bool {
					_, err := b.Depth(t.Context(), n.dead)
					return err == nil && strings.Contains(log.String(), "queue was missing and has been declared again")
				})
			})
		})
	}
}

// Somebody else makes it, with other arguments, before anybody misses it but the repair, or a walk.
func TestAQueueThatWasFoundMissingIsComparedOnceItIsBack(t *testing.T) {
	for by, find := range map[string]func(t *testing.T, b *Broker, name string){
		"by a repair for another one": func(t *testing.T, b *Broker, name string) {
			deleteQueue(t, b.config.URLs[0], name)
			eventually(t, 10*time.Second, "the repair to miss it", func() bool {
				b.topology.missing("another")
				return strings.Contains(b.Status().Detail, name+" is missing")
			})
		},
		"by a walk": func(t *testing.T, b *Broker, name string) {
			lease := leaseOf(t, b, name)
			deleteQueue(t, b.config.URLs[0], name)
			if _, err := lease.Window(within(t, 20*time.Second), 10, 1<<20); !errors.Is(err, queue.ErrMissing) {
				t.Fatalf("the walk of a queue that is gone: %v", err)
			}
		},
	} {
		t.Run(by, func(t *testing.T) {
			onEach(t, func(t *testing.T, url string) {
				n := newNames(t, url)
				creator, end := run(t, Config{URLs: []string{url}})
				declare(t, creator, n.specs())
				end()
				b, _ := run(t, Config{URLs: []string{url}, DeclareOnlyCheck: true})
				declare(t, b, n.specs())
				find(t, b, n.dead)
				isCompared(t, b, url, n.dead, func() {})
			})
		})
	}
}

func TestAQueueThatWasReplacedUnseenIsComparedOnTheNextConnection(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		proxy := newProxy(t, url)
		b, _ := run(t, Config{URLs: []string{proxy.url}})
		declare(t, b, n.specs())
		deleteQueue(t, url, n.dead)
		isCompared(t, b, url, n.dead, proxy.cut)
	})
}

// isCompared has somebody make the queue with other arguments, and wants b to find that after then.
func isCompared(t *testing.T, b *Broker, url, name string, then func()) {
	t.Helper()
	raw(t, url, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
		return err
	})
	then()
	eventually(t, 20*time.Second, "the queue to be compared", func() bool {
		return strings.Contains(b.Status().Detail, name+" exists with other arguments")
	})
}
