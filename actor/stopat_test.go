package actor_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// withoutKafka runs the test on the embedded brokers, and on one of the RabbitMQs there are. No
// Kafka is asked for.
func withoutKafka(t *testing.T, test func(t *testing.T, w *world)) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, embeddedWorld(t))
	})
	for _, node := range testbroker.Sample(t, testbroker.RabbitMQs(t)) {
		t.Run("rabbitmq-"+node.Version, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.rabbit = node.URL
			t.Cleanup(w.deleteQueues)
			test(t, w)
		})
	}
}

// All that is replayed dies again at once, in another process than the one that runs the replay: no
// more is known of it than the two share. Each limit is that of a replay of its own.
func TestNoMoreMessagesOfAReplayFailThanStopAtAllowsHoweverFastTheyDo(t *testing.T) {
	withoutKafka(t, func(t *testing.T, w *world) {
		const n = 300
		var calls atomic.Int64
		app := actor.App{Streams: actor.Streams{"orders": {Enqueued: true, Handler: func(context.Context, *stepwell.Message) error {
			calls.Add(1)
			return stepwell.DeadLetter(errors.New("not mended"))
		}}}}
		env := unaware(settings{"STREAMS_ORDERS_TOPICS": ""})
		envs := make(chan *actor.Env, 1)
		enqueues := app
		enqueues.Start = func(_ context.Context, e *actor.Env) error { envs <- e; return nil }
		w.start(enqueues, env.with(settings{"MODES": "streams,retries"}))
		e := <-envs
		for range n {
			if err := e.Enqueue(t.Context(), "orders", stepwell.Message{Value: []byte("x")}, 0); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "all are dead", func() bool { return calls.Load() == n })
		r := w.start(app, env.with(settings{"MODES": "api"}))
		r.deadCount(n)
		for _, test := range []struct {
			limits       string
			fewest, most int
		}{
			{`"stop_at":20`, 20, 20},
			{`"stop_at":1`, 1, 1},
			{`"stop_at":20,"rate":"200/s"`, 20, 20},
			{`"stop_at":"5%"`, 50, 59}, // as GUARANTEES has it: it counts from 50 on
			{`"stop_at":5,"canary":10`, 5, 5},
		} {
			calls.Store(0)
			o := r.operate(fmt.Sprintf(`{"action":"replay","stream":"orders","select":{"all":true},"expect":%d,%s}`, n, test.limits))
			done, _ := o["done"].(float64)
			did := int(done)
			if o["state"] != "paused" || did < test.fewest || did > test.most {
				t.Errorf("%s: %v", test.limits, o)
			}
			// What was on its way when it paused is handled by then.
			r.outcomeOf(o["id"], outcome(0, did, did, 0))
			if got := int(calls.Load()); got != did {
				t.Errorf("%s: %d calls for %d messages", test.limits, got, did)
			}
			if status, _ := r.do("PATCH", fmt.Sprint("/v1/dead_set/operations/", o["id"]), `{"state":"cancelled"}`); status != 200 {
				t.Fatalf("cancel: %d", status)
			}
		}
		r.deadCount(n)
	})
}
