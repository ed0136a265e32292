package retry

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

// away is a broker that cannot be reached: a declaration goes on until its context ends.
type away struct {
	queue.Broker
	declarations int
}

func (a *away) Declare(ctx context.Context, _ []queue.Spec) error {
	a.declarations++
	<-ctx.Done()
	return ctx.Err()
}

// Whoever waits for a queue while RabbitMQ is away, and gives up, is forgotten: an outage may be
// long, and there may be a thousand of them each second.
func TestWhoGivesUpWhileAQueueIsDeclaredLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topology, err := NewTopology("app", "jobs", nil, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		broker := &away{}
		l := newLadder(topology, broker, slog.New(slog.DiscardHandler))
		defer l.close()
		errGone := errors.New("gone")
		for range 100 {
			ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, errGone)
			if err := l.await(ctx, envelope.Wait{Remaining: time.Hour, Whole: time.Hour}); !errors.Is(err, errGone) {
				t.Fatalf("waited until %v", err)
			}
			cancel()
		}
		synctest.Wait()
		if broker.declarations != 1 || len(l.waiting) != 0 {
			t.Errorf("%d declarations, %d wait", broker.declarations, len(l.waiting))
		}
	})
}
