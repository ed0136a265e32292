package actor_test

import (
	"fmt"
	"testing"
)

func TestWhatWaitsWhenRetriesAreTurnedOffIsToldAndItsDeadSetStaysReachable(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var c calls
		r := w.start(orders(failing(&c)), settings{"RETRY_COUNT": "0"})
		w.produce(values("a", "b", "c")...)
		r.deadCount(3)
		r.end()

		app, log := logged(orders(failing(&c)))
		r = w.start(app, settings{"RETRY_ENABLED": "false"})
		r.ready()
		said := fmt.Sprintf("%s=3", w.queue("orders", "dead_set"))
		eventually(t, "the log tells what waits", func() bool { return log.said("WARN", "RETRY_ENABLED", said) })
		if n := r.depths()[w.queue("orders", "dead_set")]; n != 3 {
			t.Errorf("/v1/streams shows %d dead messages", n)
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
