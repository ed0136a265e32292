package actor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell"
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
		without   string // a queue that is deleted before, which nobody makes
	}{
		{"to create queues", "create", ownQueues, ""},
		{"to use those that somebody else created", "check", ownLeases, ""},
		{"to use them where there are no records", "check", ownLeases, ".records"},
	}
	manual, err := os.ReadFile("../docs/OPERATIONS.md")
	if err != nil || !hasAll(string(manual), "`"+ownQueues+"`", "`"+mayWrite+"`", "`"+ownLeases+"`") {
		t.Fatalf("the manual names other rights than these; %v", err)
	}
	onEachPrivate(t, func(t *testing.T, w *world, node *testbroker.Rabbit) {
		node.Ctl("add_user", rightsUser, "secret")
		for _, test := range tests {
			node.Ctl("set_permissions", rightsUser, of(test.configure, w.app), mayWrite, of(ownQueues, w.app))
			limited := settings{"RABBITMQ_USERNAME": rightsUser, "RABBITMQ_PASSWORD": "secret", "RABBITMQ_DECLARE": test.declare, "RETRY_COUNT": "1"}
			if test.without != "" {
				if _, err := w.channel().QueueDelete(w.app+test.without, false, false, false); err != nil {
					t.Fatal(err)
				}
			}
			var c calls
			r := w.start(orders(failing(&c)), limited)
			w.produce(values("x")...)
			r.deadCount(1)
			if status, answer := r.do("POST", "/v1/dead_set/replay", `{"count":1,"stream":"orders"}`); status != 200 || answer["done"] != 1.0 {
				t.Errorf("%s: replay: %d %v", test.name, status, answer)
			}
			eventually(t, "two tries, and two after the replay", func() bool { return len(c.all()) == 4 })
			r.deadCount(1)
			// Without records it lives in this process, as where nobody wants them, and says so.
			o := r.operate(`{"action":"replay","stream":"orders","select":{"all":true}}`)
			if alone := fmt.Sprint(o["alone"]); o["state"] != "done" || o["done"] != 1.0 || strings.Contains(alone, w.app+".records is missing") != (test.without != "") {
				t.Errorf("%s: %v", test.name, o)
			}
			r.deadCount(1)
			// Nothing is gone for good because of a right that is missing, unless somebody says so.
			status, answer := r.do("DELETE", "/v1/dead_set", `{"count":1,"stream":"orders"}`)
			if test.declare == "check" {
				if status != 503 || !hasAll(fmt.Sprint(answer["detail"]), "no right to configure it", "forever=true", w.queue("orders", "dead_set.trash.259200.0")) {
					t.Errorf("%s: delete: %d %v", test.name, status, answer)
				}
				r.deadCount(1)
				status, answer = r.do("DELETE", "/v1/dead_set", `{"count":1,"stream":"orders","forever":true}`)
			}
			if status != 200 || answer["done"] != 1.0 {
				t.Errorf("%s: delete: %d %v", test.name, status, answer)
			}
			r.end()
			if out, err := w.actorCommand(t, []string{"doctor"}, limited).CombinedOutput(); err != nil || strings.Contains(string(out), "note operations") != (test.without != "") {
				t.Errorf("%s: doctor: %v\n%s", test.name, err, out)
			}
		}
	})
}

// A user who may not have the lease that decides who runs operations: one lives in the process that
// is asked, as where there are no records, and names the right. Once another process has run some,
// it waits for such a one, and names it, too.
func TestWithoutTheRightToTheLeaseOfOperationsEachSaysWhichItIs(t *testing.T) {
	onPrivate(t, func(t *testing.T, w *world, node *testbroker.Rabbit) {
		node.Ctl("add_user", rightsUser, "secret")
		node.Ctl("set_permissions", rightsUser, of(`^shipping\.(records|orders\..*)$`, w.app), mayWrite, of(ownQueues, w.app))
		app := orders(func(context.Context, *stepwell.Message) error { return stepwell.DeadLetter(errFlaky) })
		r := w.start(app, settings{"RABBITMQ_USERNAME": rightsUser, "RABBITMQ_PASSWORD": "secret"})
		w.produce(numbered(3)...)
		r.deadCount(3)
		lease := "access to queue '" + w.app + ".operations.lease'"
		const first = `{"action":"delete","stream":"orders","forever":true,"select":{"filter":{"offset_from":"0"}}}`
		if o := r.operate(first); o["state"] != "done" || o["done"] != 3.0 || !strings.Contains(fmt.Sprint(o["alone"]), lease) {
			t.Errorf("alone: %v", o)
		}
		may := w.start(app, nil)
		may.ready()
		w.produce(numbered(3)...)
		r.deadCount(3)
		if o := may.operate(first); o["state"] != "done" || o["done"] != 3.0 || o["alone"] != nil {
			t.Errorf("by who may: %v", o)
		}
		may.end()
		w.produce(numbered(3)...)
		r.deadCount(3)
		status, o := r.do("POST", "/v1/dead_set/operations", first)
		if status != 202 || o["alone"] != nil {
			t.Fatalf("%d %v", status, o)
		}
		path := fmt.Sprint("/v1/dead_set/operations/", o["id"])
		eventually(t, "it says why it waits", func() bool { _, o = r.do("GET", path, ""); return strings.Contains(fmt.Sprint(o["why"]), lease) })
		if o["state"] != "queued" {
			t.Errorf("it says why: %v", o)
		}
		w.start(app, nil)
		eventually(t, "who may runs it", func() bool { _, o = r.do("GET", path, ""); return o["state"] == "done" && o["why"] == nil })
	})
}

func TestWhatTheCommandTopologyPrintsMakesQueuesThatCheckingTakes(t *testing.T) {
	env := settings{"RETRY_COUNT": "2", "RETRY_STEP": "100ms", "RABBITMQ_DECLARE": "check"}
	onOneRabbitMQ(t, func(t *testing.T, w *world) {
		out, err := w.actorCommand(t, []string{"topology"}, env).Output()
		if err != nil {
			t.Fatal(err)
		}
		made, later := 0, map[string]amqp.Table{}
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
			if first, _, pages := strings.Cut(name, " … "); pages { // made as they are needed
				later[first] = arguments
				continue
			}
			if _, err := w.channel().QueueDeclare(name, true, false, false, false, arguments); err != nil {
				t.Fatal(err)
			}
			made++
		}
		doctor := func() string {
			t.Helper()
			out, err := w.actorCommand(t, []string{"doctor"}, env).CombinedOutput()
			if err != nil {
				t.Errorf("doctor: %v\n%s", err, out)
			}
			return string(out)
		}
		for _, what := range []string{"sorted", "deleted, but for good, or edited"} {
			if out := doctor(); !strings.Contains(out, "note no dead message of stream orders can be "+what+": ") || !strings.Contains(out, "is missing") {
				t.Errorf("without pages:\n%s", out)
			}
		}
		for name, arguments := range later {
			if _, err := w.channel().QueueDeclare(name, true, false, false, false, arguments); err != nil {
				t.Fatal(err)
			}
		}
		if out := doctor(); len(later) != 2 || strings.Contains(out, "note no dead message") {
			t.Errorf("%d pages:\n%s", len(later), out)
		}
		if made != 5 {
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
