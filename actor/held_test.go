package actor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/embedded"
)

func TestCallsAreCountedThoughALaterOneHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		brokers := embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 1}, VirtualNetwork: true})
		release := make(chan struct{})
		app := orders(func(_ context.Context, m *stepwell.Message) error {
			switch string(m.Value) {
			case "fails":
				return stepwell.DeadLetter(errFlaky)
			case "skips":
				return stepwell.Skip("a test order")
			case "panics":
				panic("oh")
			case "hangs":
				<-release
			}
			return nil
		})
		reader := sdkmetric.NewManualReader()
		app.Name, app.Brokers = "held", brokers
		app.Telemetry = actor.Telemetry{Meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))}
		cfg, err := actor.Load(app, []string{"STREAMS_ORDERS_TOPICS=orders.v1", "SERVER_ADDRESS=off", "RETRY_COUNT=0", "ORDER=partition"})
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
		produce := func(values ...string) {
			var records []*kgo.Record
			for _, v := range values {
				records = append(records, &kgo.Record{Topic: "orders.v1", Value: []byte(v)})
			}
			if err := brokers.Produce(ctx, records...); err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Second)
		}
		counted := func() map[string]int {
			return processed(t, reader)
		}
		for range 20 { // until calls are known to be fast
			produce("works", "works", "works")
		}
		before := counted()["done"]
		produce("works", "fails", "works", "panics", "skips", "works", "hangs")
		got := counted()
		if got["done"]-before != 3 || got["dead *errors.errorString"] != 1 || got["retry panic"] != 1 || got["skipped"] != 1 {
			t.Errorf("while a call hangs: %v, %d done before", got, before)
		}
		close(release)
		time.Sleep(time.Minute)
		if got := counted(); got["done"]-before != 4 {
			t.Errorf("when it has returned: %v, %d done before", got, before)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// processed are the counts of calls by verdict and type of error.
func processed(t *testing.T, reader *sdkmetric.ManualReader) map[string]int {
	t.Helper()
	var got metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, m := range got.ScopeMetrics[0].Metrics {
		if m.Name != "messaging.process.duration" {
			continue
		}
		for _, p := range m.Data.(metricdata.Histogram[float64]).DataPoints {
			verdict, _ := p.Attributes.Value("stepwell.verdict")
			key := verdict.AsString()
			if kind, ok := p.Attributes.Value("error.type"); ok {
				key += " " + kind.AsString()
			}
			counts[key] += int(p.Count)
		}
	}
	return counts
}
