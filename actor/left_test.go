package actor_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
)

func TestWhatWaitsWhenRetriesAreTurnedOffIsToldAndItsDeadSetStaysReachable(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var c calls
		app := orders(func(ctx context.Context, m *stepwell.Message) error {
			if string(m.Value) == "later" {
				return stepwell.Snooze(time.Hour)
			}
			return failing(&c)(ctx, m)
		})
		r := w.start(app, settings{"RETRY_COUNT": "0"})
		later := w.queue("orders", "delay.3600000")
		w.produce(values("a", "b", "c", "later")...)
		r.deadCount(3)
		eventually(t, "one waits for as long as its handler said", func() bool { return r.depths()[later] == 1 })
		if o := r.operate(`{"action":"sort","stream":"orders"}`); o["state"] != "done" || o["done"] != 3.0 {
			t.Errorf("sort: %v", o)
		}
		r.end()

		app, log := logged(app)
		r = w.start(app, settings{"RETRY_ENABLED": "false"})
		r.ready()
		dead := w.queue("orders", "dead_set")
		eventually(t, "the log tells what waits", func() bool { return log.said("WARN", "RETRY_ENABLED", dead+"=3", later+"=1") })
		if shown := r.depths(); shown[dead] != 3 || shown[later] != 1 {
			t.Errorf("/v1/streams shows %v", shown)
		}
		if all := r.dead(10); len(all) != 3 {
			t.Errorf("a peek shows %d", len(all))
		}
		status, answer := r.do("POST", "/v1/dead_set/replay", `{"count":1,"stream":"orders"}`)
		if status != 409 || !hasAll(fmt.Sprint(answer["detail"]), "nobody would take", "RETRY_ENABLED") {
			t.Errorf("replay: %d %v", status, answer)
		}
		if !log.said("audit: dead set", `"action":"replay"`) || log.said("audit: dead set", `"action":"replay"`, `"left":`) {
			t.Errorf("the audit of what was refused before anybody looked knows how many are left: %s", log)
		}
		if status, answer := r.do("DELETE", "/v1/dead_set", `{"count":1,"stream":"orders"}`); status != 200 || answer["left"] != 2.0 {
			t.Errorf("delete: %d %v", status, answer)
		}
		r.end()
	})
}

func TestWithoutRetriesAnActorDoesNotNeedTheRabbitMQThatIsConfigured(t *testing.T) {
	onOneRabbitMQ(t, func(t *testing.T, w *world) {
		var c calls
		r := w.start(orders(failing(&c)), settings{"RETRY_ENABLED": "false", "RETRY_DELAY": "20ms", "RABBITMQ_URL": "amqp://127.0.0.1:1"})
		r.ready()
		w.produce(values("x")...)
		eventually(t, "calls", func() bool { return len(c.all()) > 1 })
		r.end()
	})
}
