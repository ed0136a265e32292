package actor_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/internal/queue"
)

func TestATraceLeadsFromTheRecordThroughTheDeadSetToItsReplay(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		exporter := tracetest.NewInMemoryExporter()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
		var works atomic.Bool
		var seen atomic.Bool
		app := orders(func(ctx context.Context, _ *stepwell.Message) error {
			seen.Store(trace.SpanContextFromContext(ctx).IsValid())
			if works.Load() {
				return nil
			}
			return errFlaky
		})
		app.Telemetry = actor.Telemetry{Tracer: provider}
		r := w.start(app, settings{"RETRY_COUNT": "1"})
		const origin = "4bf92f3577b34da6a3ce929d0e0e4736"
		w.produce(&kgo.Record{Key: []byte("k"), Headers: []kgo.RecordHeader{{Key: "traceparent", Value: []byte("00-" + origin + "-00f067aa0ba902b7-01")}}})
		dead := r.deadCount(1)
		works.Store(true)
		if status, answer := r.do("POST", "/v1/dead_set/replay", `{"count":1,"stream":"orders"}`); status != 200 {
			t.Fatalf("replay: %d %v", status, answer)
		}
		tries := tries(t, exporter, 3)
		if !seen.Load() || tries[0].SpanKind != trace.SpanKindConsumer {
			t.Error("the handler's context has no consumer span")
		}
		for i, try := range tries {
			if !linked(try, origin) {
				t.Errorf("try %d is not linked to the record's trace", i+1)
			}
			if first := tries[0].SpanContext.TraceID().String(); i > 0 && !linked(try, first) {
				t.Errorf("try %d is not linked to the first", i+1)
			}
		}
		if got, want := dead[0]["trace_id"], tries[0].SpanContext.TraceID().String(); got != want {
			t.Errorf("the dead message names trace %v, want %v", got, want)
		}
		sends := 0
		for _, s := range exporter.GetSpans() {
			if s.Name == "send orders" && s.SpanKind == trace.SpanKindProducer && s.Parent.IsValid() {
				sends++
			}
		}
		if sends != 2 {
			t.Errorf("%d spans of parking, want 2", sends)
		}
	})
}

// tries are the spans of the calls that were made, in their order, once there are so many.
func tries(t *testing.T, exporter *tracetest.InMemoryExporter, n int) (all tracetest.SpanStubs) {
	t.Helper()
	eventually(t, "the tries are in the traces", func() bool {
		all = slices.DeleteFunc(exporter.GetSpans(), func(s tracetest.SpanStub) bool { return s.Name != "process orders" })
		return len(all) == n
	})
	return all
}

func TestTriesInPlaceAreLinkedToTheFirst(t *testing.T) {
	t.Parallel()
	// fails is a handler whose first two calls fail, the second one by a snooze.
	fails := func() func() error {
		var calls atomic.Int64
		return func() error {
			switch calls.Add(1) {
			case 1:
				return stepwell.RetryAfter(errFlaky, time.Millisecond)
			case 2:
				return stepwell.Snooze(time.Millisecond)
			}
			return nil
		}
	}
	one := func() actor.App {
		f := fails()
		return orders(func(context.Context, *stepwell.Message) error { return f() })
	}
	many := func() actor.App {
		f := fails()
		return batched(func(context.Context, *stepwell.Batch) error { return f() })
	}
	for name, test := range map[string]struct {
		app func() actor.App
		env settings
	}{
		"with queues":               {one, settings{"RETRY_IN_PLACE": "all"}},
		"without queues":            {one, settings{"RETRY_ENABLED": "false"}},
		"in batches without queues": {many, settings{"RETRY_ENABLED": "false", "BATCH_WAIT": "0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := embeddedWorld(t)
			exporter := tracetest.NewInMemoryExporter()
			app := test.app()
			app.Telemetry = actor.Telemetry{Tracer: sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))}
			w.start(app, test.env)
			w.produce(values("x")...)
			all := tries(t, exporter, 3)
			for i, try := range all[1:] {
				if len(try.Links) != 1 || !linked(try, all[0].SpanContext.TraceID().String()) {
					t.Errorf("try %d has the links %v, want one to the first", i+2, try.Links)
				}
			}
		})
	}
}

func linked(s tracetest.SpanStub, traceID string) bool {
	return slices.ContainsFunc(s.Links, func(l sdktrace.Link) bool { return l.SpanContext.TraceID().String() == traceID })
}

func TestMetricsTellWhatBecameOfMessages(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		r := w.start(orders(func(_ context.Context, m *stepwell.Message) error {
			switch string(m.Value) {
			case "fails":
				return errFlaky
			case "skips":
				return stepwell.Skip("a test")
			}
			return nil
		}), settings{"RETRY_COUNT": "1"})
		w.produce(values("works", "fails", "skips")...)
		r.deadCount(1)
		wants := []string{
			`messaging_client_consumed_messages_total{messaging_operation_name="poll",messaging_system="kafka",stepwell_stream="orders"} 3`,
			`stepwell_verdict="done"} 1`, `stepwell_verdict="retry"} 2`, `stepwell_verdict="skipped"} 1`,
			`stepwell_retries_total{stepwell_stream="orders"} 1`,
			`stepwell_dead_set_died_total{stepwell_reason="exhausted",stepwell_stream="orders"} 1`,
			`stepwell_dead_set_messages{stepwell_stream="orders"} 1`,
			`stepwell_queue_messages{stepwell_queue="` + w.queue("orders", "instant") + `",stepwell_stream="orders"} 0`,
			`stepwell_rabbitmq_up 1`,
			`stepwell_consumer_lag{stepwell_stream="orders"} 0`,
			`stepwell_partition_lag{messaging_destination_name="` + w.topic + `",messaging_destination_partition_id="3",stepwell_stream="orders"} 0`,
			`stepwell_window_messages{stepwell_stream="orders"} 0`,
			`stepwell_stuck{stepwell_stream="orders"} 0`,
		}
		var missing []string
		var text string
		eventually(t, "all metrics", func() bool {
			_, answer := r.do("GET", "/metrics", "")
			text, _ = answer["text"].(string)
			missing = slices.DeleteFunc(slices.Clone(wants), func(want string) bool { return strings.Contains(text, want) })
			return len(missing) == 0
		})
	})
}

// A lag of 0 would end the alarm on a lag while nobody reads.
func TestAStreamThatCannotBeReadHasNoLagInItsMetricsAndIsNotReady(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	late := w.app + ".late"
	r := w.start(orders(func(context.Context, *stepwell.Message) error { return nil }), settings{"STREAMS_ORDERS_TOPICS": late})
	const ready, lag = `stepwell_stream_ready{stepwell_stream="orders"}`, `stepwell_consumer_lag{stepwell_stream="orders"}`
	r.notReady("topic " + late + " does not exist")
	eventually(t, "it is not ready, and its lag is not known", func() bool {
		of, there := r.status("orders")["lag"]
		return r.metric(ready) == 0 && r.metric(lag) == -1 && there && of == nil
	})
	w.createTopic(late, 1)
	eventually(t, "it is ready, and nothing waits", func() bool {
		return r.metric(ready) == 1 && r.metric(lag) == 0 && r.status("orders")["lag"] == 0.0
	})
}

func TestTheLagOfWhatIsReadIsToldThoughAnotherTopicCannotBeRead(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	release := make(chan struct{})
	defer close(release)
	r := w.start(orders(func(context.Context, *stepwell.Message) error { <-release; return nil }),
		settings{"STREAMS_ORDERS_TOPICS": w.topic + "," + w.app + ".late"})
	r.notReady("topic " + w.app + ".late does not exist")
	w.produce(values("a", "b", "c")...)
	eventually(t, "it is not ready, and its lag is that of the other one", func() bool {
		return r.metric(`stepwell_stream_ready{stepwell_stream="orders"}`) == 0 &&
			r.metric(`stepwell_consumer_lag{stepwell_stream="orders"}`) == 3 && r.status("orders")["lag"] == 3.0
	})
}

// undeclared are queues whose depth cannot be read at first, as it is while they are being
// declared.
type undeclared struct {
	shared
	queue.Broker
	reads *atomic.Int64
}

func (u undeclared) Queues() queue.Broker          { return u }
func (u undeclared) Run(ctx context.Context) error { return u.shared.Run(ctx) }

func (u undeclared) Depth(ctx context.Context, name string) (int, error) {
	if u.reads.Add(1) < 10 {
		return 0, errFlaky
	}
	return u.Broker.Depth(ctx, name)
}

func TestTheDepthOfTheDeadSetIsKnownSoonAfterAStart(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	app := orders(func(context.Context, *stepwell.Message) error { return nil })
	app.Brokers = undeclared{shared{w.brokers}, w.brokers.Queues(), new(atomic.Int64)}
	r := w.start(app, settings{"TELEMETRY_DEPTH_INTERVAL": "1h"})
	within(t, 20*time.Second, "the depth", func() bool {
		_, answer := r.do("GET", "/metrics", "")
		return strings.Contains(answer["text"].(string), `stepwell_dead_set_messages{stepwell_stream="orders"} 0`)
	})
}
