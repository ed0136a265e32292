package inbox_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/queue"
)

// ahead is a broker that tells how much is to be fetched ahead.
type ahead struct {
	queue.Broker
	prefetch chan func() int
}

func (b ahead) Consume(stop, work context.Context, c queue.Consumption) error {
	b.prefetch <- c.Prefetch
	return b.Broker.Consume(stop, work, c)
}

// A stranger may have put all that a message says into its headers.
func TestWhatIsLargeByItsHeadersIsFetchedFewAtATime(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		broker := ahead{w.broker, make(chan func() int, 1)}
		w.cfg.Broker, w.cfg.HandlerTimeout = broker, time.Millisecond
		w.cfg.Workers, w.cfg.Prefetch = 1, inbox.Prefetch{Messages: 1000, Bytes: 1 << 20}
		w.cfg.Divert = func(_ context.Context, d queue.Delivery) (string, queue.Message, bool) {
			return w.cfg.Queue + ".dead", queue.Message{ID: d.ID}, true
		}
		w.renew()
		w.put(w.cfg.Queue, queue.Message{ID: "a", Headers: map[string]any{"h": strings.Repeat("x", 100<<10)}})
		r := w.start(nil)
		synctest.Wait()
		prefetch := <-broker.prefetch
		r.end()
		if got := prefetch(); got != 10 {
			t.Errorf("%d at once, want those that fit into a MiB", got)
		}
	})
}
