package rabbit

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/testbroker"
)

func alarm(node *testbroker.Rabbit, on bool) {
	if on {
		node.Ctl("set_vm_memory_high_watermark", "absolute", "1MB")
	} else {
		node.Ctl("set_vm_memory_high_watermark", "0.9")
	}
}

func TestAlarmStopsPublishersOnlyAndIsNoReasonToPublishTwice(t *testing.T) {
	onOwn(t, testbroker.RabbitOptions{}, func(t *testing.T, node *testbroker.Rabbit) {
		n := newNames(t, "")
		var over atomic.Bool
		slow := newThief(t, node.URL, func(class, method uint16) bool {
			const basic, ack = 60, 80
			if class == basic && method == ack && over.CompareAndSwap(true, false) {
				sleep(t.Context(), 300*time.Millisecond) // the first confirm after the alarm takes longer than looks are apart
			}
			return false
		})
		var log text
		b, _ := run(t, Config{URLs: []string{slow.url}, ConfirmTimeout: 2 * time.Second, Heartbeat: 2 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		declare(t, b, n.specs())
		publish(t, b, n.instant, 0, 100)
		p := b.Publisher("test")
		send := func(count int) *tally {
			c := newTally(count)
			for i := range count {
				m := numbered(1000 + i)
				m.Body = make([]byte, 10_000)
				p.Publish(t.Context(), n.dead, m, c.done)
			}
			return c
		}
		send(500).wait(t, 10*time.Second) // many may be under way now, and are when the alarm is noticed
		alarm(node, true)
		c := send(2000)
		eventually(t, 10*time.Second, "the alarm in the status", func() bool { return b.Status().Blocked })
		told := func(message, field string) bool {
			return strings.Contains(log.String(), message+`" part=publish `+field+`="RabbitMQ takes no messages: memory or disk alarm"`)
		}
		eventually(t, 10*time.Second, "the alarm in the log", func() bool { return told("waiting for RabbitMQ", "reason") })
		var count atomic.Int64
		consume(t, b, queue.Consumption{Queue: n.instant, Handle: ackAll(&count)})
		eventually(t, 5*time.Second, "consuming under an alarm", func() bool { return count.Load() == 100 })
		if err := b.Accepts(within(t, time.Second)); !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("who is to publish under an alarm is told %v", err)
		}
		if l, err := b.Lease(within(t, 5*time.Second), n.dead); err != nil {
			t.Errorf("lease under an alarm, by who publishes nothing: %v", err)
		} else {
			l.Release()
		}
		sleep(t.Context(), 6*time.Second) // three times what a confirm may take, and the heartbeats' patience
		if s := b.Status(); !s.Blocked || !s.Up {
			t.Errorf("status after a while: %+v", s)
		}
		over.Store(true)
		alarm(node, false)
		c.wait(t, 30*time.Second)
		eventually(t, 10*time.Second, "its end in the log", func() bool { return told("RabbitMQ is in use again", "after") })
		depthIs(t, b, n.dead, 2500)
	})
}

func TestStopUnderAnAlarmTakesLessThanASecond(t *testing.T) {
	onOwn(t, testbroker.RabbitOptions{}, func(t *testing.T, node *testbroker.Rabbit) {
		n := newNames(t, "")
		b, stop := run(t, Config{URLs: []string{node.URL}})
		declare(t, b, n.specs())
		alarm(node, true)
		const count = 5000
		c := newTally(count)
		p := b.Publisher("test")
		for range count {
			p.Publish(t.Context(), n.dead, queue.Message{Body: make([]byte, 100_000)}, c.done)
		}
		eventually(t, 10*time.Second, "the alarm in the status", func() bool { return b.Status().Blocked })
		since := time.Now()
		stop()
		if took := time.Since(since); took > time.Second {
			t.Errorf("stop took %s", took)
		}
		if got := c.told(); got != count {
			t.Errorf("%d of %d publishes were told that it is over", got, count)
		}
	})
}

func TestKilledNodeHasAllThatWasConfirmedAndEverythingGoesOn(t *testing.T) {
	onOwn(t, testbroker.RabbitOptions{}, func(t *testing.T, node *testbroker.Rabbit) {
		n := newNames(t, "")
		b, _ := run(t, Config{URLs: []string{node.URL}})
		declare(t, b, n.specs())
		const count = 60_000
		c := newTally(count)
		p := b.Publisher("test")
		for i := range count {
			p.Publish(t.Context(), n.instant, numbered(i), c.done)
		}
		eventually(t, 10*time.Second, "some confirms", func() bool { return c.told() > 3000 })
		node.Kill()
		if told := c.told(); told == count {
			t.Fatal("all was confirmed before the kill: publish more")
		}
		eventually(t, 10*time.Second, "the outage in the status", func() bool {
			s := b.Status()
			return !s.Up && strings.Contains(s.Detail, "rabbitmq.url")
		})
		node.Start()
		c.wait(t, time.Minute)
		seen := ids(t, node.URL, n.instant)
		for i := range count {
			if seen[numbered(i).ID] == 0 {
				t.Fatalf("message %d was confirmed and is lost", i)
			}
		}
		var handled atomic.Int64
		consume(t, b, queue.Consumption{Queue: n.instant, Handle: ackAll(&handled)})
		publish(t, b, n.instant, 0, 10)
		eventually(t, 10*time.Second, "consuming after the kill", func() bool { return handled.Load() >= 10 })
	})
}

func TestSilentConnectionIsGivenUp(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		proxy := newProxy(t, url)
		b, _ := run(t, Config{URLs: []string{proxy.url, url}, Heartbeat: time.Second})
		declare(t, b, n.specs())
		var handled atomic.Int64
		consume(t, b, queue.Consumption{Queue: n.instant, Handle: ackAll(&handled)})
		publish(t, b, n.instant, 0, 10)
		proxy.hold() // the second URL does not pass there
		publish(t, b, n.instant, 10, 20)
		eventually(t, 20*time.Second, "all handled", func() bool { return handled.Load() >= 20 })
	})
}

func TestLateConfirmEndsTheSession(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		proxy := newProxy(t, url)
		b, _ := run(t, Config{URLs: []string{proxy.url}, ConfirmTimeout: time.Second, Heartbeat: 30 * time.Second})
		declare(t, b, n.specs())
		publish(t, b, n.instant, 0, 10)
		proxy.hold()
		c := newTally(10)
		p := b.Publisher("test")
		for i := range 10 {
			p.Publish(t.Context(), n.instant, numbered(10+i), c.done)
		}
		eventually(t, 20*time.Second, "the session to end", func() bool {
			return strings.Contains(b.Status().Detail, "rabbitmq.confirm_timeout") || !b.Status().Up
		})
		proxy.pass()
		c.wait(t, 30*time.Second)
	})
}

func TestAQueueThatConfirmsNothingIsNamedUntilItDoes(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		var steals atomic.Bool
		const basic, ack, nack = 60, 80, 120
		proxy := newThief(t, url, func(class, method uint16) bool {
			return steals.Load() && class == basic && (method == ack || method == nack)
		})
		b, _ := run(t, Config{URLs: []string{proxy.url}, ConfirmTimeout: time.Second})
		declare(t, b, n.specs())
		publish(t, b, n.instant, 0, 10)
		steals.Store(true)
		c := newTally(10)
		p := b.Publisher("test")
		for i := range 10 {
			p.Publish(t.Context(), n.instant, numbered(10+i), c.done)
		}
		named := func() bool {
			return strings.Contains(b.Status().Detail, "queue "+n.instant+" has confirmed nothing for 1s")
		}
		eventually(t, 20*time.Second, "the queue to be named", named)
		steals.Store(false)
		c.wait(t, 30*time.Second)
		eventually(t, 10*time.Second, "all to be well", func() bool { return !named() })
	})
}

func TestStopEndsEverythingWhileTheBrokerHangs(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		proxy := newProxy(t, url)
		b, stop := run(t, Config{URLs: []string{proxy.url}})
		declare(t, b, n.specs())
		lease, err := b.Lease(t.Context(), n.dead)
		if err != nil {
			t.Fatal(err)
		}
		told := make(chan error, 1)
		proxy.hold()
		b.Publisher("test").Publish(t.Context(), n.instant, numbered(1), func(err error) { told <- err })
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := b.Depth(ctx, n.dead); !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("depth: %v", err)
		}
		since := time.Now()
		stop()
		if took := time.Since(since); took > 2*time.Second {
			t.Errorf("stop took %s", took)
		}
		if err := <-told; !errors.Is(err, queue.ErrClosed) {
			t.Errorf("publish: %v", err)
		}
		lease.Release()
	})
}

func TestErrorsNameTheSettingAndNoPassword(t *testing.T) {
	t.Parallel()
	for _, node := range testbroker.RabbitMQs(t) {
		host := strings.TrimSuffix(strings.SplitN(node.URL, "@", 2)[1], "/")
		for what, c := range map[string]struct {
			config Config
			says   []string
		}{
			"wrong password":  {Config{URLs: []string{"amqp://guest:hunter2@" + host}}, []string{"refuses user \"guest\"", "rabbitmq.url"}},
			"own password":    {Config{URLs: []string{"amqp://guest:guest@" + host}, Password: "hunter2"}, []string{"refuses user \"guest\""}},
			"unknown vhost":   {Config{URLs: []string{"amqp://guest:guest@" + host + "/none"}}, []string{"vhost \"none\"", "rabbitmq.vhost"}},
			"nobody there":    {Config{URLs: []string{"amqp://guest:hunter2@127.0.0.1:1"}}, []string{"127.0.0.1:1", "rabbitmq.url", "refused"}},
			"no TLS there":    {Config{URLs: []string{"amqps://guest:hunter2@" + host}}, []string{"TLS", "amqps"}},
			"all of several":  {Config{URLs: []string{"amqp://u:hunter2@127.0.0.1:1", "amqp://u:hunter2@127.0.0.1:2"}}, []string{"127.0.0.1:1", "127.0.0.1:2"}},
			"name of no host": {Config{URLs: []string{"amqp://u:hunter2@nowhere.invalid"}}, []string{"nowhere.invalid"}},
		} {
			t.Run(node.Version+" "+what, func(t *testing.T) {
				t.Parallel()
				b, _ := run(t, c.config)
				says := func() bool {
					for _, part := range c.says {
						if !strings.Contains(b.Status().Detail, part) {
							return false
						}
					}
					return true
				}
				eventually(t, 15*time.Second, strings.Join(c.says, ", ")+" in the detail", says)
				if d := b.Status().Detail; strings.Contains(d, "hunter2") {
					t.Errorf("the detail has the password: %s", d)
				} else {
					t.Log(d)
				}
			})
		}
	}
}

// Whoever asks is told to ask again, and not that something is wrong inside.
func TestALookAtAQueueWhoseConnectionIsLostMeanwhileSaysThatTheQueuesAreAway(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		var steals atomic.Bool
		asked := make(chan struct{}, 10)
		const class, declared = 50, 11
		proxy := newThief(t, url, func(of, method uint16) bool {
			steal := steals.Load() && of == class && method == declared
			if steal {
				asked <- struct{}{}
			}
			return steal
		})
		b, _ := run(t, Config{URLs: []string{proxy.url}})
		declare(t, b, n.specs())
		steals.Store(true)
		told := make(chan error, 1)
		go func() {
			_, err := b.Depth(t.Context(), n.dead)
			told <- err
		}()
		<-asked
		proxy.cut()
		if err := <-told; !errors.Is(err, queue.ErrUnavailable) || errors.Is(err, queue.ErrMissing) {
			t.Errorf("%v", err)
		}
	})
}

func TestURLThatIsNoneEndsRunWithoutItsPassword(t *testing.T) {
	for _, url := range []string{"http://u:hunter2@h", "amqp://u:hunter2@h:port/", "amqp://u:hunter2 @h", "amqp://u:hun%ter2@h", ""} {
		err := New(Config{URLs: []string{url}}).Run(t.Context())
		if err == nil || strings.Contains(err.Error(), "ter2") || !strings.Contains(err.Error(), "rabbitmq.url") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestTLSIsNeverLeftOutInSilence(t *testing.T) {
	err := New(Config{URLs: []string{"amqp://u:hunter2@127.0.0.1:1"}, TLS: &tls.Config{MinVersion: tls.VersionTLS12}}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "amqps://") {
		t.Errorf("Run: %v", err)
	}
}

func TestIdleConnectionIsKept(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b, _ := run(t, Config{URLs: []string{url}, Heartbeat: 30 * time.Second})
		eventually(t, 10*time.Second, "a connection", func() bool { return b.Status().Up })
		first, _ := b.publish.current()
		sleep(t.Context(), handshakeLimit+time.Second) // nothing passes for longer than a handshake may take
		if now, _ := b.publish.current(); now != first {
			t.Errorf("the connection is another one: %+v", b.Status())
		}
	})
}

func TestAWalkWaitsForABrokerThatWentAwayJustNowAndNotForOneThatIsKnownToBeAway(t *testing.T) {
	const wait = time.Second
	b, _ := run(t, Config{URLs: []string{"amqp://u:p@127.0.0.1:1/"}, LeaseWait: wait})
	eventually(t, 10*time.Second, "it is away", func() bool { return b.publish.away() > 0 })
	asks := map[string]func() error{
		"a lease":           func() error { _, err := b.Lease(t.Context(), "q"); return err },
		"who is to publish": func() error { return b.Accepts(t.Context()) },
	}
	var g sync.WaitGroup
	for name, ask := range asks {
		g.Go(func() {
			began := time.Now()
			if err := ask(); !errors.Is(err, queue.ErrUnavailable) || errors.Is(err, errAway) || time.Since(began) < wait {
				t.Errorf("%s, at first: %v after %v", name, err, time.Since(began))
			}
		})
	}
	g.Wait()
	eventually(t, 10*time.Second, "it has been away for longer", func() bool { return b.publish.away() > wait })
	for name, ask := range asks {
		if err := ask(); !errors.Is(err, queue.ErrUnavailable) || !errors.Is(err, errAway) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%s, later: %v", name, err)
		}
	}
}
