package actor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/embedded"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// A limit that is set while the processes run, by whichever of them is asked to, holds in all.
func ExampleEnv_Shared() {
	limits := make(chan *actor.Shared, 1)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	app := actor.App{
		Name: "shipping", Brokers: embedded.New(embedded.Options{}), Logger: slog.New(slog.DiscardHandler),
		Shared: true,
		Start: func(_ context.Context, env *actor.Env) error {
			limits <- env.Shared("limit")
			return nil
		},
		Streams: actor.Streams{"calls": {Enqueued: true, Handler: func(context.Context, *stepwell.Message) error { return nil }}},
	}
	cfg, err := actor.Load(app, []string{"SERVER_ADDRESS=off"})
	if err != nil {
		fmt.Println(err)
		return
	}
	a, err := actor.New(cfg, app)
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- a.Run(ctx) }()
	shared := <-limits
	err = shared.Set(ctx, "partner-a", json.RawMessage(`{"per_second":5}`), time.Now().Add(time.Hour))
	fmt.Println("set:", err == nil)
	value, ok, err := shared.Latest(ctx, "partner-a")
	fmt.Println(string(value), ok, err)
	stop()
	fmt.Println(<-ended)
	// Output:
	// set: true
	// {"per_second":5} true <nil>
	// <nil>
}

// sharing is an app that shares values, and hands out those of a kind.
func sharing() (app actor.App, values <-chan *actor.Shared) {
	app, _ = withJobs(actor.Stream{Handler: func(context.Context, *stepwell.Message) error { return nil }})
	got := make(chan *actor.Shared, 1)
	app.Shared = true
	app.Start = func(_ context.Context, env *actor.Env) error {
		got <- env.Shared("limit")
		return nil
	}
	return app, got
}

func TestWhatOneProcessSharesAnotherFinds(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		app, values := sharing()
		r := w.start(app, unaware(nil))
		one := <-values
		other := one
		if w.rabbit != "" {
			w.start(app, unaware(settings{"MODES": "api"}))
			other = <-values
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for n := range 5 {
			value := json.RawMessage(fmt.Sprint(n))
			if err := one.Set(ctx, "a", value, time.Time{}); err != nil {
				t.Fatal(err)
			}
			if got, ok, err := other.Latest(ctx, "a"); err != nil || !ok || string(got) != string(value) {
				t.Errorf("%s, %v, %v, not %s", got, ok, err, value)
			}
		}
		for _, look := range []func() (json.RawMessage, bool, error){
			func() (json.RawMessage, bool, error) { return other.Get("a") },
			func() (json.RawMessage, bool, error) { return other.Current("a") },
			func() (json.RawMessage, bool, error) { return other.Latest(ctx, "a") },
		} {
			got, ok, err := look()
			if err != nil || !ok || string(got) != "4" {
				t.Fatalf("%s, %v, %v, not 4", got, ok, err)
			}
			got[0] = 'x' // it is the caller's
		}
		if all, err := other.All(ctx); err != nil || string(all["a"]) != "4" {
			t.Errorf("what somebody wrote into a value that they had looked up is shared: %s, %v", all, err)
		} else {
			all["a"][0] = 'x'
		}
		if err := one.Set(ctx, "b", json.RawMessage("true"), time.Time{}); err != nil {
			t.Fatal(err)
		}
		if all, err := other.All(ctx); err != nil || len(all) != 2 || string(all["a"]) != "4" || string(all["b"]) != "true" {
			t.Errorf("all: %s, %v", all, err)
		}
		if up := r.metric("stepwell_shared_records_up"); up != 1 {
			t.Errorf("stepwell_shared_records_up is %v", up)
		}
		if err := other.Set(ctx, "a", nil, time.Time{}); err != nil {
			t.Fatal(err)
		}
		if got, ok, err := one.Latest(ctx, "a"); err != nil || ok {
			t.Errorf("after it was removed: %s, %v, %v", got, ok, err)
		}
		if err := one.Set(ctx, strings.Repeat("x", 1000), json.RawMessage("1"), time.Time{}); !errors.Is(err, actor.ErrRefused) || strings.Count(err.Error(), "refused") != 1 {
			t.Errorf("a name that is too long: %v", err)
		}
	})
}

// A user of RabbitMQ who may not make the queue: what is shared is not known, and says why; nothing
// else suffers.
func TestWithoutTheRightToMakeTheQueueOfWhatIsSharedThatAloneIsUnknown(t *testing.T) {
	onPrivate(t, func(t *testing.T, w *world, node *testbroker.Rabbit) {
		node.Ctl("add_user", rightsUser, "secret")
		node.Ctl("set_permissions", rightsUser, of(`^shipping\.jobs\..*$`, w.app), mayWrite, of(ownQueues, w.app))
		handled := make(chan struct{}, 1)
		app, envs := withJobs(actor.Stream{Handler: func(context.Context, *stepwell.Message) error {
			handled <- struct{}{}
			return nil
		}})
		app.Shared = true
		r := w.start(app, unaware(settings{"RABBITMQ_USERNAME": rightsUser, "RABBITMQ_PASSWORD": "secret"}))
		env := <-envs
		shared := env.Shared("limit")
		job(t, env, "x", 0)
		<-handled
		r.ready()
		eventually(t, "the reason to be told", func() bool {
			_, _, err := shared.Get("a")
			return errors.Is(err, actor.ErrUnknown) && strings.Contains(err.Error(), w.app+".records")
		})
		if _, answer := r.do("GET", "/readyz?verbose", ""); !strings.Contains(fmt.Sprint(answer), "[!] shared records: not known: ") {
			t.Errorf("/readyz?verbose: %s", answer)
		}
		if up := r.metric("stepwell_shared_records_up"); up != 0 {
			t.Errorf("stepwell_shared_records_up is %v", up)
		}
	})
}
