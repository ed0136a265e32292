package rabbit

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// consume runs Consume until the returned function is called or the test ends.
func consume(t *testing.T, b *Broker, c queue.Consumption) (stop func()) {
	t.Helper()
	if c.Prefetch == nil {
		c.Prefetch = func() int { return 50 }
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := b.Consume(ctx, t.Context(), c); err != nil && t.Context().Err() == nil {
			t.Errorf("Consume: %v", err)
		}
	})
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
}

// inbox takes deliveries over and keeps them.
type inbox struct {
	mu  sync.Mutex
	all []queue.Delivery
}

func (i *inbox) add(_ context.Context, d queue.Delivery) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all = append(i.all, d)
	return true
}

func (i *inbox) deliveries() []queue.Delivery {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.all[:len(i.all):len(i.all)]
}

func (i *inbox) has(n int) func() bool {
	return func() bool { return len(i.deliveries()) >= n }
}

func ackAll(count *atomic.Int64) func(context.Context, queue.Delivery) bool {
	return func(_ context.Context, d queue.Delivery) bool {
		count.Add(1)
		d.Ack()
		return true
	}
}

func TestAckOfADeadSessionSettlesNobody(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		proxy := newProxy(t, url)
		b, _ := run(t, Config{URLs: []string{proxy.url}})
		declare(t, b, n.specs())
		publish(t, b, n.instant, 0, 10)
		var in inbox
		stop := consume(t, b, queue.Consumption{Queue: n.instant, Handle: in.add})
		eventually(t, 10*time.Second, "10 deliveries", in.has(10))
		proxy.cut()
		eventually(t, 20*time.Second, "10 deliveries again", in.has(20))
		all := in.deliveries()
		for _, d := range all[:10] {
			d.Ack() // in the new session these tags are other messages'
		}
		all[15].Ack()
		for i, d := range all[10:20] {
			if i != 5 {
				d.Release()
			}
			if !d.Redelivered {
				t.Errorf("%s came again, not marked as such", d.ID)
			}
		}
		stop()
		depthIs(t, b, n.instant, 9)
		if seen := ids(t, url, n.instant); seen[all[15].ID] != 0 {
			t.Errorf("%s was acked and is there: %v", all[15].ID, seen)
		}
	})
}

func TestEveryMessageIsHandledThroughCuts(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		proxy := newProxy(t, url)
		b, _ := run(t, Config{URLs: []string{proxy.url}, BackoffMin: 10 * time.Millisecond, BackoffMax: 100 * time.Millisecond})
		declare(t, b, n.specs())
		const count = 5000
		publish(t, b, n.instant, 0, count)
		var seen sync.Map
		var handlers sync.WaitGroup
		slots := make(chan struct{}, 20)
		stop := consume(t, b, queue.Consumption{Queue: n.instant, Handle: func(ctx context.Context, d queue.Delivery) bool {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return false
			}
			handlers.Go(func() {
				sleep(t.Context(), time.Millisecond)
				seen.Store(d.ID, true)
				d.Ack()
				<-slots
			})
			return true
		}})
		for range 5 {
			sleep(t.Context(), 60*time.Millisecond)
			proxy.cut()
		}
		eventually(t, 30*time.Second, "every message to be handled", func() bool {
			for i := range count {
				if _, ok := seen.Load(numbered(i).ID); !ok {
					return false
				}
			}
			return true
		})
		stop()
		handlers.Wait()
	})
}

func TestConsumerComesBackAfterItsQueueWasDeleted(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		b, _ := run(t, Config{URLs: []string{url}})
		declare(t, b, n.specs())
		var count atomic.Int64
		consume(t, b, queue.Consumption{Queue: n.instant, Handle: ackAll(&count)})
		publish(t, b, n.instant, 0, 5)
		eventually(t, 10*time.Second, "5 deliveries", func() bool { return count.Load() == 5 })
		deleteQueue(t, url, n.instant)
		publish(t, b, n.instant, 5, 10)
		eventually(t, 20*time.Second, "deliveries from the new queue", func() bool { return count.Load() == 10 })
	})
}

// The methods of AMQP that disappear in these tests.
const (
	basic    = 60
	cancel   = 30
	cancelOk = 31
)

// A queue that is deleted and declared again may not tell its consumers: they would wait for ever
// for what comes to the new one.
func TestAConsumerThatWasNotToldOfTheEndOfItsQueueComesBack(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		var stolen atomic.Int32
		proxy := newThief(t, url, func(class, method uint16) bool {
			return class == basic && method == cancel && stolen.Add(1) > 0
		})
		b, _ := run(t, Config{URLs: []string{url}})
		ghost, _ := run(t, Config{URLs: []string{proxy.url}})
		declare(t, b, n.specs())
		var count atomic.Int64
		consume(t, ghost, queue.Consumption{Queue: n.instant, Handle: ackAll(&count)})
		publish(t, b, n.instant, 0, 5)
		eventually(t, 10*time.Second, "5 deliveries", func() bool { return count.Load() == 5 })
		deleteQueue(t, url, n.instant)
		eventually(t, 10*time.Second, "the broker to tell of it, to nobody", func() bool { return stolen.Load() == 1 })
		declare(t, b, n.specs()) // somebody else's, so nobody here knows that it is another queue
		publish(t, b, n.instant, 5, 10)
		eventually(t, 20*time.Second, "deliveries from the new queue", func() bool { return count.Load() == 10 })
	})
}

// What a consumer held whose end the broker does not answer stays with it until its connection
// ends.
func TestAConsumerWhoseEndIsNotAnsweredLeavesNothingBehind(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		var stolen atomic.Int32
		proxy := newThief(t, url, func(class, method uint16) bool {
			return class == basic && method == cancelOk && stolen.Add(1) == 1
		})
		b, _ := run(t, Config{URLs: []string{proxy.url}})
		declare(t, b, n.specs())
		publish(t, b, n.instant, 0, 100)
		var in inbox
		var paused atomic.Bool
		changed := make(chan struct{}, 1)
		consume(t, b, queue.Consumption{Queue: n.instant, Handle: in.add, Paused: paused.Load, Changed: changed})
		eventually(t, 10*time.Second, "as many as are fetched ahead", in.has(50))
		defer proxy.cut() // where the test fails, nothing waits for the answer
		paused.Store(true)
		changed <- struct{}{}
		eventually(t, 10*time.Second, "the answer to be lost", func() bool { return stolen.Load() == 1 })
		eventually(t, callLimit+10*time.Second, "all to be back", func() bool {
			depth, err := b.Depth(t.Context(), n.instant)
			return err == nil && depth == 100
		})
		paused.Store(false)
		changed <- struct{}{}
		eventually(t, 20*time.Second, "deliveries after the pause", in.has(100))
	})
}

// A channel has one place for an answer: of two who ask at once, one may take the other's.
func TestPausesAndFlushesAtOnceNeverTakeEachOthersAnswers(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		b, _ := run(t, Config{URLs: []string{url}})
		declare(t, b, n.specs())
		s, err := b.session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ch, err := s.channel()
		if err != nil {
			t.Fatal(err)
		}
		k := &consumer{b: b, c: queue.Consumption{Queue: n.instant}, session: s, ch: ch, acks: newAcks()}
		const rounds = 500
		var askers sync.WaitGroup
		for range 2 {
			askers.Go(func() {
				for i := 0; i < rounds && !t.Failed(); i++ {
					if err := k.ask(); err != nil {
						t.Errorf("flush %d: %v", i, err)
					}
				}
			})
		}
		for i := 0; i < rounds && !t.Failed(); i++ {
			_, tag, err := k.subscribe()
			if err == nil {
				err = k.unsubscribe(tag)
			}
			if err != nil {
				t.Errorf("pause %d: %v", i, err)
			}
		}
		askers.Wait()
	})
}

// RabbitMQ adds to a message's headers when its delay is over, and sends them in one frame however
// large it is: beyond what was agreed on, our side ends the connection. What we publish ourselves
// stays below that.
func TestHeadersThatBarelyFitComeThroughADelayAndForeignOnesThatDoNotStayAndAreNamed(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		b, _ := run(t, Config{URLs: []string{url}, BackoffMin: time.Millisecond, BackoffMax: 20 * time.Millisecond})
		declare(t, b, n.specs())
		const perHeader = 20 // what encode counts beside the bytes of the value
		own := newTally(1)
		largest := queue.Message{ID: "own", Headers: map[string]any{"x": make([]byte, maxHeaders-perHeader)}}
		b.Publisher("test").Publish(t.Context(), n.delay, largest, own.done)
		own.wait(t, 10*time.Second)
		foreign := func(id string, size int) {
			t.Helper()
			raw(t, url, func(ch *amqp.Channel) error {
				if err := ch.Confirm(false); err != nil {
					return err
				}
				c, err := ch.PublishWithDeferredConfirm("", n.delay, true, false,
					amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: id, Headers: amqp.Table{"x": make([]byte, size)}})
				if err == nil {
					_, err = c.WaitContext(within(t, 10*time.Second))
				}
				return err
			})
		}
		foreign("foreign", 125<<10)
		var count atomic.Int64
		stop := consume(t, b, queue.Consumption{Queue: n.instant, Handle: ackAll(&count)})
		eventually(t, 10*time.Second, "both to come", func() bool { return count.Load() == 2 })
		foreign("beyond", 130_850)
		eventually(t, 10*time.Second, "the connection to end of it", func() bool {
			return strings.Contains(b.Status().Detail, "frame_max")
		})
		stop()
		depthIs(t, b, n.instant, 1)
	})
}

func TestBrokersConsumerTimeoutDoesNotEndConsuming(t *testing.T) {
	o := testbroker.RabbitOptions{Conf: []string{"consumer_timeout = 2000"}}
	onOwn(t, o, func(t *testing.T, node *testbroker.Rabbit) {
		node.Ctl("eval", "application:set_env(rabbit, channel_tick_interval, 1000).") // it looks each minute
		n := newNames(t, "")
		b, _ := run(t, Config{URLs: []string{node.URL}})
		declare(t, b, n.specs())
		publish(t, b, n.instant, 0, 3)
		var in inbox
		stop := consume(t, b, queue.Consumption{Queue: n.instant, Handle: func(ctx context.Context, d queue.Delivery) bool {
			if in.add(ctx, d); len(in.deliveries()) > 3 {
				d.Ack() // the broker may hand it out once more just before it ends the consumer: then this is stale too
			}
			return true
		}})
		eventually(t, 30*time.Second, "the same again, after the time-out", in.has(6))
		for _, d := range in.deliveries()[:3] {
			d.Ack() // stale
		}
		eventually(t, 30*time.Second, "nothing in the queue, nor handed out", func() bool {
			return strings.Contains(node.Ctl("-q", "list_queues", "name", "messages"), n.instant+"\t0")
		})
		stop()
		depthIs(t, b, n.instant, 0)
	})
}

func TestStopWaitsForWhatWasHandedOutAndGivesTheRestBack(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		b, _ := run(t, Config{URLs: []string{url}})
		declare(t, b, n.specs())
		publish(t, b, n.instant, 0, 100)
		var in inbox
		stop := consume(t, b, queue.Consumption{Queue: n.instant, Handle: func(ctx context.Context, d queue.Delivery) bool {
			if len(in.deliveries()) == 10 {
				<-ctx.Done()
				return false
			}
			return in.add(ctx, d)
		}})
		eventually(t, 10*time.Second, "10 deliveries", in.has(10))
		stopped := make(chan struct{})
		var stopping sync.WaitGroup
		stopping.Go(func() { stop(); close(stopped) })
		depthIs(t, b, n.instant, 90)
		for _, d := range in.deliveries() {
			select {
			case <-stopped:
				t.Fatal("Consume returned before all was settled")
			default:
			}
			d.Ack()
		}
		stopping.Wait()
		depthIs(t, b, n.instant, 90)
		if seen := ids(t, url, n.instant); len(seen) != 90 {
			t.Errorf("%d messages left", len(seen))
		}
	})
}

func TestPauseGivesPrefetchedMessagesBackAndKeepsRunningOnes(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		b, _ := run(t, Config{URLs: []string{url}})
		declare(t, b, n.specs())
		publish(t, b, n.instant, 0, 100)
		var in inbox
		var paused atomic.Bool
		changed := make(chan struct{}, 1)
		consume(t, b, queue.Consumption{
			Queue: n.instant, Paused: paused.Load, Changed: changed,
			Handle: func(ctx context.Context, d queue.Delivery) bool {
				if len(in.deliveries()) == 10 {
					<-ctx.Done()
					return false
				}
				return in.add(ctx, d)
			},
		})
		eventually(t, 10*time.Second, "10 deliveries", in.has(10))
		paused.Store(true)
		changed <- struct{}{}
		depthIs(t, b, n.instant, 90)
		for _, d := range in.deliveries() {
			d.Ack()
		}
		paused.Store(false)
		in.mu.Lock()
		in.all = nil
		in.mu.Unlock()
		changed <- struct{}{}
		eventually(t, 10*time.Second, "deliveries after the pause", in.has(10))
		paused.Store(true)
		changed <- struct{}{}
		depthIs(t, b, n.instant, 80) // the first ten were acked, ten are held
	})
}

func TestPrefetchFollowsWhatIsAskedForAndLosesNoAck(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		b, _ := run(t, Config{URLs: []string{url}})
		declare(t, b, n.specs())
		publish(t, b, n.instant, 0, 500)
		var prefetch atomic.Int64
		prefetch.Store(5)
		var in inbox
		stop := consume(t, b, queue.Consumption{
			Queue: n.instant, Handle: in.add, Prefetch: func() int { return int(prefetch.Load()) },
		})
		eventually(t, 10*time.Second, "as many deliveries as the prefetch", in.has(5))
		prefetch.Store(200)
		eventually(t, 20*time.Second, "more deliveries with a larger prefetch", in.has(205))
		for _, d := range in.deliveries() {
			d.Ack()
		}
		eventually(t, 10*time.Second, "the next", in.has(405))
		for _, d := range in.deliveries()[205:] {
			d.Release()
		}
		eventually(t, 10*time.Second, "some again", in.has(450))
		for _, d := range in.deliveries()[405:] {
			d.Release()
		}
		go stop()
		eventually(t, 10*time.Second, "all that was not acked to be back", func() bool {
			for _, d := range in.deliveries()[205:] {
				d.Release()
			}
			depth, err := b.Depth(t.Context(), n.instant)
			return err == nil && depth == 295
		})
	})
}

// A handler that is fast has a larger prefetch long before the first second is over.
func TestThePrefetchIsAskedForAnewWithEachBatchOfAcks(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		b, _ := run(t, Config{URLs: []string{url}})
		declare(t, b, n.specs())
		const messages = 400
		publish(t, b, n.instant, 0, messages)
		var handled, asked atomic.Int64
		stop := consume(t, b, queue.Consumption{Queue: n.instant, Handle: ackAll(&handled), Prefetch: func() int {
			asked.Add(1)
			return 4
		}})
		eventually(t, 30*time.Second, "all messages", func() bool { return handled.Load() == messages })
		stop()
		if got := asked.Load(); got < messages/8 {
			t.Errorf("asked %d times for %d acks in batches of up to four", got, messages)
		}
	})
}

func TestDeliveryHasWhatWasPublished(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		b, _ := run(t, Config{URLs: []string{url}})
		declare(t, b, n.specs())
		headers := map[string]any{
			"nil": nil, "true": true, "int": int64(1 << 40), "text": "tëxt", "bytes": []byte{0, 255},
			"time": time.Unix(1_700_000_000, 0), "list": []any{int64(1), "two", []byte("three"), nil},
		}
		c := newTally(1)
		b.Publisher("test").Publish(t.Context(), n.delay, queue.Message{ID: "id", Headers: headers, Body: []byte("body")}, c.done)
		c.wait(t, 10*time.Second)
		var in inbox
		consume(t, b, queue.Consumption{Queue: n.instant, Handle: in.add})
		eventually(t, 10*time.Second, "the message after its delay", in.has(1))
		d := in.deliveries()[0]
		if got, want := fmt.Sprint(d.Headers), fmt.Sprint(headers); got != want {
			t.Errorf("headers:\n got %s\nwant %s", got, want)
		}
		if d.ID != "id" || string(d.Body) != "body" || d.Redelivered || d.Returns != 0 {
			t.Errorf("delivery: %+v", d)
		}
		d.Ack()
	})
}

func TestForgedDeliveryCountIsNotBelieved(t *testing.T) {
	d := amqp.Delivery{Headers: amqp.Table{"x-delivery-count": int64(7)}}
	if got := decode(&d, "q", newAcks()); got.Returns != 0 || got.Headers["x-delivery-count"] != nil {
		t.Errorf("first delivery: %+v", got)
	}
	d = amqp.Delivery{Redelivered: true, Headers: amqp.Table{"x-delivery-count": int64(7)}}
	if got := decode(&d, "q", newAcks()); got.Returns != 7 || got.Headers["x-delivery-count"] != nil {
		t.Errorf("redelivery: %+v", got)
	}
}
