package actor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/embedded"
)

// The metric is of the last look, and is left out until there was one: a 0 would say that nothing
// waits.
func TestTheLagOfAQueueIsItsDepthInStatusAndMetric(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const interval, depth = time.Minute, 7
		brokers := embedded.New(embedded.Options{VirtualNetwork: true})
		app := App{Name: "shop", Brokers: brokers, Streams: Streams{"orders": {Handler: func(context.Context, *stepwell.Message) error { return nil }}}}
		cfg, err := Load(app, []string{"STREAMS_ORDERS_QUEUE=payments", "SERVER_ADDRESS=off", "TELEMETRY_DEPTH_INTERVAL=" + interval.String()})
		if err != nil {
			t.Fatal(err)
		}
		a, err := New(cfg, app)
		if err != nil {
			t.Fatal(err)
		}
		if of := a.snapshot().Streams["orders"]; of.Lag != nil {
			t.Errorf("before it runs the lag is %d", *of.Lag)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		s := a.streams[0]
		s.Pause("alice")
		if err := brokers.Publish(ctx, "payments", make([]stepwell.Message, depth)...); err != nil {
			t.Fatal(err)
		}
		for _, want := range []int64{depth, 0} {
			time.Sleep(2 * interval)
			if got := s.Status(ctx); *got.Lag != want || got.Error != "" {
				t.Errorf("the status has lag %d and says %q, want %d", *got.Lag, got.Error, want)
			}
			if of := a.snapshot().Streams["orders"]; of.Lag == nil || *of.Lag != want {
				t.Errorf("the metric has lag %v, want %d", of.Lag, want)
			}
			s.Resume()
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
