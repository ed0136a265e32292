package rabbit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// ids reads the queue empty and returns how often each id was in it.
func ids(t *testing.T, url, name string) map[string]int {
	t.Helper()
	seen := map[string]int{}
	raw(t, url, func(ch *amqp.Channel) error {
		state, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		if err != nil {
			return err
		}
		deliveries, err := ch.Consume(name, "", true, false, false, false, nil)
		if err != nil {
			return err
		}
		for range state.Messages {
			select {
			case d := <-deliveries:
				seen[d.MessageId]++
			case <-time.After(10 * time.Second):
				return errors.New("fewer messages than the queue said")
			}
		}
		return nil
	})
	return seen
}

func TestReturnedMessageIsNeverCountedAsStored(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		b, _ := run(t, Config{URLs: []string{url}})
		declare(t, b, n.specs())
		publish(t, b, n.instant, 0, 10)
		deleteQueue(t, url, n.instant)
		publish(t, b, n.instant, 10, 2000) // waits for the confirms, so the queue is back
		seen := ids(t, url, n.instant)
		for i := 10; i < 2000; i++ {
			if seen[numbered(i).ID] == 0 {
				t.Fatalf("message %d was called stored, and is not there", i)
			}
		}
	})
}

// The library hands returns over on the goroutine that reads the connection, waits five seconds
// where there is no room, and forgets the return.
func TestAFloodOfReturnsThatNobodyReadsHoldsUpNobodyAndHidesNoLoss(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		proxy := newProxy(t, url)
		b, _ := run(t, Config{URLs: []string{proxy.url}})
		declare(t, b, n.specs())
		const flood, others = 999, 500
		p, q := b.Publisher("test"), b.Publisher("another")
		used := newTally(2000) // as many may be in flight from then on as the window has
		for i := range 1000 {
			p.Publish(t.Context(), n.instant, numbered(i), used.done)
			q.Publish(t.Context(), n.dead, numbered(i), used.done)
		}
		used.wait(t, 30*time.Second)
		deleteQueue(t, url, n.instant)
		proxy.hold()
		returned := newTally(flood)
		for i := range flood {
			p.Publish(t.Context(), n.instant, numbered(i), returned.done)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		sent, goOn := make(chan struct{}), make(chan struct{})
		release := sync.OnceFunc(func() { close(goOn) })
		defer release()
		p.Publish(ended, n.instant, numbered(flood), func(error) { close(sent); <-goOn })
		<-sent // all that is before it, and from now on nobody reads what comes back
		proxy.pass()
		other := newTally(others)
		for i := range others {
			q.Publish(t.Context(), n.dead, numbered(i), other.done)
		}
		eventually(t, 4*time.Second, "the confirms of another publisher on the same connection", func() bool { return other.told() == others })
		release()
		returned.wait(t, 30*time.Second)
		seen := ids(t, url, n.instant)
		for i := range flood {
			if seen[numbered(i).ID] == 0 {
				t.Fatalf("message %d was called stored, and is not there", i)
			}
		}
	})
}

// refusing is a queue that takes so many messages and refuses more.
func refusing(t *testing.T, url, prefix string, most int64) (name string) {
	t.Helper()
	name = prefix + ".full"
	raw(t, url, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(name, true, false, false, false,
			amqp.Table{"x-queue-type": "quorum", "x-max-length": most, "x-overflow": "reject-publish"})
		return err
	})
	t.Cleanup(func() { deleteQueue(t, url, name) })
	return name
}

func TestRefusedMessageInsideAnAckOfManyIsNoConfirm(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		full := refusing(t, url, n.instant, 5)
		b, stop := run(t, Config{URLs: []string{url}})
		declare(t, b, n.specs())
		const rounds = 3000
		stored := newTally(rounds)
		var claimed atomic.Int64
		p := b.Publisher("test")
		for i := range rounds {
			p.Publish(t.Context(), n.instant, numbered(i), stored.done)
			p.Publish(t.Context(), full, numbered(i), func(err error) {
				if err == nil {
					claimed.Add(1)
				}
			})
		}
		eventually(t, 30*time.Second, "the others to be stored", func() bool { return stored.told() == rounds })
		stop()
		if there := len(ids(t, url, full)); int(claimed.Load()) > there {
			t.Errorf("%d messages were called stored in a queue that has %d", claimed.Load(), there)
		}
	})
}

func TestNothingThatWasConfirmedIsLostWhenConnectionsAreCut(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		p := newProxy(t, url)
		b, _ := run(t, Config{URLs: []string{p.url}, BackoffMin: 10 * time.Millisecond, BackoffMax: 100 * time.Millisecond})
		declare(t, b, n.specs())
		const count = 20_000
		c := newTally(count)
		publisher := b.Publisher("test")
		for i := range count {
			publisher.Publish(t.Context(), n.instant, numbered(i), c.done)
		}
		cuts := 0
		for c.told() < count && sleep(t.Context(), 150*time.Millisecond) && cuts < 8 {
			p.cut()
			cuts++
		}
		c.wait(t, time.Minute)
		seen := ids(t, url, n.instant)
		twice := 0
		for i := range count {
			switch seen[numbered(i).ID] {
			case 0:
				t.Fatalf("message %d is lost", i)
			case 1:
			default:
				twice++
			}
		}
		t.Logf("%d cuts, %d messages twice", cuts, twice)
	})
}

func TestMessageTheBrokerFindsTooLargeFailsAloneAndTheOthersGoOn(t *testing.T) {
	onOwn(t, testbroker.RabbitOptions{Conf: []string{"max_message_size = 100000"}}, func(t *testing.T, node *testbroker.Rabbit) {
		n := newNames(t, "")
		var log text
		b, _ := run(t, Config{URLs: []string{node.URL}, BackoffMin: 10 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		declare(t, b, n.specs())
		const count = 400
		c := newTally(count)
		failed := make(chan error, 1)
		p := b.Publisher("test")
		for i := range count {
			if i == 200 {
				p.Publish(t.Context(), n.instant, queue.Message{ID: "big", Body: make([]byte, 200_000)}, func(err error) { failed <- err })
			}
			p.Publish(t.Context(), n.instant, numbered(i), c.done)
		}
		c.wait(t, 30*time.Second)
		select {
		case err := <-failed:
			if !errors.Is(err, queue.ErrTooLarge) {
				t.Errorf("the large message ended with %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("nothing was said of the large message")
		}
		// Two channels end with others in flight, and one with the large message alone.
		if ends := strings.Count(log.String(), "msg=\"waiting for RabbitMQ\""); ends > 3 {
			t.Errorf("%d channels ended until the large message was known", ends)
		}
	})
}

func TestTooLargeIsSaidBeforeAnythingIsSent(t *testing.T) {
	b := New(Config{MaxMessageSize: 1000})
	long := strings.Repeat("x", 300)
	for what, m := range map[string]queue.Message{
		"body":        {Body: make([]byte, 1001)},
		"header":      {Headers: map[string]any{"x": make([]byte, 1001)}},
		"id":          {ID: long},
		"header name": {Headers: map[string]any{long: "x"}},
	} {
		if _, err := encode(m, b.config.MaxMessageSize); !errors.Is(err, queue.ErrTooLarge) {
			t.Errorf("large %s: %v", what, err)
		}
	}
	if _, err := encode(queue.Message{Headers: map[string]any{"x": make([]byte, maxHeaders)}}, 1<<30); !errors.Is(err, queue.ErrTooLarge) {
		t.Errorf("headers beyond a frame: %v", err)
	}
}

func TestWhatTheBrokerWroteIntoHeadersIsNotSentBack(t *testing.T) {
	sent, err := encode(queue.Message{Headers: map[string]any{
		"x-death": []any{amqp.Table{"queue": "x"}}, "x-death-count": int64(1), "x-first-death-queue": "x", "x-last-death-reason": "expired",
		"x-delivery-count": int64(3), "x-acquired-count": int64(3), "CC": []any{"other"}, "BCC": []any{"other"},
		"sw-key": []byte("k"), "number": 1 << 40,
	}}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if len(sent.Headers) != 2 || sent.Headers["number"] != int64(1<<40) {
		t.Errorf("sent: %v", sent.Headers)
	}
	if sent.DeliveryMode != amqp.Persistent {
		t.Errorf("mode %d", sent.DeliveryMode)
	}
}

func TestEndedContextEndsWhatWasNotSent(t *testing.T) {
	b, stop := run(t, Config{URLs: []string{"amqp://127.0.0.1:1/"}})
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan error, 2)
	p := b.Publisher("test")
	p.Publish(ctx, "nowhere", numbered(1), func(err error) { told <- err })
	p.Publish(t.Context(), "nowhere", numbered(2), func(err error) { told <- err })
	cancel()
	if err := <-told; !errors.Is(err, context.Canceled) {
		t.Errorf("after its context ended: %v", err)
	}
	stop()
	if err := <-told; !errors.Is(err, queue.ErrClosed) {
		t.Errorf("after Run ended: %v", err)
	}
	p.Publish(t.Context(), "nowhere", numbered(3), func(err error) { told <- err })
	if err := <-told; !errors.Is(err, queue.ErrClosed) {
		t.Errorf("published after Run ended: %v", err)
	}
}

func TestEveryPublishIsToldExactlyOnceThroughCutsAndStop(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		proxy := newProxy(t, url)
		b, stop := run(t, Config{URLs: []string{proxy.url}, BackoffMin: 5 * time.Millisecond, BackoffMax: 50 * time.Millisecond})
		declare(t, b, n.specs())
		const count = 30_000
		told := make([]atomic.Int32, count)
		var all sync.WaitGroup
		for worker := range 3 {
			p := b.Publisher(fmt.Sprint("test ", worker))
			all.Go(func() {
				for i := worker; i < count; i += 3 {
					ctx, cancel := context.WithCancel(context.Background())
					if rand.IntN(10) == 0 {
						cancel()
					}
					p.Publish(ctx, n.instant, numbered(i), func(error) { told[i].Add(1); cancel() })
				}
			})
		}
		for range 5 {
			sleep(t.Context(), 100*time.Millisecond)
			proxy.cut()
		}
		all.Wait()
		stop()
		eventually(t, 5*time.Second, "every publish told once", func() bool {
			for i := range told {
				if told[i].Load() != 1 {
					return false
				}
			}
			return true
		})
	})
}

func TestWhatWasReturnedIsNeverCountedAsStoredWhereItsQueueWasAskedAlone(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		b, _ := run(t, Config{URLs: []string{url}})
		declare(t, b, n.specs())
		for name, learn := range map[string]func(*lane){
			"by its confirm": func(l *lane) { s, _ := b.publish.current(); l.lookAside(s, time.Now()) },
			"when all ends":  (*lane).abandon,
		} {
			l := newLane(&publisher{b: b, name: "test"})
			session, _ := b.publish.current()
			msg, err := encode(queue.Message{ID: "1"}, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			stored, missing := false, n.instant+".missing"
			o := &outgoing{ctx: t.Context(), queue: missing, msg: msg, done: func(err error) { stored = stored || err == nil }}
			a := &aside{waiting: []*outgoing{o}, patience: time.Minute}
			l.aside[missing] = a
			l.ask(a, session, time.Now())
			<-o.confirm.Done()
			if learn(l); stored {
				t.Errorf("%s: counted as stored", name)
			}
		}
	})
}

func TestWhatWasReturnedIsNeverCountedAsStoredHoweverItsLaneLearnsOfTheConfirm(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		b, _ := run(t, Config{URLs: []string{url}})
		declare(t, b, n.specs())
		for name, learn := range map[string]func(*lane){
			"by a confirm out of order": (*lane).settleOutOfOrder,
			"when its channel ends":     func(l *lane) { l.end(errCannotSend) },
			"when all ends":             (*lane).abandon,
		} {
			l := newLane(&publisher{b: b, name: "test"})
			session, _ := b.publish.current()
			l.openChannel(session)
			missing := n.instant + ".missing"
			stored := false
			for _, to := range []string{n.instant, missing} { // what is returned is confirmed at once, the other when it is on disk
				msg, err := encode(queue.Message{ID: to}, 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				told := func(err error) { stored = stored || to == missing && err == nil }
				if err := l.sendOne(&outgoing{ctx: t.Context(), queue: to, msg: msg, done: told}); err != nil {
					t.Fatal(err)
				}
			}
			<-l.flight[1].confirm.Done()
			if learn(l); stored {
				t.Errorf("%s: counted as stored", name)
			}
		}
	})
}
