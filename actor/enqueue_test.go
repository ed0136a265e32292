package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// withJobs is an app whose only stream is enqueued into, and hands out what enqueues.
func withJobs(s actor.Stream) (app actor.App, env <-chan *actor.Env) {
	got := make(chan *actor.Env, 1)
	s.Enqueued = true
	return actor.App{
		Streams: actor.Streams{"jobs": s},
		Start: func(_ context.Context, e *actor.Env) error {
			got <- e
			return nil
		},
	}, got
}

// unaware are settings of a process that is not told where Kafka is.
func unaware(more settings) settings { return settings{"KAFKA_BROKERS": ""}.with(more) }

// job enqueues a message that has this value alone.
func job(t testing.TB, env *actor.Env, value string, after time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := env.Enqueue(ctx, "jobs", stepwell.Message{Value: []byte(value)}, after); err != nil {
		t.Fatal(err)
	}
}

func TestAJobComesAsItWasEnqueuedAndIsTriedAgainAndNeedsNoKafka(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var seen calls
		app, envs := withJobs(actor.Stream{Handler: seeing(&seen, func(m *stepwell.Message) error {
			if m.Attempt < 3 {
				return errFlaky
			}
			return nil
		})})
		r := w.start(app, unaware(nil))
		env := <-envs
		want := stepwell.Message{
			ID: "order-17", Key: []byte{0, 255}, Value: []byte("x"), Time: time.UnixMilli(1_700_000_000_123),
			Headers: []stepwell.Header{{Key: "h"}, {Key: "h", Value: []byte{}}, {Key: "h", Value: []byte{0}}},
			// What the caller has no say in.
			Stream: "orders", Channel: "slow", Attempt: 7, Replays: 3, Snoozes: 2, FirstFailed: time.Now(), Origin: stepwell.Origin{Topic: "t", Offset: 3},
		}
		if err := env.Enqueue(t.Context(), "jobs", want, 0); err != nil {
			t.Fatal(err)
		}
		job(t, env, "bare", 0)
		eventually(t, "both are done", func() bool { return seen.of("x", 3) == 1 && seen.of("bare", 3) == 1 })
		r.queuesEmpty()
		for _, s := range seen.all() {
			m := s.m
			if m.Stream != "jobs" || m.Channel != "" || m.Origin != (stepwell.Origin{}) || m.Replays != 0 || m.Snoozes != 0 || m.FirstFailed.IsZero() != (m.Attempt == 1) {
				t.Errorf("called with %+v", m)
			}
			if string(m.Value) == "bare" {
				if m.ID == "" || m.ID == "order-17" || time.Since(m.Time) > time.Minute {
					t.Errorf("one that has only a value is called with id %q and time %s", m.ID, m.Time)
				}
				continue
			}
			if m.ID != want.ID || string(m.Key) != string(want.Key) || !m.Time.Equal(want.Time) || len(m.Headers) != 3 || m.Headers[0].Value != nil || m.Headers[1].Value == nil || string(m.Headers[2].Value) != "\x00" {
				t.Errorf("attempt %d came as %+v", m.Attempt, m)
			}
		}
		if n := len(seen.all()); n != 6 {
			t.Errorf("%d calls, want 3 of each", n)
		}
		status := r.status("jobs")
		if status["source"] != "enqueue" || status["reads"] != true || status["stuck"] != false {
			t.Errorf("status %v", status)
		}
		if _, ready := r.do("GET", "/readyz?verbose", ""); !strings.Contains(fmt.Sprint(ready), "its messages are enqueued") {
			t.Errorf("readyz: %v", ready)
		}
		_, metrics := r.do("GET", "/metrics", "")
		for _, want := range []string{
			`stepwell_messages_enqueued_total{stepwell_stream="jobs"} 2`,
			`messaging_process_duration_seconds_count{messaging_operation_name="process",messaging_system="rabbitmq",stepwell_stream="jobs",stepwell_verdict="done"} 2`,
		} {
			if !strings.Contains(fmt.Sprint(metrics), want) {
				t.Errorf("the metrics have no %s", want)
			}
		}
	})
}

func TestOneIDTwiceIsTwoJobs(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var seen calls
		app, envs := withJobs(actor.Stream{Handler: seeing(&seen, works)})
		w.start(app, unaware(nil))
		env := <-envs
		for _, id := range []string{"order-17", strings.Repeat("i", 255)} {
			m := stepwell.Message{ID: id, Value: []byte(id[:1]), Time: time.UnixMilli(1)}
			for range 2 {
				if err := env.Enqueue(t.Context(), "jobs", m, 0); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, "both are handled", func() bool { return seen.of(id[:1], 1) == 2 })
		}
		for _, s := range seen.all() {
			if s.m.ID != "order-17" && len(s.m.ID) != 255 {
				t.Errorf("called with id %q", s.m.ID)
			}
		}
	})
}

func TestAJobThatWaitsComesNeverEarlyAndAtMostATenthLate(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var seen calls
		app, envs := withJobs(actor.Stream{Handler: seeing(&seen, works)})
		w.start(app, unaware(nil))
		env := <-envs
		job(t, env, "declares the queues", time.Second)
		waits := []time.Duration{time.Millisecond, time.Second, 1500 * time.Millisecond, 6 * time.Second}
		began := map[string]time.Time{}
		for _, d := range waits {
			began[d.String()] = time.Now()
			job(t, env, d.String(), d)
		}
		confirmed := time.Now()
		eventually(t, "all came", func() bool { return len(seen.all()) == 1+len(waits) })
		for _, s := range seen.all()[0:] {
			name := string(s.m.Value)
			d, err := time.ParseDuration(name)
			if err != nil {
				continue
			}
			// A second more than is promised, for a machine that is busy.
			if s.at.Before(began[name].Add(d)) || s.at.After(confirmed.Add(d+max(time.Second, d/10)+time.Second)) {
				t.Errorf("a wait of %s took %s", name, s.at.Sub(began[name]))
			}
			if s.m.Attempt != 1 || s.m.Snoozes != 0 {
				t.Errorf("%s came as attempt %d", name, s.m.Attempt)
			}
		}
	})
}

func TestAJobThatCanNeverBeHandledIsRefusedAndNothingOfItIsStored(t *testing.T) {
	w := embeddedWorld(t)
	var seen calls
	app, envs := withJobs(actor.Stream{Handler: seeing(&seen, works)})
	app.Streams["orders"] = actor.Stream{Handler: seeing(&seen, works)}
	app.Streams["former"] = actor.Stream{Enqueued: true, Handler: seeing(&seen, works)}
	app.Streams["queued"] = actor.Stream{Handler: seeing(&seen, works)}
	app.Streams["routed"] = actor.Stream{Handler: seeing(&seen, works)}
	r := w.start(app, settings{"RABBITMQ_MAX_MESSAGE_SIZE": "100KiB", "STREAMS_FORMER_RETIRED": "true", "STREAMS_QUEUED_QUEUE": "payments",
		"STREAMS_ROUTED_EXCHANGE": "events", "STREAMS_ROUTED_ROUTING_KEYS": "#"})
	env := <-envs
	for _, test := range []struct {
		name, stream string
		m            stepwell.Message
		after        time.Duration
		want         string
	}{
		{"an unknown stream", "job", stepwell.Message{}, 0, `enqueue into stream "job": refused: there is no such stream; the streams are: former, jobs, orders, queued, routed; did you mean jobs?`},
		{"one that reads Kafka", "orders", stepwell.Message{}, 0, `enqueue into stream "orders": refused: it reads Kafka: produce to its topic; what is enqueued needs a stream that has no topics and is Enqueued`},
		{"one that consumes a queue", "queued", stepwell.Message{}, 0, `refused: its messages are those of queue payments: publish to that`},
		{"one with an exchange", "routed", stepwell.Message{}, 0, `refused: its messages are those of exchange events: publish to that`},
		{"one that is retired", "former", stepwell.Message{}, 0, `enqueue into stream "former": refused: it is retired`},
		{"a wait below zero", "jobs", stepwell.Message{}, -1, `refused: a wait of -1ns: it cannot be below 0`},
		{"a wait too long", "jobs", stepwell.Message{}, stepwell.LongestWait + 1, `refused: a wait of 720h0m0.000000001s: at most 720h0m0s`},
		{"an ID too long", "jobs", stepwell.Message{ID: strings.Repeat("i", 256)}, 0, `refused: an ID of 256 bytes: at most 255`},
		{"a value too large", "jobs", stepwell.Message{Value: make([]byte, 36<<10)}, 0, `at most 36864, which is 64 KiB below RABBITMQ_MAX_MESSAGE_SIZE`},
		{"a key too large", "jobs", stepwell.Message{Key: make([]byte, 36<<10)}, 0, `at most 36864`},
		{"headers too large", "jobs", stepwell.Message{Headers: []stepwell.Header{{Key: "h", Value: make([]byte, 36<<10)}}}, 0, `at most 36864`},
	} {
		err := env.Enqueue(t.Context(), test.stream, test.m, test.after)
		if !errors.Is(err, actor.ErrRefused) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
		if is := errors.Is(err, actor.ErrTooLarge); is != strings.HasSuffix(test.name, "too large") {
			t.Errorf("%s: it is said to be too large: %t", test.name, is)
		}
	}
	if err := (&actor.Env{}).Enqueue(t.Context(), "jobs", stepwell.Message{}, 0); err == nil {
		t.Error("an Env that no actor made enqueues")
	}
	job(t, env, strings.Repeat("v", 36<<10-100), 0)
	eventually(t, "what fits is handled", func() bool { return len(seen.all()) == 1 })
	r.queuesEmpty()
}

// As where RabbitMQ's own limit is below the setting.
func TestAJobThatTheBrokerFindsTooLargeIsRefusedForThat(t *testing.T) {
	w := embeddedWorld(t)
	w.brokers.Queues().(*memory.Broker).MaxMessageSize = 20 << 10
	app, envs := withJobs(actor.Stream{Handler: seeing(&calls{}, works)})
	w.start(app, unaware(nil))
	err := (<-envs).Enqueue(t.Context(), "jobs", stepwell.Message{Value: incompressible(30 << 10)}, 0)
	if !errors.Is(err, actor.ErrRefused) || !errors.Is(err, actor.ErrTooLarge) {
		t.Error(err)
	}
}

func TestTheStartAndStopFunctionsMayEnqueue(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var seen calls
		var env *actor.Env
		app := actor.App{
			Streams: actor.Streams{"jobs": {Enqueued: true, Handler: seeing(&seen, works)}},
			Start: func(ctx context.Context, e *actor.Env) error {
				env = e
				return e.Enqueue(ctx, "jobs", stepwell.Message{Value: []byte("start")}, 0)
			},
			Stop: func(ctx context.Context) error {
				return env.Enqueue(ctx, "jobs", stepwell.Message{Value: []byte("stop")}, 0)
			},
		}
		r := w.start(app, unaware(nil))
		eventually(t, "what the start function enqueued is handled", func() bool { return seen.of("start", 1) == 1 })
		r.end()
		if err := env.Enqueue(t.Context(), "jobs", stepwell.Message{}, 0); w.brokers == nil && err == nil {
			t.Error("an actor that has stopped enqueues")
		}
		w.start(app, unaware(nil))
		eventually(t, "what the stop function enqueued is handled by the next process", func() bool { return seen.of("stop", 1) == 1 })
	})
}

func TestJobsAreHandledInModesStreamsAndRetriesAndEnqueuedInAll(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var seen, none calls
		app, envs := withJobs(actor.Stream{Handler: seeing(&none, works)})
		w.start(app, unaware(settings{"MODES": "api"}))
		env := <-envs
		for _, mode := range []string{"streams", "retries"} {
			job(t, env, mode, 0)
			works, _ := withJobs(actor.Stream{Handler: seeing(&seen, works)})
			r := w.start(works, unaware(settings{"MODES": mode}))
			eventually(t, "a process with mode "+mode+" handles it", func() bool { return seen.of(mode, 1) == 1 })
			r.end()
		}
		if n := len(none.all()); n != 0 {
			t.Errorf("%d calls in a process that has only the API", n)
		}
	})
}

func TestADeadJobIsReplayedAndAJobMayBeHandedOver(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var seen, slow calls
		app, envs := withJobs(actor.Stream{
			Handler: seeing(&seen, func(m *stepwell.Message) error {
				switch {
				case string(m.Value) == "slow":
					return stepwell.To("slow")
				case m.Replays == 0:
					return stepwell.DeadLetter(errFlaky)
				}
				return nil
			}),
			Channels: actor.Channels{"slow": {Handler: seeing(&slow, works)}},
		})
		r := w.start(app, unaware(nil))
		env := <-envs
		for range 2 {
			job(t, env, "slow", 0)
		}
		job(t, env, "dead", 0)
		eventually(t, "both that were handed over are handled", func() bool { return slow.of("slow", 1) == 2 })
		eventually(t, "the dead one can be replayed", func() bool {
			status, answer := r.do("POST", "/v1/dead_set/replay?stream=jobs&count=10", "")
			return status == 200 && answer["done"] == 1.0
		})
		eventually(t, "it is called again", func() bool { return seen.of("dead", 1) == 2 })
		r.queuesEmpty()
	})
}

func TestEnqueueEndsWithItsContextWhileRabbitMQIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app, envs := withJobs(actor.Stream{Handler: seeing(&calls{}, works)})
	w.rabbit = "amqp://127.0.0.1:1"
	w.start(app, unaware(nil))
	env := <-envs
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := env.Enqueue(ctx, "jobs", stepwell.Message{}, 0)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, actor.ErrRefused) || !strings.Contains(err.Error(), "not known to be stored") {
		t.Errorf("%v", err)
	}
}

func TestWhoGivesUpAJobIsToldWhatRabbitMQLacks(t *testing.T) {
	onPrivate(t, func(t *testing.T, w *world, node *testbroker.Rabbit) {
		app, envs := withJobs(actor.Stream{Handler: seeing(&calls{}, works)})
		w.start(app, unaware(nil))
		env := <-envs
		job(t, env, "x", 0)
		told := func(what string) func() bool {
			return func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				err := env.Enqueue(ctx, "jobs", stepwell.Message{}, 0)
				return errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "not known to be stored, since RabbitMQ "+what+" (")
			}
		}
		node.Ctl("set_vm_memory_high_watermark", "0.00000001")
		eventually(t, "it takes nothing", told("takes nothing"))
		node.Kill()
		eventually(t, "it is away", told("is away"))
	})
}

func TestEachMistakeOfAStreamThatIsEnqueuedIsNamed(t *testing.T) {
	enqueued := func(change func(*actor.Stream)) actor.App {
		s := actor.Stream{Enqueued: true, Handler: func(context.Context, *stepwell.Message) error { return nil }}
		change(&s)
		return actor.App{Name: "shop", Streams: actor.Streams{"jobs": s}}
	}
	for _, test := range []struct {
		name   string
		change func(*actor.Stream)
		env    []string
		want   string // empty: it is none
	}{
		{"nothing of Kafka", func(*actor.Stream) {}, nil, ""},
		{"what is shared by all streams does nothing", func(*actor.Stream) {}, []string{"ORDER=none", "WINDOW_MESSAGES=7", "RETRY_IN_PLACE=all"}, ""},
		{"no RabbitMQ", func(*actor.Stream) {}, []string{""}, "RABBITMQ_URL: is required by stream jobs, whose messages come from RabbitMQ"},
		{"topics", func(s *actor.Stream) { s.Config.Topics = []string{"t"} }, nil, "STREAMS_JOBS_TOPICS: is for streams that read Kafka: this one has what is enqueued, and nothing else (from code)"},
		{"a topic in the environment", func(*actor.Stream) {}, []string{"STREAMS_JOBS_TOPICS=t"}, "STREAMS_JOBS_TOPICS: is for streams that read Kafka"},
		{"a group", func(*actor.Stream) {}, []string{"STREAMS_JOBS_GROUP=g"}, "STREAMS_JOBS_GROUP: is for streams that read Kafka"},
		{"an order", func(*actor.Stream) {}, []string{"STREAMS_JOBS_ORDER=none"}, "STREAMS_JOBS_ORDER: is for streams that read Kafka"},
		{"waits in place", func(*actor.Stream) {}, []string{"STREAMS_JOBS_RETRY_IN_PLACE=1"}, "STREAMS_JOBS_RETRY_IN_PLACE: is for streams that read Kafka"},
		{"no retries", func(*actor.Stream) {}, []string{"RETRY_ENABLED=false"}, "STREAMS_JOBS_RETRY_ENABLED=true sets it for this stream alone (from environment RETRY_ENABLED)"},
		{"a batch", func(s *actor.Stream) {
			s.Handler, s.Batch = nil, func(context.Context, *stepwell.Batch) error { return nil }
		}, nil, `App.Streams["jobs"] is Enqueued and has a Batch`},
	} {
		t.Run(test.name, func(t *testing.T) {
			env := append([]string{"RABBITMQ_URL=amqp://h"}, test.env...)
			if slices.Contains(test.env, "") {
				env = test.env
			}
			cfg, err := actor.Load(enqueued(test.change), env)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want == "":
				if s := cfg.Stream("jobs"); s.Retry.InPlace != "0" || s.Group != "" || cfg.Reads("jobs") {
					t.Errorf("settings %+v", s)
				}
			case err == nil || !strings.Contains(err.Error(), test.want) || len(err.(config.Errors)) != 1:
				t.Errorf("%v", err)
			}
		})
	}
}

func TestATraceLeadsFromWhoEnqueuesToTheJobAndItsRetry(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		exporter := tracetest.NewInMemoryExporter()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
		var seen calls
		app, envs := withJobs(actor.Stream{Handler: seeing(&seen, func(m *stepwell.Message) error {
			if m.Attempt == 1 {
				return errFlaky
			}
			return nil
		})})
		app.Telemetry = actor.Telemetry{Tracer: provider}
		w.start(app, unaware(nil))
		env := <-envs
		ctx, span := provider.Tracer("test").Start(t.Context(), "sign up")
		if err := env.Enqueue(ctx, "jobs", stepwell.Message{}, time.Millisecond); err != nil {
			t.Fatal(err)
		}
		span.End()
		var both tracetest.SpanStubs
		eventually(t, "both tries are in the traces", func() bool {
			both = slices.DeleteFunc(exporter.GetSpans(), func(s tracetest.SpanStub) bool { return s.Name != "process jobs" })
			return len(both) == 2
		})
		for _, s := range both {
			if !linked(s, span.SpanContext().TraceID().String()) {
				t.Errorf("a try is linked to %v", s.Links)
			}
			if slices.ContainsFunc(s.Attributes, func(a attribute.KeyValue) bool { return strings.Contains(string(a.Key), "partition") }) {
				t.Errorf("a try of what was never in Kafka has %v", s.Attributes)
			}
		}
	})
}

func TestARetiredStreamThatWasEnqueuedIntoDrains(t *testing.T) {
	w := embeddedWorld(t)
	var seen calls
	app, envs := withJobs(actor.Stream{Handler: seeing(&seen, works)})
	r := w.start(app, unaware(settings{"MODES": "api"}))
	job(t, <-envs, "left", time.Second)
	r.end()
	app, envs = withJobs(actor.Stream{Handler: seeing(&seen, works)})
	r = w.start(app, unaware(settings{"STREAMS_JOBS_RETIRED": "true", "MODES": "streams,api"}))
	if err := (<-envs).Enqueue(t.Context(), "jobs", stepwell.Message{}, 0); !errors.Is(err, actor.ErrRefused) {
		t.Errorf("a retired stream takes more: %v", err)
	}
	eventually(t, "what it had is handled, and it is empty", func() bool {
		return seen.of("left", 1) == 1 && r.status("jobs")["empty_since"] != nil
	})
}

func TestWhatHappensBeforeAJobDiesIsAskedAsForAnyMessage(t *testing.T) {
	w := embeddedWorld(t)
	var seen calls
	var told atomic.Value
	app, envs := withJobs(actor.Stream{
		Handler: seeing(&seen, fails),
		OnDead: func(_ context.Context, m *stepwell.Message, err error) error {
			told.Store(fmt.Sprint(m.Attempt, " ", string(m.Value), ": ", err))
			return nil
		},
	})
	r := w.start(app, unaware(settings{"RETRY_COUNT": "2"}))
	job(t, <-envs, "x", 0)
	eventually(t, "it is taken over after its last try", func() bool { return told.Load() == "3 x: the service is away" })
	r.queuesEmpty()
	if n := len(seen.all()); n != 3 {
		t.Errorf("%d calls, want 3", n)
	}
}
