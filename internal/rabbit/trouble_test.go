package rabbit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// newTold is a trouble, and how often its log says something so far.
func newTold(t *testing.T) (tr *trouble, lines func(said string) int) {
	t.Helper()
	var log text
	return newTrouble(slog.New(slog.NewTextHandler(&log, nil))), func(said string) int { return strings.Count(log.String(), said) }
}

func TestABalancerThatEndsEachConnectionIsLoggedOnceForEachReason(t *testing.T) {
	t.Parallel()
	tr, lines := newTold(t)
	for port := range 50 {
		tr.set("publish", fmt.Sprintf("connection lost: read tcp 10.0.0.1:%d->10.0.0.2:5672: read: connection reset by peer", 40000+port))
		tr.set("consume", "connection lost: EOF")
		tr.set("publish", "connection lost: EOF")
	}
	if n := lines("waiting for RabbitMQ"); n != 2 {
		t.Errorf("%d lines of two reasons", n)
	}
	if got, want := tr.text(), "connection lost: EOF"; got != want {
		t.Errorf("now it says %q, want %q", got, want)
	}
	tr.clear("publish")
	tr.clear("consume")
	tr.set("publish", "connection lost: read tcp 10.0.0.1:41000->10.0.0.2:5672: read: connection reset by peer")
	if n := lines("read tcp 10.0.0.2:5672: read: connection reset by peer"); n != 2 {
		t.Errorf("a reset is in %d lines, of two outages", n)
	}
}

func TestReasonsWithoutEndAreNotAllKept(t *testing.T) {
	t.Parallel()
	tr, lines := newTold(t)
	for i := range 100 {
		tr.set("publish", fmt.Sprintf("reason %d", i))
	}
	if n := len(tr.what["publish"]); n != mostTold || lines("waiting for RabbitMQ") != 100 {
		t.Errorf("%d reasons are kept, want %d; %d lines", n, mostTold, lines("waiting for RabbitMQ"))
	}
}

func TestAStopIsNoSignThatAQueueIsConsumedAgain(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		var log text
		b, _ := run(t, Config{URLs: []string{url}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		name := newNames(t, url).instant // nobody declares it
		stop := consume(t, b, queue.Consumption{Queue: name, Handle: func(context.Context, queue.Delivery) bool { return true }})
		eventually(t, 20*time.Second, "trouble", func() bool { return b.Trouble(name) != "" })
		if says := b.Trouble(name); strings.Count(says, "consume "+name) != 1 || !strings.Contains(says, "NOT_FOUND") {
			t.Errorf("it says %s", says)
		}
		stop()
		if said := log.String(); strings.Contains(said, "in use again") || b.Trouble(name) != "" {
			t.Errorf("trouble %q, and the log has\n%s", b.Trouble(name), said)
		}
	})
}

// Only a confirm takes it back, and a publisher that is idle has none.
func TestAChannelThatEndsHindersNobodyWhoHasNothingToPublish(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b, _ := run(t, Config{URLs: []string{url}})
		s, err := b.session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for waits, want := range map[bool]string{false: "", true: "the channel is gone"} {
			l := newLane(&publisher{b: b, name: "test"})
			if l.open, err = s.open(1); err != nil {
				t.Fatal(err)
			}
			if waits {
				l.pending = []*outgoing{{}}
			}
			l.end(errors.New("the channel is gone"))
			if got := b.trouble.of(l.part); got != want {
				t.Errorf("with something to publish: %t; what hinders it is %q", waits, got)
			}
			b.trouble.forget(l.part)
		}
	})
}

// A reason that stays would also keep the next outage of the same reason out of the log.
func TestAPublisherWhoseCallersGaveUpIsHinderedByNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{URLs: []string{"amqp://localhost"}})
		p := &publisher{b: b, name: "test", wake: make(chan struct{}, 1)}
		l := newLane(p)
		asking, giveUp := context.WithCancel(t.Context())
		told := make(chan error, 1)
		p.Publish(asking, "orders", queue.Message{ID: "1"}, func(err error) { told <- err })
		ctx, cancel := context.WithCancel(t.Context())
		go l.run(ctx) // its end is waited for below
		synctest.Wait()
		b.trouble.set(l.part, "the channel is gone")
		if b.trouble.of(l.part) == "" {
			t.Error("what waits is hindered by nothing")
		}
		giveUp()
		<-told
		synctest.Wait()
		if says := b.trouble.of(l.part); says != "" {
			t.Errorf("nothing waits, and it is hindered by %q", says)
		}
		cancel()
		synctest.Wait()
	})
}

func TestAQueueThatRefusesHindersNobodyOnceItsCallersGaveUp(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		full := refusing(t, url, newNames(t, url).instant, 1)
		b, _ := run(t, Config{URLs: []string{url}})
		p := b.Publisher("test")
		ctx, giveUp := context.WithCancel(t.Context())
		c := newTally(5)
		for i := range 5 {
			p.Publish(ctx, full, numbered(i), c.done)
		}
		eventually(t, 20*time.Second, "a refusal", func() bool { return strings.Contains(b.Status().Detail, "refuses messages") })
		giveUp()
		eventually(t, 20*time.Second, "the answers", func() bool { return c.told() == 5 })
		eventually(t, 20*time.Second, "no trouble", func() bool { return !strings.Contains(b.Status().Detail, "refuses") })
	})
}
