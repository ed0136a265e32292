package actor_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
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
		{"a skip is no way to lose it", errFlaky, 3, func() error { return stepwell.Skip("never mind") }, errFlaky.Error() + "; OnDead: skipped: never mind"},
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

func TestAnOnDeadThatCanNeverBeCalledOrHasNoTimeIsRefused(t *testing.T) {
	for _, test := range []struct{ env, want string }{
		{"RETRY_ENABLED=false", "without retries none does"},
		{"HANDLER_TIMEOUT=10m", "at most a quarter"},
	} {
		app := actor.App{Name: "shop", Streams: actor.Streams{"orders": {
			Handler: func(context.Context, *stepwell.Message) error { return nil },
			OnDead:  func(context.Context, *stepwell.Message, error) error { return nil },
		}}}
		cfg, err := actor.Load(app, []string{"KAFKA_BROKERS=k:1", "RABBITMQ_URL=amqp://r", "STREAMS_ORDERS_TOPICS=t", test.env})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := actor.New(cfg, app); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.env, err)
		}
	}
}
