package rabbit

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	weather "github.com/stepwell/stepwell/chaos/proxy"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// The connection, which all consumers share, is cut for one that is opened of a queue that answers
// nobody; and would be again on the next connection.
func TestAQueueThatAnswersNobodyHoldsUpNoConsumerOfAnother(t *testing.T) {
	onOwn(t, testbroker.RabbitOptions{}, func(t *testing.T, node *testbroker.Rabbit) {
		b, _ := run(t, Config{URLs: []string{node.URL}})
		silent, well := newNames(t, ""), newNames(t, "")
		declare(t, b, append(silent.specs(), well.specs()...))
		var paused atomic.Bool
		var heard atomic.Int64
		changed := make(chan struct{}, 1)
		consume(t, b, queue.Consumption{Queue: silent.instant, Paused: paused.Load, Changed: changed, Handle: func(_ context.Context, d queue.Delivery) bool {
			heard.Add(1)
			d.Ack()
			return true
		}})
		var sessions sync.Map
		var opened, handled atomic.Int64
		consume(t, b, queue.Consumption{Queue: well.instant, Handle: func(_ context.Context, d queue.Delivery) bool {
			if _, known := sessions.LoadOrStore(d.Life, true); !known {
				opened.Add(1)
			}
			handled.Add(1)
			d.Ack()
			return true
		}})
		next := 0
		works := func(at string, within time.Duration) {
			t.Helper()
			for end := time.Now().Add(within); time.Now().Before(end); sleep(t.Context(), 200*time.Millisecond) {
				publish(t, b, well.instant, next, next+10)
				next += 10
			}
			eventually(t, 20*time.Second, at+": all to be handled", func() bool { return handled.Load() >= int64(next) })
		}
		publish(t, b, silent.instant, 0, 10)
		eventually(t, 10*time.Second, "the queue to be consumed", func() bool { return heard.Load() == 10 })
		works("before", time.Second)

		// What has a consumer costs the connection, once.
		leader(node, "suspend", silent.instant)
		isFoundMute(t, node.URL, silent.instant)
		paused.Store(true)
		signal(changed)
		works("a pause of a queue that answers nobody", callLimit+3*time.Second)
		paused.Store(false)
		signal(changed)
		if n := opened.Load(); n > 2 {
			t.Errorf("the queue that is well had %d sessions", n)
		}
		before := opened.Load()
		works("the end of that pause, and a start of its consumer", callLimit+5*time.Second)
		if why := b.Trouble(silent.instant); !strings.Contains(why, "has not told RabbitMQ in time") {
			t.Errorf("told of it is %q", why)
		}
		if n := opened.Load(); n != before {
			t.Errorf("the queue that is well had %d sessions more", n-before)
		}
		leader(node, "resume", silent.instant)
		publish(t, b, silent.instant, 10, 20)
		eventually(t, 30*time.Second, "the queue to be consumed again", func() bool { return heard.Load() == 20 })
	})
}

// isFoundMute looks at the queue where each second channel takes long to be opened, as on a busy
// machine.
func isFoundMute(t *testing.T, url, name string) {
	t.Helper()
	var opened atomic.Int64
	proxy := newThief(t, url, func(class, method uint16) bool {
		if openOK := class == 20 && method == 11; openOK && opened.Add(1)%2 == 0 {
			time.Sleep(statLimit)
		}
		return false
	})
	b, stop := run(t, Config{URLs: []string{proxy.url}})
	defer stop()
	s, err := b.session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "a queue that answers nobody to be found to", func() bool { return s.isMute(name) })
}

// farAway is the broker at to where each answer takes longer than RabbitMQ's wait for a mute queue.
func farAway(t *testing.T, to string) string {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	far, err := weather.New(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close() })
	far.Set(weather.Weather{Latency: statLimit})
	return strings.Replace(to, u.Host, far.Addr(), 1)
}

// Delay queues and dead sets have no consumers, and are mostly empty.
func TestAQueueThatIsEmptyAndFarAwayIsKnownToBeEmpty(t *testing.T) {
	onEach(t, func(t *testing.T, to string) {
		n := newNames(t, to)
		near, _ := run(t, Config{URLs: []string{to}})
		declare(t, near, n.specs())
		b, _ := run(t, Config{URLs: []string{farAway(t, to)}})
		if depth, err := b.Depth(within(t, 20*time.Second), n.dead); depth != 0 || err != nil {
			t.Errorf("Depth: %d, %v", depth, err)
		}
		if depth, err := leaseOf(t, b, n.dead).Depth(within(t, 20*time.Second)); depth != 0 || err != nil {
			t.Errorf("Depth of a lease: %d, %v", depth, err)
		}
	})
}

func TestAQueueThatIsFarAwayIsConsumed(t *testing.T) {
	onEach(t, func(t *testing.T, to string) {
		near, _ := run(t, Config{URLs: []string{to}})
		n := newNames(t, to)
		declare(t, near, n.specs())
		b, _ := run(t, Config{URLs: []string{farAway(t, to)}})
		consume(t, b, queue.Consumption{Queue: n.instant, Handle: func(context.Context, queue.Delivery) bool { return false }})
		eventually(t, 30*time.Second, "the empty queue to have a consumer", func() bool {
			s, err := near.session(t.Context())
			if err != nil {
				return false
			}
			state, err := s.inspect(n.instant)
			return err == nil && state.Consumers == 1
		})
	})
}
