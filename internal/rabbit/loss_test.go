package rabbit

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// Before RabbitMQ 4.0 the broker consumes the new queue for a client by itself, and then drops what
// it hands out: fewer messages than the prefetch are seen nowhere, more of them stay ready.
func TestAForeignQueueThatIsDeletedAndAtOnceMadeAnewIsConsumedOn(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		for _, as := range []struct {
			name, kind string
			messages   int
		}{
			{"a quorum queue with less than the prefetch", "quorum", 10},
			{"a quorum queue with more than the prefetch", "quorum", 150},
			{"a classic queue", "classic", 150},
		} {
			t.Run(as.name, func(t *testing.T) {
				t.Parallel()
				name := newNames(t, url).instant
				b, _ := run(t, Config{URLs: []string{url}})
				var count atomic.Int64
				declareForeign(t, url, name, as.kind)
				acks := make(chan queue.Session, 5+as.messages)
				ack := ackAll(&count)
				consume(t, b, queue.Consumption{Queue: name, Foreign: true, Handle: func(ctx context.Context, d queue.Delivery) bool {
					acks <- d.Session
					return ack(ctx, d)
				}})
				publish(t, b, name, 0, 5)
				eventually(t, 20*time.Second, "the first five", func() bool { return count.Load() == 5 })
				// RabbitMQ 3.10.8 would take an ack that comes now for one of the new queue.
				if err := (<-acks).Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				raw(t, url, func(ch *amqp.Channel) error {
					if _, err := ch.QueueDelete(name, false, false, false); err != nil {
						return err
					}
					_, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": as.kind})
					return err
				})
				publish(t, b, name, 5, 5+as.messages)
				eventually(t, time.Minute, "all of the new queue", func() bool { return count.Load() == int64(5+as.messages) })
			})
		}
	})
}

// The broker hears of the deletion late, when the new queue is there: then it consumes that one for
// the client, of any kind. A busy machine is as late as that.
func TestAForeignQueueWhoseEndTheBrokerHearsOfLateIsConsumedOn(t *testing.T) {
	onOwn(t, testbroker.RabbitOptions{}, func(t *testing.T, node *testbroker.Rabbit) {
		for _, kind := range []string{"quorum", "classic"} {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				name := newNames(t, "").instant
				b, _ := run(t, Config{URLs: []string{node.URL}})
				var count atomic.Int64
				declareForeign(t, node.URL, name, kind)
				consume(t, b, queue.Consumption{Queue: name, Foreign: true, Handle: ackAll(&count)})
				publish(t, b, name, 0, 1)
				eventually(t, 20*time.Second, "the first", func() bool { return count.Load() == 1 })
				depthIs(t, b, name, 0)
				channel := strings.TrimSpace(node.Ctl("eval", fmt.Sprintf(`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<%q>>)),
					[C] = rabbit_amqqueue:consumers(Q), ok = sys:suspend(element(1, C)), pid_to_list(element(1, C)).`, name)))
				raw(t, node.URL, func(ch *amqp.Channel) error {
					_, err := ch.QueueDelete(name, false, false, false)
					return err
				})
				declareForeign(t, node.URL, name, kind)
				node.Ctl("eval", fmt.Sprintf(`ok = sys:resume(list_to_pid(%s)).`, channel))
				publish(t, b, name, 1, 51)
				eventually(t, time.Minute, "all of the new queue", func() bool { return count.Load() == 51 })
			})
		}
	})
}

// The one that is active is full, so that messages stay ready: what a deaf consumer looks like,
// too.
func TestAForeignConsumerThatWaitsForItsTurnHasItOnceTheOtherIsGone(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		const messages = 20
		name := newNames(t, url).instant
		raw(t, url, func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": "quorum", "x-single-active-consumer": true})
			return err
		})
		conn, err := amqp.Dial(url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		active, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		if err := active.Qos(1, 0, false); err != nil {
			t.Fatal(err)
		}
		held, err := active.Consume(name, "", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := run(t, Config{URLs: []string{url}})
		var count atomic.Int64
		consume(t, b, queue.Consumption{Queue: name, Foreign: true, Handle: ackAll(&count)})
		publish(t, b, name, 0, messages)
		first := <-held
		// Three looks and one more: longer than a consumer that may be deaf is left alone at first.
		over := time.After((renewFirst + 1) * prefetchEvery)
		select {
		case <-over:
		case <-held:
			t.Error("the active consumer was handed more than its prefetch")
		}
		if got := count.Load(); got != 0 {
			t.Errorf("the consumer that waits was handed %d messages", got)
		}
		if err := first.Ack(false); err != nil {
			t.Fatal(err)
		}
		<-held // it is the active one still
		if err := active.Close(); err != nil {
			t.Fatal(err)
		}
		eventually(t, 20*time.Second, "the others", func() bool { return count.Load() == messages-1 })
	})
}

// Somebody else's consumer with a higher priority is handed all: what a deaf consumer looks like,
// too.
func TestAForeignConsumerThatIsServedAfterAnotherIsNotTakenForLost(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		for _, kind := range []string{"quorum", "classic"} {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				const looks = 24 // those of two minutes
				name := newNames(t, url).instant
				declareForeign(t, url, name, kind)
				conn, err := amqp.Dial(url)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				first, err := conn.Channel()
				if err != nil {
					t.Fatal(err)
				}
				served, err := first.Consume(name, "", true, false, false, false, amqp.Table{"x-priority": int32(10)})
				if err != nil {
					t.Fatal(err)
				}
				b, _ := run(t, Config{URLs: []string{url}})
				s, err := b.session(within(t, 30*time.Second))
				if err != nil {
					t.Fatal(err)
				}
				ch, err := s.channel()
				if err != nil {
					t.Fatal(err)
				}
				k := b.newConsumer(t.Context(), s, ch, queue.Consumption{Queue: name, Foreign: true}, &renewal{})
				deliveries, _, err := k.subscribe()
				if err != nil {
					t.Fatal(err)
				}
				most := 0
				if s.release.before(4, 0) { // then it is, at looks 3, 9 and 21
					most = 3
				}
				anew := 0
				for look := range looks {
					publish(t, b, name, look, look+1)
					<-served
					k.lookForLoss(k.limit())
					if err := context.Cause(k.ctx); err != nil {
						t.Fatalf("at look %d it was taken for lost: %v", look+1, err)
					}
					if k.loss.replace.Swap(false) {
						anew++
					}
				}
				if anew > most || len(deliveries) > 0 {
					t.Errorf("it was to be opened anew %d times in %d looks, at most %d are right, and was handed %d messages", anew, looks, most, len(deliveries))
				}
				if err := first.Close(); err != nil {
					t.Fatal(err)
				}
				publish(t, b, name, looks, looks+1)
				select {
				case <-deliveries:
				case <-time.After(20 * time.Second):
					t.Error("once the other is gone it is handed nothing")
				}
				if err := k.finish(nil); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

// The look that finds it idle and the end of its subscription are two moments, and the broker may
// hand something out between them.
func TestAConsumerThatIsHandedAMessageAsItIsToBeOpenedAnewGoesOnBesideItsHandler(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b, _ := run(t, Config{URLs: []string{url}})
		n := newNames(t, url)
		declare(t, b, n.specs())
		publish(t, b, n.instant, 0, 1)
		s, err := b.session(within(t, 30*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		ch, err := s.channel()
		if err != nil {
			t.Fatal(err)
		}
		var k *consumer
		came := make(chan struct{}, 2)
		stop, cancel := context.WithCancel(t.Context())
		k = b.newConsumer(stop, s, ch, queue.Consumption{Queue: n.instant, Prefetch: func() int { return 10 }, Handle: func(context.Context, queue.Delivery) bool {
			came <- struct{}{}
			k.loss.replace.Store(true)
			signal(k.again)
			return true // and its handler runs on
		}}, &renewal{})
		ended := make(chan error, 1)
		go func() { ended <- k.run() }()
		<-came
		publish(t, b, n.instant, 1, 2)
		select {
		case <-came:
		case err := <-ended:
			t.Fatalf("it left the channel with a message in hand: %v", err)
		case <-time.After(30 * time.Second):
			t.Fatal("it is handed nothing more")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := k.finish(nil); err != nil {
			t.Error(err)
		}
	})
}

func TestAConsumerThatGetsNothingIsOpenedAnewLessAndLess(t *testing.T) {
	t.Parallel()
	hour := int(time.Hour / prefetchEvery)
	for _, of := range []struct {
		name  string
		ready func(look int) bool
		want  int
	}{
		{"nothing is ready", func(int) bool { return false }, 8},
		{"messages are ready all the time", func(int) bool { return true }, 8},
		{"messages are ready now and then", func(look int) bool { return look%7 == 0 }, 9},
	} {
		t.Run(of.name, func(t *testing.T) {
			var r renewal
			first, times := 0, 0
			for look := range hour {
				if r.due(of.ready(look)) {
					if times++; times == 1 {
						first = look + 1
					}
				}
			}
			if first != renewFirst || times > of.want {
				t.Errorf("in an hour it was opened anew %d times, first at look %d, want at most %d times, first at look %d", times, first, of.want, renewFirst)
			}
		})
	}
}

func TestMessagesThatAreReadyForTheFirstTimeHaveAConsumerOpenedAnewSoon(t *testing.T) {
	t.Parallel()
	var r renewal
	for range int(time.Hour / prefetchEvery) {
		r.due(false)
	}
	looks := 1
	for !r.due(true) {
		looks++
	}
	if looks != renewFirst {
		t.Errorf("opened anew after %d looks, want %d", looks, renewFirst)
	}
}

// A drain lasts as long as handlers may run. The queue may have no consumer meanwhile, and messages
// that nobody is sent: neither says that what is handled is lost.
func TestAConsumerIsNotTakenForLostWhileAStopWaitsForItsHandlers(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		b, _ := run(t, Config{URLs: []string{url}})
		declare(t, b, n.specs())
		publish(t, b, n.instant, 0, 3)
		session, err := b.session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ch, err := session.channel()
		if err != nil {
			t.Fatal(err)
		}
		stop, cancel := context.WithCancel(t.Context())
		var came atomic.Int64
		k := b.newConsumer(stop, session, ch, queue.Consumption{Queue: n.instant, Prefetch: func() int { return 10 }, Handle: func(context.Context, queue.Delivery) bool {
			cancel()
			return came.Add(1) == 1
		}}, &renewal{})
		if err := k.run(); err != nil {
			t.Fatal(err)
		}
		k.acks.letGo()
		k.flush(true)
		depthIs(t, b, n.instant, 2)
		for look := range 4 {
			if k.lookForLoss(10); k.ctx.Err() != nil {
				t.Fatalf("taken for lost at look %d: %v", look+1, context.Cause(k.ctx))
			}
		}
		k.acks.Ack(1)
		if err := k.finish(nil); err != nil {
			t.Error(err)
		}
		depthIs(t, b, n.instant, 2)
	})
}
