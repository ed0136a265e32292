package actor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
)

// groupsOf is what a look at all causes answers.
func (r *running) groupsOf() (complete bool, unsorted, count float64) {
	r.t.Helper()
	status, answer := r.do("GET", "/v1/dead_set/groups?stream=orders", "")
	if status != 200 {
		r.t.Fatalf("groups: %d %v", status, answer)
	}
	for _, g := range answer["groups"].([]any) {
		count += g.(map[string]any)["count"].(float64)
	}
	return answer["complete"].(bool), answer["unsorted"].(float64), count
}

func TestAfterASortLooksSeeAllAndTheDepthIsWhatItWas(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		const n = 60
		app := orders(func(context.Context, *stepwell.Message) error { return stepwell.DeadLetter(errors.New("status 503")) })
		// One look, and one page, have some of them only.
		r := w.start(app, settings{"DEAD_SET_WALK_BYTES": "4000"})
		w.produce(numbered(n)...)
		depth := func() int { return r.depths()[w.queue("orders", "dead_set")] }
		eventually(t, "all are dead", func() bool { return depth() == n })
		if complete, unsorted, count := r.groupsOf(); complete || unsorted == 0 || unsorted+count != n {
			t.Fatalf("before: complete %t, %v unsorted, %v counted", complete, unsorted, count)
		}
		if o := r.operate(`{"action":"sort","stream":"orders"}`); o["state"] != "done" || o["done"] != float64(n) {
			t.Fatalf("sort: %v", o)
		}
		if complete, unsorted, count := r.groupsOf(); !complete || unsorted != 0 || count != n {
			t.Errorf("after: complete %t, %v unsorted, %v counted", complete, unsorted, count)
		}
		eventually(t, "the depth is shown", func() bool { return depth() == n })
		all := r.listAll()
		last := all[len(all)-1]
		if status, one := r.do("GET", fmt.Sprint("/v1/dead_set/messages/", last["id"], "?stream=orders"), ""); len(all) != n || status != 200 || one["value"] != last["value"] {
			t.Errorf("%d listed; by id: %d %v", len(all), status, one)
		}
		if status, done := r.do("DELETE", "/v1/dead_set", `{"count":"25","topic-entity":"orders"}`); status != 200 || done["done"] != 25.0 || done["left"] != 35.0 {
			t.Errorf("delete: %d %v", status, done)
		}
		if o := r.operate(fmt.Sprintf(`{"action":"delete","stream":"orders","select":{"ids":[%q]},"expect":1}`, last["id"])); o["state"] != "done" || o["done"] != 1.0 {
			t.Errorf("delete by id: %v", o)
		}
		if o := r.operate(`{"action":"unsort","stream":"orders"}`); o["state"] != "done" || o["done"] != 34.0 {
			t.Errorf("the way back: %v", o)
		}
		if complete, _, count := r.groupsOf(); complete || count == 0 {
			t.Errorf("back: complete %t, %v counted", complete, count)
		}
		if got, want := valuesOf(r.firstDead(5)), valuesOf(all[25:30]); got != want {
			t.Errorf("back: %s, not %s", got, want)
		}
	})
}

// listAll lists all dead messages, part by part.
func (r *running) listAll() (all []map[string]any) {
	r.t.Helper()
	for cursor := ""; ; {
		status, list := r.do("GET", "/v1/dead_set?stream=orders&limit=500"+cursor, "")
		if status != 200 {
			r.t.Fatalf("list: %d %v", status, list)
		}
		for _, m := range list["messages"].([]any) {
			all = append(all, m.(map[string]any))
		}
		next, more := list["next"].(string)
		if !more {
			return all
		}
		cursor = "&cursor=" + next
	}
}

// firstDead are the oldest dead messages.
func (r *running) firstDead(n int) (all []map[string]any) {
	r.t.Helper()
	eventually(r.t, "a peek", func() bool {
		var status int
		all, status = r.peek(n)
		return status == 200
	})
	return all
}

func TestASortIsRefusedWhileOthersHandleTheMessagesUnlessItIsForced(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		app := orders(func(context.Context, *stepwell.Message) error { return stepwell.DeadLetter(errors.New("status 503")) })
		r := w.start(app, nil)
		w.produce(numbered(3)...)
		r.deadCount(3)
		other := w.start(app, nil)
		var says string
		eventually(t, "the other is seen", func() bool {
			status, answer := r.do("POST", "/v1/dead_set/operations", `{"action":"sort","stream":"orders","dry_run":true}`)
			says = fmt.Sprint(answer["detail"])
			return status == 409
		})
		if !strings.Contains(says, "force") || !strings.Contains(says, "1 more") {
			t.Errorf("it says %q", says)
		}
		// In a pause this process has no consumer of its own to leave out.
		if status, answer := r.do("POST", "/v1/streams/orders/pause", ""); status != 200 {
			t.Fatalf("pause: %d %v", status, answer)
		}
		by := w.broker()
		eventually(t, "only the other consumes", func() bool {
			n, err := by.Consumers(t.Context(), w.queue("orders", "instant"))
			return err == nil && n == 1
		})
		if status, answer := r.do("POST", "/v1/dead_set/operations", `{"action":"sort","stream":"orders","dry_run":true}`); status != 409 || !strings.Contains(fmt.Sprint(answer["detail"]), "1 more") {
			t.Errorf("in a pause: %d %v", status, answer)
		}
		r.do("POST", "/v1/streams/orders/resume", "")
		if o := r.operate(`{"action":"sort","stream":"orders","force":true}`); o["state"] != "done" || o["done"] != 3.0 || o["force"] != true {
			t.Errorf("forced: %v", o)
		}
		// The other one finds all of them, too.
		other.deadCount(3)
		if o := other.operate(`{"action":"unsort","stream":"orders"}`); o["state"] != "done" || o["done"] != 3.0 {
			t.Errorf("the way back: %v", o)
		}
	})
}

func TestASortChoosesNothingAndIsRefusedWhereThereMayBeNoPages(t *testing.T) {
	w := embeddedWorld(t)
	r := w.start(orders(func(context.Context, *stepwell.Message) error { return stepwell.DeadLetter(errors.New("away")) }), settings{"DEAD_SET_PAGES": "0"})
	w.produce(numbered(3)...)
	r.deadCount(3)
	for body, says := range map[string]string{
		`{"action":"sort","stream":"orders","select":{"all":true}}`:                "select",
		`{"action":"sort","stream":"orders","expect":3}`:                           "expect",
		`{"action":"unsort","stream":"orders","before":"2h"}`:                      "before",
		`{"action":"sort","stream":"orders","forever":true}`:                       "forever",
		`{"action":"replay","stream":"orders","force":true,"select":{"all":true}}`: "force",
	} {
		if status, answer := r.do("POST", "/v1/dead_set/operations", body); status != 400 || !strings.Contains(fmt.Sprint(answer["detail"]), says) {
			t.Errorf("%s: %d %v", body, status, answer["detail"])
		}
	}
	for _, body := range []string{`{"action":"sort","stream":"orders"}`, `{"action":"sort","stream":"orders","force":true}`, `{"action":"sort","stream":"orders","dry_run":true}`} {
		if status, answer := r.do("POST", "/v1/dead_set/operations", body); status != 409 || !strings.Contains(fmt.Sprint(answer["detail"]), "DEAD_SET_PAGES=0") {
			t.Errorf("%s: %d %v", body, status, answer)
		}
	}
	if _, list := r.do("GET", "/v1/dead_set/operations", ""); len(list["operations"].([]any)) != 0 {
		t.Errorf("what was refused is there: %v", list)
	}
	if o := r.operate(`{"action":"unsort","stream":"orders"}`); o["state"] != "done" || o["done"] != 0.0 {
		t.Errorf("the way back: %v", o)
	}
	r.deadCount(3)
}

// With RABBITMQ_DECLARE=check somebody else makes the pages, and nobody could make them again.
func TestWhoMakesNoQueuesDeletesNoPages(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		r := w.start(dies(), nil)
		w.produce(numbered(3)...)
		r.deadCount(3)
		if o := r.operate(`{"action":"sort","stream":"orders"}`); o["state"] != "done" || o["done"] != 3.0 {
			t.Fatal(o)
		}
		r.end()
		r = w.start(dies(), settings{"RABBITMQ_DECLARE": "check"})
		r.deadCount(3)
		if o := r.operate(`{"action":"unsort","stream":"orders"}`); o["state"] != "done" || o["done"] != 3.0 {
			t.Error(o)
		}
		if depth, err := w.broker().Depth(t.Context(), w.queue("orders", "dead_set.page.0")); depth != 0 || err != nil {
			t.Errorf("the page has %d, %v", depth, err)
		}
	})
}
