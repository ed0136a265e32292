package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/queue/queuetest"
)

func TestWhatIsHeldRestsUntilItsContextEndsAndIsNotGivenBackBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trouble := inbox.Trouble{SizeSetting: "MAX_SIZE"}
		ctx, cancel := context.WithCancel(t.Context())
		said, over := 0, make(chan struct{}, 2)
		for _, id := range []string{"a", "b"} {
			trouble.Hold(ctx, nil, inbox.Held{ID: id, Queue: "payments", Bytes: 300}, func() { said++ }, func() { over <- struct{}{} })
		}
		time.Sleep(24 * time.Hour)
		const want = "2 messages are too large to be parked and are held until a stop, the last one is b of queue payments, of 300 bytes: raise MAX_SIZE, and what RabbitMQ takes"
		if text := trouble.Text(); said != 1 || len(over) != 0 || text != want {
			t.Errorf("said %d times, %d given back: %s", said, len(over), text)
		}
		cancel()
		synctest.Wait()
		if text := trouble.Text(); len(over) != 2 || text != "" {
			t.Errorf("%d given back at the end: %s", len(over), text)
		}
	})
}

func TestWhatRestsIsCountedWithTheLastReasonAndSaidOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var trouble inbox.Trouble
		said := 0
		var over atomic.Int32
		rest := func(ctx context.Context, err error) {
			trouble.Rest(ctx, err, func() { said++ }, func() { over.Add(1) })
		}
		if text := trouble.Text(); text != "" {
			t.Errorf("before anything rests: %s", text)
		}
		ctx, cancel := context.WithCancel(t.Context())
		rest(t.Context(), errors.New("alarm"))
		time.Sleep(30 * s)
		rest(ctx, errors.New("too large"))
		if text := trouble.Text(); said != 1 || !strings.HasPrefix(text, "2 messages") || !strings.Contains(text, "too large") {
			t.Errorf("said %d times: %s", said, text)
		}
		cancel()
		synctest.Wait()
		if text := trouble.Text(); over.Load() != 1 || !strings.HasPrefix(text, "1 messages") {
			t.Errorf("%d over after a stop: %s", over.Load(), text)
		}
		time.Sleep(30 * s)
		synctest.Wait()
		if text := trouble.Text(); over.Load() != 2 || text != "" {
			t.Errorf("%d over after a minute: %s", over.Load(), text)
		}
		rest(t.Context(), errors.New("alarm"))
		if said != 2 {
			t.Errorf("said %d times, a minute later", said)
		}
		time.Sleep(time.Minute)
	})
}

// returning is a broker that counts what it is given back.
type returning struct {
	queue.Broker
	returned *atomic.Int32
}

func (b returning) Consume(stop, work context.Context, c queue.Consumption) error {
	handle := c.Handle
	c.Handle = func(ctx context.Context, d queue.Delivery) bool {
		d.Session = returningSession{d.Session, b.returned}
		return handle(ctx, d)
	}
	return b.Broker.Consume(stop, work, c)
}

type returningSession struct {
	queue.Session
	returned *atomic.Int32
}

func (s returningSession) Release(tag uint64) {
	s.returned.Add(1)
	s.Session.Release(tag)
}

// Nobody knows how many returns a queue of somebody else's bears: it may drop the message.
func TestWhatIsTooLargeToBeParkedIsGivenBackToAQueueOfSomebodyElsesOnceAtTheStop(t *testing.T) {
	for name, headers := range map[string]map[string]any{
		"after its call": nil,
		"as it moves on": {"elsewhere": "orders.dead"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				var returned atomic.Int32
				w.cfg.Foreign, w.cfg.Trouble = true, &inbox.Trouble{SizeSetting: "MAX_SIZE"}
				w.cfg.Broker = returning{queuetest.Tight{Broker: w.broker, TooLarge: func(queue.Message) bool { return true }}, &returned}
				w.renew()
				e := envelope.Envelope{Message: stepwell.Message{ID: "order-17", Value: []byte("x"), Attempt: 1}}
				m := e.Encode()
				maps.Copy(m.Headers, headers)
				w.put(w.cfg.Queue, m)
				var c calls
				r := w.start(c.parked(w))
				time.Sleep(time.Hour)
				synctest.Wait()
				if n := returned.Load(); n != 0 || len(c.attempts()) > 1 || w.inbox.Status().InFlight != 1 {
					t.Errorf("it was given back %d times in an hour and called %d times, %d are in flight", n, len(c.attempts()), w.inbox.Status().InFlight)
				}
				if text := w.cfg.Trouble.Text(); !strings.Contains(text, "the last one is order-17 of queue orders, of ") || !strings.HasSuffix(text, "raise MAX_SIZE, and what RabbitMQ takes") {
					t.Errorf("it says %s", text)
				}
				r.end()
				if n := returned.Load(); n != 1 || w.depth(w.cfg.Queue) != 1 || w.cfg.Trouble.Text() != "" {
					t.Errorf("it was given back %d times at the stop, %d are in the queue: %s", n, w.depth(w.cfg.Queue), w.cfg.Trouble.Text())
				}
			})
		})
	}
}

// The broker has it again, and hands it out once more: what was held of the old session would pile
// up, each as large as it came.
func TestWhatIsHeldIsHeldOnceHoweverOftenItsSessionEnds(t *testing.T) {
	for name, headers := range map[string]map[string]any{
		"after its call": nil,
		"as it moves on": {"elsewhere": "orders.dead"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				broker := w.broker.(*memory.Broker)
				w.cfg.Foreign, w.cfg.Trouble = true, &inbox.Trouble{}
				w.cfg.Broker = queuetest.Tight{Broker: w.broker, TooLarge: func(queue.Message) bool { return true }}
				w.renew()
				e := envelope.Envelope{Message: stepwell.Message{ID: "order-17", Value: []byte("x"), Attempt: 1}}
				m := e.Encode()
				maps.Copy(m.Headers, headers)
				w.put(w.cfg.Queue, m)
				var c calls
				r := w.start(c.parked(w))
				for range 5 {
					time.Sleep(time.Hour)
					broker.SetUp(false)
					synctest.Wait()
					if n, text := w.inbox.Status().InFlight, w.cfg.Trouble.Text(); n != 0 || text != "" {
						w.t.Fatalf("without a session %d are in flight: %s", n, text)
					}
					broker.SetUp(true)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if n, text := w.inbox.Status().InFlight, w.cfg.Trouble.Text(); n != 1 || !strings.HasPrefix(text, "1 messages are too large") {
					t.Errorf("%d are in flight: %s", n, text)
				}
				r.end()
				if n := w.depth(w.cfg.Queue); n != 1 {
					t.Errorf("%d are in the queue after the stop", n)
				}
			})
		})
	}
}

func TestWhatIsHeldIsToldBesideWhatRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var trouble inbox.Trouble
		ctx, cancel := context.WithCancel(t.Context())
		var said []string
		trouble.Rest(ctx, errors.New("alarm"), func() { said = append(said, "rests") }, func() {})
		trouble.Hold(ctx, nil, inbox.Held{ID: "a"}, func() { said = append(said, "is held") }, func() {})
		if text := trouble.Text(); !strings.HasPrefix(text, "1 messages cannot be parked and wait for the next attempt, the last one because of: alarm, 1 messages are too large") {
			t.Errorf("it says %s", text)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if text := trouble.Text(); !strings.HasPrefix(text, "1 messages are too large") || len(said) != 2 {
			t.Errorf("when nothing rests any more it says %s; the log had %q", text, said)
		}
		cancel()
		synctest.Wait()
	})
}

func TestAnErrorComesFromAStopWhereTheContextOrTheBrokerHasEnded(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	wrapped := fmt.Errorf("park: %w", queue.ErrClosed)
	if !inbox.AsStop(t.Context(), wrapped) || !inbox.AsStop(ended, queue.ErrTooLarge) || inbox.AsStop(t.Context(), queue.ErrTooLarge) {
		t.Error("a stop is told wrongly from other errors")
	}
}

// failing is a broker that consumes for a while, and then cannot any more.
type failing struct{ queue.Broker }

func (b failing) Consume(stop, _ context.Context, c queue.Consumption) error {
	stop, end := context.WithTimeout(stop, 10*s)
	defer end()
	_ = b.Broker.Consume(stop, stop, c)
	return fmt.Errorf("consume %s: %w", c.Queue, queue.ErrClosed)
}

func TestWhatRestsIsNoTroubleOfARunThatHasEndedWithAnError(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.grudging()
		w.cfg.Broker = failing{w.cfg.Broker.(queue.Broker)}
		w.renew()
		w.instant(1)
		r := w.start(new(calls).parked(w))
		time.Sleep(5 * s)
		if n := w.inbox.Status().InFlight; n != 1 || w.cfg.Trouble.Text() == "" {
			t.Errorf("%d in hand, and the trouble is %q, while it rests", n, w.cfg.Trouble.Text())
		}
		if err := <-r.ended; !errors.Is(err, queue.ErrClosed) {
			t.Errorf("error %v", err)
		}
		synctest.Wait()
		w.has(0, 1)
		if text := w.cfg.Trouble.Text(); text != "" {
			t.Errorf("the run has ended, and the trouble is %q", text)
		}
	})
}
