package actor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/embedded"
)

func TestADayOfRetriesPassesInAMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c calls
		brokers := embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 1}, VirtualNetwork: true})
		app := orders(failing(&c))
		app.Name, app.Brokers = "day", brokers
		app.Streams["orders"] = actor.Stream{Handler: failing(&c)}
		cfg, err := actor.Load(app, []string{
			"STREAMS_ORDERS_TOPICS=orders.v1", "RETRY_COUNT=24", "RETRY_DELAY=1h", "SERVER_ADDRESS=off", "HANDLER_TIMEOUT=1m",
			"TELEMETRY_DEPTH_INTERVAL=1h", "KAFKA_SESSION_TIMEOUT=45s", // a heartbeat is work, whatever the clock
		})
		if err != nil {
			t.Fatal(err)
		}
		a, err := actor.New(cfg, app)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()

		began := time.Now()
		if err := brokers.Produce(ctx, &kgo.Record{Topic: "orders.v1", Value: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24*time.Hour + time.Minute)
		if n := len(c.all()); n != 25 {
			t.Errorf("%d calls in a day, want 25", n)
		}
		if last := c.all()[24].at.Sub(began); last < 24*time.Hour {
			t.Errorf("the last try came after %v", last)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}
