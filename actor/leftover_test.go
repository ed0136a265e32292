package actor

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/retry"
)

// In a rolling deploy the last process with retries ends after the first one without has looked.
func TestWhatAnotherProcessLeavesAfterRetriesWereTurnedOffHereIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		broker, log := memory.New(), &lines{}
		go func() { _ = broker.Run(ctx) }()
		topology, err := retry.NewTopology("shop", "orders", retry.Linear(time.Second, 0, 1), 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := broker.Declare(ctx, topology.Specs()); err != nil {
			t.Fatal(err)
		}
		l := &left{line: &line{broker: broker, log: slog.New(slog.NewTextHandler(log, nil))}, topology: topology, setting: "RETRY_ENABLED"}
		l.line.retries = l
		go func() { _ = l.work(ctx, ctx) }()
		leave := func() {
			broker.Publisher("another").Publish(ctx, topology.Instant, queue.Message{}, func(err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
		says := func(times int, what string) {
			t.Helper()
			synctest.Wait()
			if all := log.String(); strings.Count(all, "messages from before wait") != times || !strings.Contains(all, what) {
				t.Errorf("the log says\n%s", all)
			}
		}
		time.Sleep(time.Second)
		says(0, "")
		leave()
		time.Sleep(time.Minute)
		says(1, "shop.orders.instant=1")
		time.Sleep(time.Hour)
		says(1, "")
		leave()
		time.Sleep(time.Minute)
		says(2, "shop.orders.instant=2")
	})
}
