package actortest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/actortest"
	"github.com/stepwell/stepwell/embedded"
)

func refuse(_ context.Context, m *stepwell.Message) error {
	if strings.Contains(string(m.Value), "good") {
		return nil
	}
	return stepwell.DeadLetter(errors.New("no such order"))
}

func shop(brokers *embedded.Brokers) actor.App {
	return actor.App{
		Name: "shop", Brokers: brokers, Streams: actor.Streams{"orders": {Handler: refuse}},
		HTTP: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }),
	}
}

func one() *embedded.Brokers {
	return embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 1}})
}

func TestAnActorRunsUntilTheTestEndsAndShowsItsDead(t *testing.T) {
	brokers := one()
	t.Run("inside", func(t *testing.T) {
		a := actortest.Start(t, shop(brokers), "STREAMS_ORDERS_TOPICS=orders.v1")
		for _, value := range []string{`{"card":"good"}`, `{"card":"stolen"}`, `no JSON`} {
			if err := brokers.Produce(t.Context(), &kgo.Record{Topic: "orders.v1", Key: []byte("ada"), Value: []byte(value)}); err != nil {
				t.Fatal(err)
			}
		}
		a.Await("two orders are dead", func() bool { return len(a.Dead("orders")) == 2 })
		first, second := a.Dead("orders")[0], a.Dead("orders")[1]
		if first.ID != "orders.v1:0:1" || first.Attempts != 1 || first.Reason != stepwell.ReasonDeadLetter || first.Error != "no such order" || first.Key != "ada" || string(first.Value) != `{"card":"stolen"}` || string(second.Value) != `"no JSON"` {
			t.Errorf("%+v %+v", first, second)
		}
		answer, err := http.Get(a.URL("/mine"))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if text, _ := io.ReadAll(answer.Body); string(text) != "hello" {
			t.Errorf("its own route says %q", text)
		}
	})
}

// failing is a test that may fail: what it says is kept, and Fatal ends its goroutine.
type failing struct {
	testing.TB
	said     bytes.Buffer
	ctx      context.Context
	cleanups []func()
}

func (f *failing) Helper()                  {}
func (f *failing) Context() context.Context { return f.ctx }
func (f *failing) Output() io.Writer        { return io.Discard }
func (f *failing) Cleanup(c func())         { f.cleanups = append(f.cleanups, c) }
func (f *failing) FailNow()                 { runtime.Goexit() }
func (f *failing) Fatal(a ...any)           { f.Errorf("%v", a...); f.FailNow() }
func (f *failing) Fatalf(s string, a ...any) {
	f.Errorf(s, a...)
	f.FailNow()
}
func (f *failing) Errorf(s string, a ...any) {
	f.said.WriteString(strings.TrimSpace(fmt.Sprintf(s, a...)) + "\n")
}

// run runs the test to its end.
func (f *failing) run(test func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			for _, c := range f.cleanups {
				c()
			}
		}()
		test()
	}()
	<-ended
}

func TestWhatGoesWrongFailsTheTestWithItsReason(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(*actor.App)
		settings []string
		want     string
	}{
		"a mistake in the settings":  {nil, []string{"STREAMS_ORDERS_TOPICS=orders.v1", "CONCURRENCY=many"}, "CONCURRENCY"},
		"the process's own settings": {nil, nil, "STREAMS_ORDERS_TOPICS"},
		"a start that fails": {func(a *actor.App) {
			a.Start = func(context.Context, *actor.Env) error { return errors.New("no database") }
		}, []string{"STREAMS_ORDERS_TOPICS=orders.v1"}, "no database"},
		"a stop that fails": {func(a *actor.App) { a.Stop = func(context.Context) error { return errors.New("not flushed") } }, []string{"STREAMS_ORDERS_TOPICS=orders.v1"}, "not flushed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("STREAMS_ORDERS_TOPICS", "of.the.process")
			f := &failing{ctx: t.Context()}
			app := shop(one())
			if test.change != nil {
				test.change(&app)
			}
			f.run(func() { actortest.Start(f, app, test.settings...) })
			if !strings.Contains(f.said.String(), test.want) {
				t.Errorf("it said %q", &f.said)
			}
		})
	}
}

func TestWithoutAServerAndOnAFalseClockItStartsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		brokers := embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 1}, VirtualNetwork: true})
		app, tried := shop(brokers), make(chan time.Time, 10)
		app.Streams["orders"] = actor.Stream{Handler: func(context.Context, *stepwell.Message) error {
			tried <- time.Now()
			return errors.New("away")
		}}
		actortest.Start(t, app, "STREAMS_ORDERS_TOPICS=orders.v1", "SERVER_ADDRESS=off", "RETRY_COUNT=1", "RETRY_DELAY=24h")
		if err := brokers.Produce(t.Context(), &kgo.Record{Topic: "orders.v1", Value: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		first, second := <-tried, <-tried
		if waited := second.Sub(first); waited < 24*time.Hour || waited > 25*time.Hour {
			t.Errorf("it waited for %v", waited)
		}
	})
}

func TestAwaitFailsWithWhatItWaitedFor(t *testing.T) {
	for name, test := range map[string]struct {
		handler stepwell.Handler
		want    string
	}{
		"nothing happens":     {refuse, "it never came to this: the moon is full"},
		"the actor has ended": {func(context.Context, *stepwell.Message) error { runtime.Goexit(); return nil }, "the actor has ended before it came to this: the moon is full"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &failing{ctx: t.Context()}
				brokers := embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 1}, VirtualNetwork: true})
				app := shop(brokers)
				app.Streams["orders"] = actor.Stream{Handler: test.handler}
				began := time.Now()
				f.run(func() {
					a := actortest.Start(f, app, "STREAMS_ORDERS_TOPICS=orders.v1", "SERVER_ADDRESS=off")
					if err := brokers.Produce(t.Context(), &kgo.Record{Topic: "orders.v1", Value: []byte("x")}); err != nil {
						t.Error(err)
					}
					a.Await("the moon is full", func() bool { return false })
				})
				if !strings.Contains(f.said.String(), test.want) {
					t.Errorf("after %v it said %q", time.Since(began), &f.said)
				}
			})
		})
	}
}

func TestAStreamWithoutADeadSetFailsTheTest(t *testing.T) {
	f := &failing{ctx: t.Context()}
	f.run(func() {
		actortest.Start(f, shop(one()), "STREAMS_ORDERS_TOPICS=orders.v1").Dead("payments")
	})
	if !strings.Contains(f.said.String(), "status 4") || !strings.Contains(f.said.String(), "payments") {
		t.Errorf("it said %q", &f.said)
	}
}
