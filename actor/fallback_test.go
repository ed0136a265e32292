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

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/config"
)

func TestWhatWouldDieIsTakenOverOrTellsBothErrors(t *testing.T) {
	t.Parallel()
	errCard := errors.New("no such card")
	tests := []struct {
		name    string
		verdict error // of the handler
		tries   int
		onDead  func() error
		dead    string // what the dead set tells; empty: nothing is there
	}{
		{"the last try failed", errFlaky, 3, func() error { return nil }, ""},
		{"a dead letter", stepwell.DeadLetter(errCard), 1, func() error { return nil }, ""},
		{"a dead letter that nobody takes", stepwell.DeadLetter(errCard), 1, func() error { return errors.New("the mail is away") }, "no such card; OnDead: the mail is away"},
		{"a dead letter that is none of its business", stepwell.DeadLetter(errCard), 1, func() error { return stepwell.DeadLetter(errCard) }, "no such card"},
		{"a last try that is none of its business", errFlaky, 3, func() error { return errFlaky }, errFlaky.Error()},
		{"a skip is no way to lose it", errFlaky, 3, func() error { return stepwell.Skip("never mind") }, errFlaky.Error() + "; OnDead: skipped: never mind"},
		{"a panic in the very words of the failure", errors.New("panic: oh"), 3, func() error { panic("oh") }, "panic: oh; OnDead: panic: oh"},
		{"a panic", errFlaky, 3, func() error { panic("oh") }, errFlaky.Error() + "; OnDead: panic: oh"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, w *world) {
				var c, taken calls
				var until atomic.Value // when the last handler's time is up
				app := orders(func(ctx context.Context, m *stepwell.Message) error {
					at, _ := ctx.Deadline()
					until.Store(at)
					c.add(m)
					m.Value = []byte("changed")
					return test.verdict
				})
				s := app.Streams["orders"]
				s.OnDead = func(ctx context.Context, m *stepwell.Message, err error) error {
					taken.add(m)
					if left, _ := ctx.Deadline(); !errors.Is(err, test.verdict) || !left.After(until.Load().(time.Time)) {
						t.Errorf("called with %v, until %v", err, left)
					}
					return test.onDead()
				}
				app.Streams["orders"] = s
				r := w.start(app, settings{"RETRY_COUNT": "2"})
				w.produce(values("x")...)
				eventually(t, "it was offered", func() bool { return len(taken.all()) == 1 })
				if m := taken.all()[0].m; m.Attempt != test.tries || string(m.Value) != "x" || len(c.all()) != test.tries {
					t.Errorf("offered after %d calls: attempt %d, value %s", len(c.all()), m.Attempt, m.Value)
				}
				if test.dead != "" {
					if dead := r.deadCount(1); dead[0]["error"] != test.dead {
						t.Errorf("the dead set says %q, want %q", dead[0]["error"], test.dead)
					}
					return
				}
				r.queuesEmpty()
				eventually(t, "it is counted", func() bool { return r.metric("stepwell_messages_fallback_total") == 1 })
			})
		})
	}
}

func TestAnOnDeadThatCanNeverBeCalledOrHasNoTimeIsToldBesideAllOtherMistakes(t *testing.T) {
	app := actor.App{Name: "shop", Streams: actor.Streams{"orders": {
		Handler: func(context.Context, *stepwell.Message) error { return nil },
		OnDead:  func(context.Context, *stepwell.Message, error) error { return nil },
	}}}
	for _, test := range []struct{ env, want string }{
		{
			"RETRY_ENABLED=false",
			`RETRY_ENABLED: "false" cannot be beside an OnDead, which is called in place of the dead set: without retries nothing goes there; ` +
				`STREAMS_ORDERS_RETRY_ENABLED=true sets it for this stream alone`,
		},
		{"STREAMS_ORDERS_HANDLER_TIMEOUT=10m", `STREAMS_ORDERS_HANDLER_TIMEOUT: "10m" is above a quarter of RABBITMQ_CONSUMER_TIMEOUT (30m)`},
		{"HANDLER_TIMEOUT=20m", `HANDLER_TIMEOUT: "20m" is above a quarter of RABBITMQ_CONSUMER_TIMEOUT (30m)`}, // and of its half nothing is said
		{"RABBITMQ_CONSUMER_TIMEOUT=61001ms", `HANDLER_TIMEOUT: "5m" is above a quarter of RABBITMQ_CONSUMER_TIMEOUT (1m1.001s)`},
	} {
		_, err := actor.Load(app, []string{"KAFKA_BROKERS=k:1", "RABBITMQ_URL=amqp://r", "STREAMS_ORDERS_TOPICS=t", "RETRY_JITTER=2", test.env})
		if err == nil || !hasAll(err.Error(), test.want, "RETRY_JITTER: ") || strings.Count(err.Error(), "\n") != 2 {
			t.Errorf("%s: %v", test.env, err)
		}
	}
}

// What an OnDead needs is looked at where the configuration is made: an actor takes none that was
// made without its own.
func TestAnActorWithAnOnDeadTakesNoConfigurationThatWasMadeWithoutIt(t *testing.T) {
	works := func(context.Context, *stepwell.Message) error { return nil }
	over := func(context.Context, *stepwell.Message, error) error { return nil }
	for who, stream := range map[string]actor.Stream{
		"stream orders":                 {Handler: works, OnDead: over},
		"channel slow of stream orders": {Handler: works, Channels: actor.Channels{"slow": {Handler: works, OnDead: over}}},
	} {
		source := config.Source{
			AppName: "shop", Environ: []string{"KAFKA_BROKERS=k:1", "RABBITMQ_URL=amqp://r"},
			Streams: map[string]config.Stream{"orders": {Topics: []string{"t"}, Channels: map[string]config.Channel{"slow": {}}}},
		}
		app := actor.App{Name: "shop", Streams: actor.Streams{"orders": stream}}
		cfg, err := config.Load(source)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := actor.New(cfg, app); err == nil || !strings.Contains(err.Error(), who+" has an OnDead that its configuration was not made for") {
			t.Errorf("%s: %v", who, err)
		}
		source.OnDead = func(_, channel string) bool { return (channel == "slow") == (len(stream.Channels) > 0) }
		if cfg, err = config.Load(source); err != nil {
			t.Fatal(err)
		}
		if _, err := actor.New(cfg, app); err != nil {
			t.Errorf("%s: %v", who, err)
		}
	}
}

func TestWhatIsSaidToFitBesideAnOnDeadFits(t *testing.T) {
	app := actor.App{Name: "shop", Streams: actor.Streams{"orders": {
		Handler: func(context.Context, *stepwell.Message) error { return nil },
		OnDead:  func(context.Context, *stepwell.Message, error) error { return nil },
	}}}
	env := []string{"KAFKA_BROKERS=k:1", "RABBITMQ_URL=amqp://r", "STREAMS_ORDERS_TOPICS=t", "RABBITMQ_CONSUMER_TIMEOUT=61001ms"}
	_, err := actor.Load(app, env)
	fits := regexp.MustCompile(`(STREAMS_ORDERS_HANDLER_TIMEOUT=\S+) fits`).FindStringSubmatch(fmt.Sprint(err))
	if fits == nil {
		t.Fatal(err)
	}
	if _, err := actor.Load(app, append(env, fits[1])); err != nil {
		t.Error(err)
	}
}
