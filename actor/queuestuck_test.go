package actor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/embedded"
)

func TestAQueueThatAlwaysHasSomethingUnderWayIsNotCalledStuck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		brokers := embedded.New(embedded.Options{VirtualNetwork: true})
		calls := 0
		app := App{Name: "shop", Brokers: brokers, Streams: Streams{"orders": {Handler: func(ctx context.Context, _ *stepwell.Message) error {
			calls++
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Minute):
				return nil
			}
		}}}}
		cfg, err := Load(app, []string{"STREAMS_ORDERS_QUEUE=payments", "CONCURRENCY=1", "HANDLER_TIMEOUT=2m", "SERVER_ADDRESS=off", "TELEMETRY_DEPTH_INTERVAL=1h"})
		if err != nil {
			t.Fatal(err)
		}
		a, err := New(cfg, app)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		if err := brokers.Publish(ctx, "payments", make([]stepwell.Message, 20)...); err != nil {
			t.Fatal(err)
		}
		for range 18 {
			time.Sleep(50 * time.Second)
			if s := a.streams[0].now(); s.Stuck || s.InFlight == 0 {
				t.Errorf("after %d calls: stuck %t, %d in flight", calls, s.Stuck, s.InFlight)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
