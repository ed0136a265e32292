package actor_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/testbroker"
)

// The rights that docs/OPERATIONS.md names, for the app shipping.
const (
	ownQueues  = `^shipping\..*$`
	mayWrite   = `^amq\.default$`
	ownLeases  = `^shipping\..*\.lease$`
	rightsUser = "worker"
)

func TestARabbitMQUserNeedsNoMoreRightsThanTheManualSays(t *testing.T) {
	tests := []struct {
		name      string
		declare   string
		configure string
	}{
		{"to create queues", "create", ownQueues},
		{"to use those that somebody else created", "check", ownLeases},
	}
	manual, err := os.ReadFile("../docs/OPERATIONS.md")
	if err != nil || !hasAll(string(manual), "`"+ownQueues+"`", "`"+mayWrite+"`", "`"+ownLeases+"`") {
		t.Fatalf("the manual names other rights than these; %v", err)
	}
	onPrivate(t, testbroker.RabbitOptions{}, func(t *testing.T, w *world, node *testbroker.Rabbit) {
		node.Ctl("add_user", rightsUser, "secret")
		for _, test := range tests {
			node.Ctl("set_permissions", rightsUser, of(test.configure, w.app), mayWrite, of(ownQueues, w.app))
			limited := settings{"RABBITMQ_USERNAME": rightsUser, "RABBITMQ_PASSWORD": "secret", "RABBITMQ_DECLARE": test.declare, "RETRY_COUNT": "1"}
			var c calls
			r := w.start(orders(failing(&c)), limited)
			w.produce(values("x")...)
			r.deadCount(1)
			if status, answer := r.do("POST", "/v1/dead_set/replay", `{"count":1,"stream":"orders"}`); status != 200 || answer["done"] != 1.0 {
				t.Errorf("%s: replay: %d %v", test.name, status, answer)
			}
			eventually(t, "two tries, and two after the replay", func() bool { return len(c.all()) == 4 })
			r.deadCount(1)
			if status, answer := r.do("DELETE", "/v1/dead_set", `{"count":1,"stream":"orders"}`); status != 200 || answer["done"] != 1.0 {
				t.Errorf("%s: delete: %d %v", test.name, status, answer)
			}
			r.end()
		}
	})
}

func TestWhatTheCommandTopologyPrintsMakesQueuesThatCheckingTakes(t *testing.T) {
	env := settings{"RETRY_COUNT": "2", "RETRY_STEP": "100ms", "RABBITMQ_DECLARE": "check"}
	onOneRabbitMQ(t, func(t *testing.T, w *world) {
		out, err := w.actorCommand(t, []string{"topology"}, env).Output()
		if err != nil {
			t.Fatal(err)
		}
		made := 0
		for line := range strings.Lines(string(out)) {
			name, text, found := strings.Cut(strings.TrimSpace(line), " durable ")
			if !found {
				continue
			}
			var arguments amqp.Table
			if err := json.Unmarshal([]byte(text), &arguments); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			for key, value := range arguments {
				if number, ok := value.(float64); ok {
					arguments[key] = int64(number)
				}
			}
			if _, err := w.channel().QueueDeclare(name, true, false, false, false, arguments); err != nil {
				t.Fatal(err)
			}
			made++
		}
		if made != 6 {
			t.Fatalf("%d queues:\n%s", made, out)
		}
		env["RETRY_DELAY"] = "200ms" // as the command was told
		var c calls
		r := w.start(orders(failing(&c)), env)
		w.produce(values("x")...)
		r.deadCount(1)
	})
}

// of is the pattern for another app than shipping.
func of(pattern, app string) string { return strings.ReplaceAll(pattern, "shipping", app) }
