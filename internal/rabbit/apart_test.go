package rabbit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// consumedWell is a queue that is consumed, and on how many connections that was.
type consumedWell struct {
	sessions, handled atomic.Int64
	known             sync.Map
}

func consumeWell(t *testing.T, b *Broker, name string) *consumedWell {
	w := &consumedWell{}
	consume(t, b, queue.Consumption{Queue: name, Handle: func(_ context.Context, d queue.Delivery) bool {
		if _, known := w.known.LoadOrStore(d.Life, true); !known {
			w.sessions.Add(1)
		}
		w.handled.Add(1)
		d.Ack()
		return true
	}})
	return w
}

// RabbitMQ ends the connection of whoever asks such a queue for a consumer.
func TestAQueueWhoseLeaderIsAwayCostsTheConsumersOfOthersNothing(t *testing.T) {
	onOwn(t, testbroker.RabbitOptions{}, func(t *testing.T, node *testbroker.Rabbit) {
		b, _ := run(t, Config{URLs: []string{node.URL}})
		lost, well := newNames(t, ""), newNames(t, "")
		declare(t, b, append(lost.specs(), well.specs()...))
		neighbour, own := consumeWell(t, b, well.instant), consumeWell(t, b, lost.instant)
		publish(t, b, lost.instant, 0, 1)
		publish(t, b, well.instant, 0, 1)
		eventually(t, 10*time.Second, "both to be consumed", func() bool { return own.handled.Load() == 1 && neighbour.handled.Load() == 1 })
		back := leaderAway(node, lost.instant)
		eventually(t, 40*time.Second, "it to be told that there is no consumer", func() bool {
			return strings.Contains(b.Trouble(lost.instant), errNotOpened.Error())
		})
		const goOn = 10
		for i := range goOn { // seconds, in which it is asked again some times
			publish(t, b, well.instant, 1+i, 2+i)
			time.Sleep(time.Second)
		}
		back()
		publish(t, b, lost.instant, 1, 2)
		eventually(t, 40*time.Second, "both to be consumed again", func() bool { return own.handled.Load() >= 2 && neighbour.handled.Load() == 1+goOn })
		if n := neighbour.sessions.Load(); n != 1 {
			t.Errorf("the neighbour was consumed on %d connections", n)
		}
		eventually(t, 30*time.Second, "both to share a connection again", func() bool {
			return strings.Count(node.Ctl("-q", "list_connections", "pid"), "<") == 2
		})
	})
}

// The AMQP library reads lists of 8,192 values at most, and ends the connection for a longer one;
// RabbitMQ counts a return of all that was in hand, and drops what came back too often.
func TestAMessageThatCannotBeReadHoldsUpNoOther(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b, _ := run(t, Config{URLs: []string{url}})
		well := newNames(t, url)
		declare(t, b, well.specs())
		neighbour := consumeWell(t, b, well.instant)
		source := well.instant + ".source"
		declareForeign(t, url, source, "quorum")
		t.Cleanup(func() { deleteQueue(t, url, source) })
		const all, unreadable = 100, 30
		fillForeign(t, url, source, all, unreadable)
		var came sync.Map
		var others atomic.Int64
		stop, end := context.WithCancel(t.Context())
		defer end()
		ended := make(chan error, 1)
		go func() {
			ended <- b.Consume(stop, stop, queue.Consumption{
				Queue: source, Foreign: true, Prefetch: func() int { return all },
				Handle: func(_ context.Context, d queue.Delivery) bool {
					if _, again := came.LoadOrStore(d.ID, true); !again {
						others.Add(1)
					}
					d.Ack()
					return true
				},
			})
		}()
		eventually(t, 40*time.Second, "it to be told", func() bool { return strings.Contains(b.Trouble(source), "connection lost") })
		for i := range 20 {
			publish(t, b, well.instant, i, i+1)
			time.Sleep(200 * time.Millisecond)
		}
		eventually(t, 20*time.Second, "the neighbour's", func() bool { return neighbour.handled.Load() == 20 })
		if n := neighbour.sessions.Load(); n != 1 {
			t.Errorf("the neighbour was consumed on %d connections", n)
		}
		// A queue without a limit of returns keeps it as the first one for ever.
		if s, err := b.session(t.Context()); err != nil || s.release.before(4, 0) {
			eventually(t, 20*time.Second, "all before it", func() bool { return others.Load() >= unreadable })
		} else {
			eventually(t, 150*time.Second, "all but it", func() bool { return others.Load() == all-1 })
		}
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// fillForeign publishes so many messages, of which that one cannot be read.
func fillForeign(t *testing.T, url, name string, all, unreadable int) {
	t.Helper()
	raw(t, url, func(ch *amqp.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return err
		}
		for i := range all {
			m := amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: strconv.Itoa(i)}
			if i == unreadable {
				m.Headers = amqp.Table{"x": make([]any, 8193)}
			}
			c, err := ch.PublishWithDeferredConfirm("", name, true, false, m)
			if err != nil {
				return err
			}
			if _, err := c.WaitContext(within(t, 10*time.Second)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Who asked goes on with the next connection, also where this one is not seen to be gone yet.
func TestAnErrorWithWhichTheBrokerEndsTheConnectionIsAboutTheConnection(t *testing.T) {
	for code, want := range map[int]bool{amqp.ConnectionForced: true, amqp.InternalError: true, amqp.NotFound: false, amqp.PreconditionFailed: false} {
		if got := isCut(fmt.Errorf("look: %w", &amqp.Error{Code: code, Server: true})); got != want {
			t.Errorf("%d is about the connection: %t, want %t", code, got, want)
		}
	}
	if !isCut(amqp.ErrClosed) || isCut(amqp.ErrChannelMax) {
		t.Error("the client's own errors")
	}
}

func TestAConsumerKeepsAConnectionOfItsOwnUntilItIsOpenedAnew(t *testing.T) {
	gone := errors.New("connection refused")
	for _, c := range []struct {
		what    string
		foreign bool
		was     bool
		err     error
		want    bool
	}{
		{"the connection that all share is lost", false, false, gone, false},
		{"the queue gives no consumer", false, false, fmt.Errorf("open: %w", errNotOpened), true},
		{"the broker forgot the consumer, or has no leader of the queue", false, false, errConsumerForgot, true},
		{"then no connection of its own can be had", false, true, gone, true},
		{"it works, and is opened anew", false, true, nil, false},
		{"it is opened anew", false, false, nil, false},
		{"a source is opened anew", true, true, nil, true},
	} {
		if got := isApart(queue.Consumption{Foreign: c.foreign}, c.was, c.err); got != c.want {
			t.Errorf("%s: on a connection of its own: %t, want %t", c.what, got, c.want)
		}
	}
}
