package actor_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/config"
)

// committed is the sum of the group's committed offsets of the world's topic.
func (w *world) committed() (sum int64) {
	w.t.Helper()
	offsets, err := kadm.NewClient(w.client).FetchOffsets(context.Background(), w.app+".orders")
	if err != nil {
		return -1
	}
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Topic == w.topic && o.At > 0 {
			sum += o.At
		}
	})
	return sum
}

func TestStartRunsBeforeAndStopAfterAllMessages(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.produce(values("a", "b")...)
		var handled atomic.Int64
		var order []string
		app := orders(func(context.Context, *stepwell.Message) error { handled.Add(1); return nil })
		app.Start = func(_ context.Context, env *actor.Env) error {
			order = append(order, fmt.Sprintf("start at %d for %s", handled.Load(), env.Config.App.Name))
			return nil
		}
		app.Stop = func(context.Context) error {
			order = append(order, fmt.Sprintf("stop at %d", handled.Load()))
			return nil
		}
		r := w.start(app, nil)
		eventually(t, "both handled", func() bool { return handled.Load() == 2 })
		r.end()
		if got, want := strings.Join(order, "; "), "start at 0 for "+w.app+"; stop at 2"; got != want {
			t.Errorf("%s; want %s", got, want)
		}
	})
}

func TestAnErrorOfTheStartFunctionEndsTheActor(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		app := orders(func(context.Context, *stepwell.Message) error { return nil })
		app.Start = func(context.Context, *actor.Env) error { return errors.New("no database") }
		app.Stop = func(context.Context) error { t.Error("stop of what never started"); return nil }
		r := w.start(app, nil)
		<-r.ended
		if r.err == nil || !strings.Contains(r.err.Error(), "no database") {
			t.Errorf("Run: %v", r.err)
		}
	})
}

func TestAStopLetsARunningHandlerFinishAndCommitsIt(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		running, release := make(chan struct{}), make(chan struct{})
		var n atomic.Int64
		app := orders(func(ctx context.Context, _ *stepwell.Message) error {
			if n.Add(1) == 1 {
				close(running)
				select {
				case <-release:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		})
		r := w.start(app, nil)
		w.produce(values("x")...)
		<-running
		r.stop()
		close(release)
		r.end()
		if got := w.committed(); got != 1 {
			t.Errorf("committed %d, want 1", got)
		}
		again := w.start(app, nil)
		again.ready()
		w.produce(values("y")...)
		eventually(t, "next record", func() bool { return n.Load() == 2 })
	})
}

func TestWhatACancelledHandlerReturnsIsNoVerdict(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		running := make(chan struct{})
		var second atomic.Int64
		first := w.start(orders(func(ctx context.Context, _ *stepwell.Message) error {
			close(running)
			<-ctx.Done()
			return stepwell.DeadLetter(ctx.Err())
		}), settings{"SHUTDOWN_TIMEOUT": "6s", "RETRY_COUNT": "0"})
		w.produce(values("x")...)
		<-running
		began := time.Now()
		first.end()
		if took := time.Since(began); took > 6500*time.Millisecond {
			t.Errorf("the stop took %v", took)
		}
		if got := w.committed(); got != 0 {
			t.Errorf("committed %d", got)
		}
		r := w.start(orders(func(_ context.Context, m *stepwell.Message) error {
			second.Store(int64(m.Attempt))
			return nil
		}), nil)
		eventually(t, "run again as a first try", func() bool { return second.Load() == 1 })
		if dead := r.dead(10); len(dead) != 0 {
			t.Errorf("dead set has %v", dead)
		}
	})
}

func TestAPausedStreamHandlesNothingAndGoesOnWhereItWas(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		y, others := newTally(), newTally()
		running, fail := make(chan struct{}), make(chan struct{})
		app := orders(y.handler(func(value string, attempt int) error {
			if value == "bad" && attempt == 1 {
				close(running)
				<-fail
			}
			return failsOnce(value, attempt)
		}))
		app.Streams["parcels"] = actor.Stream{Handler: others.handler(failsOnce)}
		parcels := w.app + ".parcels.v1"
		w.createTopic(parcels, 1)
		r := w.start(app, settings{"STREAMS_PARCELS_TOPICS": parcels})
		w.produce(values("bad")...)
		<-running
		for range 2 {
			if status, answer := r.do("POST", "/v1/streams/orders/pause", ""); status != 200 || answer["scope"] != "instance" {
				t.Fatalf("pause: %d %v", status, answer)
			}
		}
		close(fail)
		w.produce(values("b", "c")...)
		w.produce(&kgo.Record{Topic: parcels, Value: []byte("bad")}, &kgo.Record{Topic: parcels, Value: []byte("good")})
		eventually(t, "the failure's wait is over", func() bool { return r.depths()[w.queue("orders", "instant")] == 1 })
		eventually(t, "the other stream goes on, retries too", func() bool { _, done := others.count(); return done == 2 })
		eventually(t, "its lag is seen while paused", func() bool { s := r.status("orders"); return s["paused"] == true && s["lag"] == 2.0 })
		always(t, "the paused stream handles nothing", 300*time.Millisecond, func() bool {
			tried, done := y.count()
			return tried == 1 && done == 0 && y.triesOf("bad") == 1 && r.status("parcels")["paused"] == false
		})
		r.ready()
		r.do("POST", "/v1/streams/orders/resume", "")
		eventually(t, "what waited is handled, the retry too", func() bool { _, done := y.count(); return done == 3 })
		if n := y.triesOf("bad"); n != 2 {
			t.Errorf("the failed one was tried %d times, want 2", n)
		}
	})
}

func TestThreeInstancesOfOnePartitionAreAllReady(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		topic := w.app + ".one"
		w.createTopic(topic, 1)
		for range 3 {
			w.start(orders(func(context.Context, *stepwell.Message) error { return nil }), settings{"STREAMS_ORDERS_TOPICS": topic}).ready()
		}
	})
}

func TestRecordsOlderThanMaxAgeAreSkippedAndCounted(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var c calls
		r := w.start(orders(func(_ context.Context, m *stepwell.Message) error { c.add(m); return nil }), settings{"MAX_AGE": "1h"})
		w.produce(&kgo.Record{Key: []byte("k"), Value: []byte("old"), Timestamp: time.Now().Add(-2 * time.Hour)},
			&kgo.Record{Key: []byte("k"), Value: []byte("new")})
		eventually(t, "the new one", func() bool { return len(c.all()) == 1 })
		if got := string(c.all()[0].m.Value); got != "new" {
			t.Errorf("handled %s", got)
		}
		eventually(t, "expired in the metrics", func() bool {
			_, answer := r.do("GET", "/metrics", "")
			return strings.Contains(answer["text"].(string), "expired")
		})
	})
}

func TestATopicThatAppearsLaterAndMatchesThePatternIsRead(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var c calls
		w.createTopic(w.app+".late.v0", 1)
		w.start(orders(func(_ context.Context, m *stepwell.Message) error { c.add(m); return nil }),
			settings{"STREAMS_ORDERS_TOPICS": "", "STREAMS_ORDERS_TOPIC_PATTERN": w.app + `\.late\..*`}).ready()
		late := w.app + ".late.v1"
		w.createTopic(late, 1)
		w.produce(&kgo.Record{Topic: late, Value: []byte("x")})
		eventually(t, "record of the late topic", func() bool { return len(c.all()) == 1 })
	})
}

func TestAllConfigurationMistakesAreListedAtOnce(t *testing.T) {
	app := actor.App{Streams: actor.Streams{
		"orders": {Handler: func(context.Context, *stepwell.Message) error { return nil }},
		"empty":  {Config: config.Stream{Topics: []string{"t"}}},
	}}
	_, err := actor.Load(app, []string{"RETRY_COUNT=many", "STREAMS_ORDRES_TOPICS=t"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"APP_NAME", "KAFKA_BROKERS", "RABBITMQ_URL", "RETRY_COUNT", "STREAMS_ORDERS_TOPICS", "STREAMS_ORDRES_TOPICS", "empty", "Handler"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing about %s in:\n%v", want, err)
		}
	}
	if _, err := actor.Load(actor.App{Name: "a"}, nil); err == nil || !strings.Contains(err.Error(), "stream") {
		t.Errorf("no streams: %v", err)
	}
}

func TestAMistakeInTheCodeHidesNoWarningAboutTheEnvironment(t *testing.T) {
	app := actor.App{Name: "a", EnvPrefix: "SHOP_", Streams: actor.Streams{"orders": {Config: config.Stream{Topics: []string{"t"}}}}}
	_, err := actor.Load(app, []string{"SHOP_KAFKA_BROKERS=k:1", "SHOP_RABBITMQ_URL=amqp://h/", "SHOP_RETRY_CUONT=1"})
	if err == nil || !hasAll(err.Error(), "Handler is nil", "warning: SHOP_RETRY_CUONT is not known", "SHOP_RETRY_COUNT") {
		t.Errorf("got %v", err)
	}
}

// Each of its calls would panic, until all messages are dead.
func TestAMiddlewareThatReturnsNoHandlerIsRefused(t *testing.T) {
	app := actor.App{Name: "a", Streams: orders(failing(&calls{})).Streams, Use: []stepwell.Middleware{func(stepwell.Handler) stepwell.Handler { return nil }}}
	cfg, err := actor.Load(app, []string{"KAFKA_BROKERS=k:1", "RABBITMQ_URL=amqp://h/", "STREAMS_ORDERS_TOPICS=t"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := actor.New(cfg, app); err == nil || !hasAll(err.Error(), "stream orders has no handler", "middleware") {
		t.Errorf("got %v", err)
	}
}

func TestTheServerOfAnAppWithAPrefixNamesItsVariables(t *testing.T) {
	w := embeddedWorld(t)
	app, log := logged(orders(failing(&calls{})))
	app.EnvPrefix = "SHOP_"
	env := settings{}
	for k, v := range map[string]string{"APP_NAME": w.app, "STREAMS_ORDERS_TOPICS": w.topic, "SERVER_ADDRESS": "0.0.0.0:0"} {
		env["SHOP_"+k] = v
	}
	r := w.start(app, env)
	r.ready()
	if status, answer := r.do("GET", "/v1/streams", ""); status != 403 || !strings.Contains(fmt.Sprint(answer), "SHOP_SERVER_TOKEN") {
		t.Errorf("%d %v", status, answer)
	}
	if !log.said("closed", "SHOP_SERVER_TOKEN") {
		t.Errorf("log: %s", log)
	}
}

func TestAnAppWithAPrefixNamesNoVariableWithoutIt(t *testing.T) {
	app, log := logged(actor.App{EnvPrefix: "SHOP_", Streams: actor.Streams{
		"orders":  {Handler: failing(&calls{})},
		"parcels": {Handler: failing(&calls{}), Config: config.Stream{Topics: []string{"parcels.v1"}}},
	}})
	var environ []string
	for _, v := range []string{
		"APP_NAME=shop", "SERVER_ADDRESS=0.0.0.0:0", "KAFKA_BROKERS=127.0.0.1:1", "RABBITMQ_URL=amqp://guest:guest@127.0.0.1:1/",
		"STREAMS_ORDERS_TOPICS=orders.v1", "STREAMS_PARCELS_RETRY_ENABLED=false",
	} {
		environ = append(environ, "SHOP_"+v)
	}
	cfg, err := actor.Load(app, environ)
	if err != nil {
		t.Fatal(err)
	}
	a, err := actor.New(cfg, app)
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, a)
	r.notReady("SHOP_KAFKA_BROKERS", "SHOP_RABBITMQ_URL")
	_, _, text := r.health()
	bare := regexp.MustCompile(`\b(KAFKA|RABBITMQ|STREAMS|SERVER|RETRY|HANDLER)_[A-Z_]+`) // _ is of the word: not behind a prefix
	if found := bare.FindAllString(text+log.String(), -1); found != nil {
		t.Errorf("%q in\n%s\n%s", found, text, log)
	}
}
