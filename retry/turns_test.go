package retry_test

import (
	"context"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/retry"
)

// Eleven connections that were cut make each message a suspect that was in hand.
func TestInnocentSuspectsHaveTheirTurnsSoonHoweverLongARetryWaits(t *testing.T) {
	for _, delay := range []time.Duration{time.Second, mostTurn, time.Minute, time.Hour} {
		t.Run(delay.String(), func(t *testing.T) {
			const n = 20
			inWorld(t, retry.Linear(delay, 0, 3), func(w *world) {
				for i := range n {
					m := record("x")
					m.Origin.Offset = int64(i)
					m.ID = envelope.ID(m.Origin.Topic, m.Origin.Partition, m.Origin.Offset)
					w.first(m, retry.Failure{Err: errAway})
				}
				time.Sleep(delay + time.Second)
				for range 11 {
					w.comeBack(n)
				}
				w.cfg.Suspects.Limit, w.cfg.Broker = 3, slowToSettle{w.broker}
				w.renew()
				began, done := time.Now(), make(chan bool, n)
				w.start(func(context.Context, *stepwell.Message, retry.Ticket) task.Outcome {
					done <- true
					return task.Settled
				})
				for range n {
					<-done
				}
				if took := time.Since(began); took > 2*time.Minute {
					t.Errorf("the last of %d is handled after %s", n, took)
				}
			})
		})
	}
}

// slowToSettle is a broker whose acks are sure after a while, as RabbitMQ's: so few suspects have a
// turn before the others have gone.
type slowToSettle struct{ queue.Broker }

func (b slowToSettle) Consume(stop, work context.Context, c queue.Consumption) error {
	handle := c.Handle
	c.Handle = func(ctx context.Context, d queue.Delivery) bool {
		d.Session = slowSession{d.Session}
		return handle(ctx, d)
	}
	return b.Broker.Consume(stop, work, c)
}

type slowSession struct{ queue.Session }

func (s slowSession) Flush(ctx context.Context) error {
	select {
	case <-time.After(200 * time.Millisecond):
		return s.Session.Flush(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// mostTurn is that of retry.
const mostTurn = 5 * time.Second

// comeBack has a consumer take the messages of the instant queue, and give them back.
func (w *world) comeBack(messages int) {
	stop, end := context.WithCancel(context.Background())
	defer end()
	var all []queue.Delivery
	take := func(_ context.Context, d queue.Delivery) bool {
		if all = append(all, d); len(all) == messages {
			for _, d := range all {
				d.Release()
			}
			end()
		}
		return true
	}
	if err := w.broker.Consume(stop, stop, queue.Consumption{Queue: w.retrier.Topology().Instant, Prefetch: func() int { return 2 * messages }, Handle: take}); err != nil {
		w.t.Fatal(err)
	}
}
