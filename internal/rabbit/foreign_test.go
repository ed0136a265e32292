package rabbit

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
)

// declareForeign makes a queue as a stranger would.
func declareForeign(t *testing.T, url, name, kind string) {
	t.Helper()
	raw(t, url, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": kind})
		return err
	})
}

// A consumer of a stream begins behind what the stream has: the backlog would be skipped.
func TestASourceThatIsMadeAnewAsAStreamIsConsumedNoMore(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		name := newNames(t, url).instant
		b, _ := run(t, Config{URLs: []string{url}})
		var count atomic.Int64
		var paused atomic.Bool
		changed := make(chan struct{}, 1)
		pause := func(is bool) { paused.Store(is); changed <- struct{}{} }
		refused := func() bool {
			return strings.HasPrefix(b.Trouble(name), "consume "+name+": it is a stream (x-queue-type)") && strings.Contains(b.Status().Detail, b.Trouble(name))
		}
		declareForeign(t, url, name, "quorum")
		consume(t, b, queue.Consumption{Queue: name, Foreign: true, Handle: ackAll(&count), Paused: paused.Load, Changed: changed})
		want := int64(0)
		for _, remake := range []struct {
			name          string
			before, after func()
		}{
			{"while it is consumed", func() {}, func() {}},
			{"while there is a pause", func() { pause(true); consumersAre(t, b, name, 0) }, func() { pause(false) }},
		} {
			publish(t, b, name, 0, 5)
			want += 5
			eventually(t, 20*time.Second, remake.name+": five deliveries", func() bool { return count.Load() == want })
			eventually(t, 10*time.Second, remake.name+": no trouble", func() bool { return b.Trouble(name) == "" })
			remake.before()
			deleteQueue(t, url, name)
			declareForeign(t, url, name, "stream")
			publish(t, b, name, 0, 3)
			remake.after()
			eventually(t, 20*time.Second, remake.name+": it is told that it is a stream", refused)
			publish(t, b, name, 3, 6)
			eventually(t, 20*time.Second, remake.name+": it is told still", refused)
			if got := count.Load(); got != want {
				t.Errorf("%s: %d messages of a stream were handed out", remake.name, got-want)
			}
			deleteQueue(t, url, name)
			declareForeign(t, url, name, "classic")
		}
	})
}

// consumersAre waits until the broker knows so many consumers of the queue.
func consumersAre(t *testing.T, b *Broker, name string, want int) {
	t.Helper()
	s, err := b.session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the consumers of "+name, func() bool {
		state, err := s.inspect(name)
		return err == nil && state.Consumers == want
	})
}
