package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Two processes, of which one is told: what it stored, the other knows with its next request.
func TestAWorkflowThatOneProcessWasGivenIsKnownToAllAtOnceAndAfterTheirEnd(t *testing.T) {
	t.Parallel()
	onRabbitMQ(t, func(t *testing.T, w *world) {
		r := newReceiver(t, always(200))
		call := func(name string) string {
			return fmt.Sprintf(`{"message_id":%q,"retry_request":{"request_type":"POST","url":%q}}`, name, r.url("/"+name))
		}
		one, two := w.child(), w.child()
		const times = 20
		listed := func(want int) {
			t.Helper()
			a := two.do("GET", "/retry_workflow", "")
			if all, _ := a.json["workflows"].([]any); a.status != 200 || len(all) != want {
				t.Errorf("another process lists: %d %v, want %d", a.status, a.json, want)
			}
		}
		for i := range times {
			name := fmt.Sprint("w", i)
			if a := one.do("POST", "/retry_workflow", fmt.Sprintf(`{"name":%q,"retry_delays":[1]}`, name)); a.status != 200 {
				t.Fatalf("workflow: %d %v", a.status, a.json)
			}
			listed(i + 1)
			if a := two.do("POST", "/retry", call(name), "x-retry-workflow", name); a.status != 202 {
				t.Errorf("another process: %d %v", a.status, a.json)
			}
		}
		if a := one.do("DELETE", "/retry_workflow/w0", ""); a.status != 200 {
			t.Errorf("delete: %d %v", a.status, a.json)
		}
		listed(times - 1)
		one.kill()
		two.kill()
		three := w.child()
		if a := three.do("POST", "/retry", call("again"), "x-retry-workflow", "w7"); a.status != 202 {
			t.Errorf("after the kill of all: %d %v", a.status, a.json)
		}
		if a := three.do("POST", "/retry", call("removed"), "x-retry-workflow", "w0"); a.status != 400 {
			t.Errorf("a workflow that was removed, after the kill of all: %d %v", a.status, a.json)
		}
		eventually(t, "all calls", func() bool { return len(r.requests()) > times })
	})
}

func TestACancelLeavesOutTheTriesOfAllProcesses(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		r := newReceiver(t, always(http.StatusServiceUnavailable))
		run := w.start()
		other := run
		if w.rabbit != "" {
			other = w.start()
		}
		body := func(name string) string {
			return fmt.Sprintf(`{"id":%q,"request":{"url":%q},"waits":["1s","1s","1s","1s","1s","1s"]}`, name, r.url("/"+name))
		}
		for _, name := range []string{"gone", "stays"} {
			if a := run.do("POST", "/calls", body(name)); a.status != 202 {
				t.Fatalf("call: %d %v", a.status, a.json)
			}
		}
		eventually(t, "a first try of both", func() bool { return len(r.requests()) >= 2 })
		if a := other.do("DELETE", "/calls/gone", ""); a.status != 200 {
			t.Fatalf("cancel: %d %v", a.status, a.json)
		}
		told := time.Now()
		count := func(path string) (n int) {
			for _, got := range r.requests() {
				// A try may be under way as the cancel is answered.
				if got.path == path && got.at.Sub(told) > 500*time.Millisecond {
					n++
				}
			}
			return n
		}
		eventually(t, "three more tries of the other", func() bool { return count("/stays") >= 3 })
		if n := count("/gone"); n > 0 {
			t.Errorf("%d tries after the cancel", n)
		}
		if dead := run.dead(); len(dead) > 0 {
			t.Errorf("a cancelled call is dead: %v", dead)
		}
	})
}

// The calls are under way as they are cancelled: one succeeds then, the other fails.
func TestACancelLeavesOutWhatWouldFollowTheCall(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		cancelled, underWay := make(chan struct{}), make(chan string, 10)
		answer := sync.OnceFunc(func() { close(cancelled) })
		r := newReceiver(t, func(path string, _ int) int {
			if strings.HasPrefix(path, "/gone") {
				underWay <- path
				<-cancelled
			}
			if strings.HasSuffix(path, "/bad") {
				return 500
			}
			return 200
		})
		run := w.start("APP_TIMEOUT=1m")
		t.Cleanup(answer) // before the receiver waits for its answers
		calls := []string{"gone/good", "gone/bad", "stays/good", "stays/bad"}
		for _, name := range calls {
			body := fmt.Sprintf(`{"id":%q,"request":{"url":%q},"waits":[],"on_success":{"url":%q},"on_failure":{"url":%q}}`,
				name, r.url("/"+name), r.url("/"+name+"/done"), r.url("/"+name+"/failed"))
			if a := run.do("POST", "/calls", body); a.status != 202 {
				t.Fatalf("call: %d %v", a.status, a.json)
			}
		}
		eventually(t, "two calls are under way", func() bool { return len(underWay) == 2 })
		for _, name := range calls[:2] {
			if a := run.do("DELETE", "/calls/"+name, ""); a.status != 200 {
				t.Fatalf("cancel: %d %v", a.status, a.json)
			}
		}
		answer()
		eventually(t, "what follows from all is made or left out", func() bool { return r.count()+run.ended("skipped") >= 2*len(calls) })
		made := map[string]int{}
		for _, got := range r.requests() {
			made[got.path]++
		}
		want := map[string]int{"/gone/good": 1, "/gone/bad": 1, "/stays/good": 1, "/stays/bad": 1, "/stays/good/done": 1, "/stays/bad/failed": 1}
		if dead := run.dead(); !maps.Equal(made, want) || len(dead) > 0 {
			t.Errorf("made: %v, want %v; dead: %v", made, want, dead)
		}
	})
}

func TestWithoutRecordsNothingIsStoredAndCallsAreMade(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		r := newReceiver(t, always(200))
		run := w.start("APP_RECORDS=false", "APP_WORKFLOWS_TEST=1s")
		for path, method := range map[string]string{"/retry_workflow": "POST", "/calls/a": "DELETE"} {
			a := run.do(method, path, `{"name":"other","retry_delays":[5000]}`)
			if a.status != 409 || !strings.Contains(fmt.Sprint(a.json["detail"]), "APP_RECORDS=false") {
				t.Errorf("%s: %d %v", path, a.status, a.json)
			}
		}
		if a := run.do("POST", "/calls", fmt.Sprintf(`{"request":{"url":%q},"workflow":"test"}`, r.url("/"))); a.status != 202 {
			t.Fatalf("call: %d %v", a.status, a.json)
		}
		eventually(t, "the call", func() bool { return len(r.requests()) == 1 })
	})
}

// A workflow of the configuration is the operator's.
func TestAWorkflowOfTheConfigurationIsNotReplaced(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		run := w.start("APP_WORKFLOWS_TEST=5s")
		for body, want := range map[string]int{`{"name":"test","retry_delays":[5000]}`: 200, `{"name":"test","retry_delays":[6000]}`: 409} {
			if a := run.do("POST", "/retry_workflow", body); a.status != want {
				t.Errorf("%s: %d %v", body, a.status, a.json)
			}
		}
	})
}

// Somebody else has a queue of that name: calls are accepted and not made, the reason is told, and
// once the queue is gone they are made.
func TestCallsWaitWhileWhatMayBeCancelledCannotBeReadAndReadyzSaysWhy(t *testing.T) {
	t.Parallel()
	onRabbitMQ(t, func(t *testing.T, w *world) {
		conn, err := amqp.Dial(w.rabbit)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		ch, err := conn.Channel()
		if err == nil {
			_, err = ch.QueueDeclare(w.app+".records", true, false, false, false, amqp.Table{"x-queue-type": "classic"})
		}
		if err != nil {
			t.Fatal(err)
		}
		r := newReceiver(t, always(200))
		run := w.start()
		says := func() string { return run.text("/readyz?verbose") }
		eventually(t, "the reason is told", func() bool {
			return strings.Contains(says(), "[!] shared records: not known: ") && strings.Contains(says(), "PRECONDITION_FAILED")
		})
		if a := run.do("POST", "/calls", fmt.Sprintf(`{"request":{"url":%q},"waits":[]}`, r.url("/"))); a.status != 202 {
			t.Fatalf("call: %d %v", a.status, a.json)
		}
		eventually(t, "the call is put off", func() bool { return run.snoozed() > 0 })
		if a := run.do("GET", "/readyz", ""); a.status != 200 || r.count() > 0 {
			t.Errorf("ready: %d; %d calls were made", a.status, r.count())
		}
		if _, err := ch.QueueDelete(w.app+".records", false, false, false); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the call", func() bool { return r.count() == 1 })
		if text := says(); !strings.Contains(text, "[+] shared records: known\n") {
			t.Errorf("then it says %s", text)
		}
	})
}

// text is what a path answers.
func (r *running) text(path string) string {
	r.t.Helper()
	resp, err := http.Get("http://" + r.actor.Address() + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}
