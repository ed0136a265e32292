package memory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/queue"
)

// inBubble runs the test on a false clock with a broker that has a stream's queues; a delay is a
// minute.
func inBubble(t *testing.T, test func(t *testing.T, b *memory.Broker)) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New()
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- b.Run(ctx) }()
		t.Cleanup(func() { cancel(); <-ended })
		err := b.Declare(ctx, []queue.Spec{
			{Name: "delay", Kind: queue.Delay, TTL: time.Minute, Target: "instant"}, {Name: "instant", Kind: queue.Instant, Target: "dead"}, {Name: "dead", Kind: queue.DeadSet},
		})
		if err != nil {
			t.Fatal(err)
		}
		test(t, b)
	})
}

func publish(t *testing.T, b *memory.Broker, name, id string) <-chan error {
	t.Helper()
	told := make(chan error, 1)
	b.Publisher("test").Publish(t.Context(), name, queue.Message{ID: id}, func(err error) { told <- err })
	synctest.Wait()
	return told
}

func depthIs(t *testing.T, b *memory.Broker, name string, want int) {
	t.Helper()
	if n, err := b.Depth(t.Context(), name); err != nil || n != want {
		t.Errorf("%s has %d messages, not %d; %v", name, n, want, err)
	}
}

func TestAConsumerGoesOnAfterAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker) {
		publish(t, b, "instant", "1")
		got := make(chan queue.Delivery)
		full := make(chan struct{}) // closed: somebody takes deliveries
		stop, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- b.Consume(stop, t.Context(), queue.Consumption{Queue: "instant", Handle: func(ctx context.Context, d queue.Delivery) bool {
				select {
				case <-full:
				case <-ctx.Done(): // ends with the session, though nobody asked to stop
					return false
				}
				got <- d
				return true
			}})
		}()
		synctest.Wait()
		b.SetUp(false)
		time.Sleep(24 * time.Hour)
		b.SetUp(true)
		synctest.Wait()
		depthIs(t, b, "instant", 0) // handed out again
		close(full)
		d := <-got
		if !d.Redelivered || d.Returns != 1 {
			t.Errorf("%+v", d)
		}
		d.Ack()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestAnAlarmHoldsPublishesAndNothingElse(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker) {
		publish(t, b, "delay", "1")
		b.Block(true)
		told := publish(t, b, "instant", "2")
		time.Sleep(time.Hour)
		depthIs(t, b, "instant", 1) // the delay went on
		began := time.Now()
		if err := b.Accepts(t.Context()); !errors.Is(err, queue.ErrUnavailable) || time.Since(began) != 10*time.Second {
			t.Errorf("Accepts: %v after %v", err, time.Since(began))
		}
		l, err := b.Lease(t.Context(), "dead")
		if err != nil {
			t.Fatalf("Lease, by who publishes nothing: %v", err)
		}
		l.Release()
		if s := b.Status(); !s.Up || !s.Blocked {
			t.Errorf("%+v", s)
		}
		b.Block(false)
		if err := <-told; err != nil {
			t.Error(err)
		}
		depthIs(t, b, "instant", 2)
	})
}

func TestWhatIsDueWaitsForItsTarget(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker) {
		publish(t, b, "delay", "1")
		b.Delete("instant")
		time.Sleep(time.Hour)
		depthIs(t, b, "delay", 1)
		if err := b.Declare(t.Context(), []queue.Spec{{Name: "instant", Kind: queue.Instant, Target: "dead"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		depthIs(t, b, "delay", 0)
		depthIs(t, b, "instant", 1)
	})
}

func TestALeaseEndsWithItsConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker) {
		old, err := b.Lease(t.Context(), "dead")
		if err != nil {
			t.Fatal(err)
		}
		b.SetUp(false)
		b.SetUp(true)
		if _, err := old.Window(t.Context(), 1, 1); !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("Window: %v", err)
		}
		if _, err := b.Lease(t.Context(), "dead"); err != nil {
			t.Errorf("Lease: %v", err)
		}
		old.Release() // frees nothing
		if _, err := b.Lease(t.Context(), "dead"); !errors.Is(err, queue.ErrLeased) {
			t.Errorf("Lease beside another: %v", err)
		}
	})
}

func TestDeclareWaitsForTheEndOfAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker) {
		b.SetUp(false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		specs := []queue.Spec{{Name: "other", Kind: queue.DeadSet}}
		if err := b.Declare(ctx, specs); !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("Declare: %v", err)
		}
		time.AfterFunc(time.Hour, func() { b.SetUp(true) })
		if err := b.Declare(t.Context(), specs); err != nil {
			t.Errorf("Declare: %v", err)
		}
		depthIs(t, b, "other", 0)
	})
}

func TestWhatIsPublishedToAnExchangeWaitsForTheEndOfAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker) {
		b.MaxMessageSize = 100
		if err := b.Declare(t.Context(), []queue.Spec{{Name: "source", Kind: queue.Source, Exchange: "events", Keys: []string{"#"}}}); err != nil {
			t.Fatal(err)
		}
		events := memory.Exchange{Broker: b, Name: "events"}
		for hinder, change := range map[string]func(is bool){"outage": func(is bool) { b.SetUp(!is) }, "alarm": b.Block} {
			change(true)
			if err := events.Publish(t.Context(), "a", queue.Message{}); !errors.Is(err, queue.ErrUnavailable) {
				t.Errorf("for as long as it waits there is an %s: %v", hinder, err)
			}
			time.AfterFunc(9*time.Second, func() { change(false) })
			if err := events.Publish(t.Context(), "a", queue.Message{}); err != nil {
				t.Errorf("%s: %v", hinder, err)
			}
		}
		if err := events.Publish(t.Context(), "a", queue.Message{Body: make([]byte, 101)}); !errors.Is(err, queue.ErrTooLarge) {
			t.Errorf("a message that is too large: %v", err)
		}
		depthIs(t, b, "source", 2)
	})
}
