package actor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

// relay is an app whose stream "orders" writes what it gets to a topic, which its stream "copies"
// reads.
func relay(to string, seen *calls, started chan<- *actor.Env, traces *atomic.Value) actor.App {
	var env *actor.Env
	return actor.App{
		Start: func(_ context.Context, e *actor.Env) error {
			env = e
			started <- e
			return nil
		},
		Streams: actor.Streams{
			"orders": {Handler: func(ctx context.Context, m *stepwell.Message) error {
				traces.Store(trace.SpanContextFromContext(ctx).TraceID().String())
				return env.Produce(ctx, &kgo.Record{Topic: to, Key: m.Key, Value: m.Value})
			}},
			"copies": {Handler: func(_ context.Context, m *stepwell.Message) error {
				seen.add(m)
				return nil
			}},
		},
		Telemetry: actor.Telemetry{Tracer: sdktrace.NewTracerProvider()},
	}
}

func TestWhatAHandlerProducesIsInKafkaWhenItReturnsAndLeadsToItsTrace(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		to := w.topic + ".copies"
		w.createTopic(to, 2)
		var c calls
		var traces atomic.Value
		started := make(chan *actor.Env, 1)
		r := w.start(relay(to, &c, started, &traces), settings{"STREAMS_COPIES_TOPICS": to})
		env := <-started
		w.produce(values("x")...)
		eventually(t, "the copy", func() bool { return len(c.all()) == 1 })
		parent, _ := c.all()[0].m.Header("traceparent")
		if id, _ := traces.Load().(string); id == "" || !strings.Contains(string(parent), id) {
			t.Errorf("traceparent %q, want the trace %q", parent, id)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		nowhere := w.topic + ".nowhere"
		err := env.Produce(ctx, &kgo.Record{Topic: nowhere, Value: []byte("x")})
		if err == nil || ctx.Err() != nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("produce to topic %q: ", nowhere)) {
			t.Errorf("to a topic that is not there: %v", err)
		}
		if err := env.Produce(ctx, &kgo.Record{Topic: to, Headers: []kgo.RecordHeader{{Key: "traceparent", Value: []byte("mine")}}}); err != nil {
			t.Error(err)
		}
		eventually(t, "the second copy", func() bool { return len(c.all()) == 2 })
		m := c.all()[1].m
		if parent, _ := m.Header("traceparent"); string(parent) != "mine" {
			t.Errorf("a record's own traceparent became %q", parent)
		}
		eventually(t, "the metric", func() bool {
			return r.metric(`messaging_client_sent_messages_total{messaging_operation_name="send",messaging_system="kafka"} `) == 2
		})
		shared := append(make([]kgo.RecordHeader, 0, 4), kgo.RecordHeader{Key: "of", Value: []byte("many records")})
		record := &kgo.Record{Topic: to, Headers: shared}
		if err := env.Produce(ctx, record); err != nil || record.Timestamp.IsZero() {
			t.Errorf("%v: a record of which is not said where it is: %+v", err, record)
		}
		if at := shared[:2][1]; at.Key != "" || len(record.Headers) != 1 {
			t.Errorf("a header was written into a list of the caller's: %s", at.Key)
		}
		r.end()
		if err := env.Produce(ctx, &kgo.Record{Topic: to}); err == nil || !strings.Contains(err.Error(), "the actor has stopped") {
			t.Errorf("after the stop: %v", err)
		}
	})
}

func TestAProduceOfManyRecordsIsAnErrorWhereOneOfThemIsNotStored(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	started := make(chan *actor.Env, 1)
	app := orders(func(context.Context, *stepwell.Message) error { return nil })
	app.Start = func(_ context.Context, e *actor.Env) error { started <- e; return nil }
	to, nowhere := w.topic+".copies", w.topic+".nowhere"
	w.createTopic(to, 1)
	r := w.start(app, nil)
	env := <-started
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for bad := range 3 {
		records := []*kgo.Record{{Topic: to}, {Topic: to}, {Topic: to}}
		records[bad].Topic = nowhere
		if err := env.Produce(ctx, records...); err == nil || ctx.Err() != nil {
			t.Errorf("record %d is in no topic: %v", bad, err)
		}
	}
	r.end()
}

func TestAProduceThatIsCutOffIsAnErrorAndTheHandlerIsCalledAgain(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		to := w.topic + ".copies"
		w.createTopic(to, 1)
		var env *actor.Env
		var c calls
		r := w.start(actor.App{
			Start: func(_ context.Context, e *actor.Env) error { env = e; return nil },
			Streams: actor.Streams{"orders": {Handler: func(ctx context.Context, m *stepwell.Message) error {
				if c.add(m) == 1 {
					gone, cancel := context.WithCancel(ctx)
					cancel()
					ctx = gone
				}
				err := env.Produce(ctx, &kgo.Record{Topic: to, Value: m.Value})
				if m.Attempt == 1 && (!errors.Is(err, context.Canceled) || strings.HasPrefix(err.Error(), "produce: context")) {
					t.Errorf("a call whose context had ended: %v", err)
				}
				return err
			}}},
		}, nil)
		w.produce(values("x")...)
		eventually(t, "a second call", func() bool { return len(c.all()) == 2 })
		r.queuesEmpty()
	})
}

func TestAnEnvThatNoActorMadeProducesNothing(t *testing.T) {
	if err := new(actor.Env).Produce(t.Context(), &kgo.Record{Topic: "t"}); err == nil {
		t.Error("no error")
	}
}
