package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

// ofThreeCauses is an app whose messages die of one of three causes, by their number, until that
// cause is mended.
func ofThreeCauses(mended *[3]atomic.Bool, handled *calls) actor.App {
	return orders(func(_ context.Context, m *stepwell.Message) error {
		n := 0
		if _, err := fmt.Sscan(string(m.Value), &n); err != nil {
			return err
		}
		if !mended[n%3].Load() {
			return stepwell.DeadLetter(errors.New([]string{"status 503", "no such customer", "out of stock"}[n%3]))
		}
		handled.add(m)
		return nil
	})
}

// operate asks for an operation and waits until it is over, or rests.
func (r *running) operate(body string) map[string]any {
	r.t.Helper()
	status, o := r.do("POST", "/v1/dead_set/operations", body)
	if status != 202 {
		r.t.Fatalf("%s: %d %v", body, status, o)
	}
	path := fmt.Sprint("/v1/dead_set/operations/", o["id"])
	eventually(r.t, "the operation has ended", func() bool {
		_, o = r.do("GET", path, "")
		return o["state"] != "queued" && o["state"] != "running"
	})
	return o
}

func ofCauses(n int, causes ...int) string {
	var all []string
	for i := range n {
		if slices.Contains(causes, i%3) {
			all = append(all, fmt.Sprint(i))
		}
	}
	return strings.Join(all, " ")
}

func TestOneCauseIsReplayedAnotherDeletedAndNothingElseMoves(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		const n = 60
		var mended [3]atomic.Bool
		var handled calls
		r := w.start(ofThreeCauses(&mended, &handled), nil)
		w.produce(numbered(n)...)
		r.deadCount(n)
		status, dry := r.do("POST", "/v1/dead_set/operations", `{"action":"replay","stream":"orders","select":{"filter":{"error":"status 503"}},"dry_run":true}`)
		groups := dry["groups"].([]any)
		if status != 200 || dry["matched"] != 20.0 || len(groups) != 1 || dry["complete"] != true {
			t.Fatalf("dry run: %d %v", status, dry)
		}
		group := groups[0].(map[string]any)["group"]
		mended[0].Store(true)
		o := r.operate(fmt.Sprintf(`{"action":"replay","stream":"orders","select":{"group":%q},"before":%q,"expect":20}`, group, dry["as_of"]))
		if o["state"] != "done" || o["done"] != 20.0 || o["matched"] != 20.0 || o["complete"] != true {
			t.Errorf("replay: %v", o)
		}
		eventually(t, "all of that cause are handled", func() bool { return len(handled.all()) == 20 })
		if left := valuesOf(r.deadCount(40)); left != ofCauses(n, 1, 2) {
			t.Errorf("left: %s", left)
		}
		if status, first := r.do("GET", "/v1/dead_set/export?stream=orders&error=no+such+customer", ""); status != 200 || first["id"] != w.topic+":0:1" && first["value"] != 1.0 {
			t.Errorf("export: %d %v", status, first)
		}
		if o := r.operate(`{"action":"delete","stream":"orders","select":{"filter":{"error":"no such customer"}},"expect":19}`); o["state"] != "refused" {
			t.Errorf("more than expected: %v", o)
		}
		if o := r.operate(`{"action":"delete","stream":"orders","select":{"filter":{"error":"no such customer"}},"expect":20}`); o["state"] != "done" || o["done"] != 20.0 || o["forever"] != nil || o["trash"] != "72h0m0s" {
			t.Errorf("delete: %v", o)
		}
		if left := valuesOf(r.deadCount(20)); left != ofCauses(n, 2) {
			t.Errorf("left: %s", left)
		}
		if len(handled.all()) != 20 {
			t.Errorf("%d handled", len(handled.all()))
		}
	})
}

func TestWhatIsReplayedAndDiesAgainIsNotReplayedOnceMoreByTheSameOperation(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var mended [3]atomic.Bool
		var handled calls
		r := w.start(ofThreeCauses(&mended, &handled), nil)
		w.produce(numbered(9)...)
		r.deadCount(9)
		o := r.operate(`{"action":"replay","stream":"orders","select":{"all":true}}`)
		if o["state"] != "done" || o["done"] != 9.0 {
			t.Errorf("%v", o)
		}
		for _, m := range r.deadCount(9) {
			if m["replays"] != 1.0 || m["operation"] != o["id"] {
				t.Errorf("%v", m)
			}
		}
	})
}

func TestAnOperationThatIsSlowIsPausedWatchedAndGoesOnInTheNextProcess(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		const n = 30
		var mended [3]atomic.Bool
		var handled calls
		r := w.start(ofThreeCauses(&mended, &handled), nil)
		w.produce(numbered(n)...)
		r.deadCount(n)
		mended[2].Store(true)
		_, o := r.do("POST", "/v1/dead_set/operations", `{"action":"replay","stream":"orders","select":{"filter":{"error":"out of stock"}},"rate":"1/s"}`)
		path := fmt.Sprint("/v1/dead_set/operations/", o["id"])
		eventually(t, "some are done", func() bool { _, o = r.do("GET", path, ""); return o["done"].(float64) > 0 })
		if status, answer := r.do("DELETE", "/v1/dead_set", `{"count":1,"stream":"orders"}`); status != 409 || answer["operation"] != o["id"] {
			t.Errorf("a count beside it: %d %v", status, answer)
		}
		if status, _ := r.do("GET", "/v1/dead_set?count=1&stream=orders", ""); status != 200 {
			t.Errorf("a peek beside it: %d", status)
		}
		if status, o := r.do("PATCH", path, `{"state":"paused"}`); status != 200 || o["state"] != "paused" {
			t.Fatalf("%d %v", status, o)
		}
		_, o = r.do("GET", path, "")
		done := int(o["done"].(float64))
		if done < 1 || done > 9 {
			t.Fatalf("%v", o)
		}
		r.deadCount(n - done)
		if status, o := r.do("PATCH", path, `{"state":"running"}`); status != 200 || o["why"] != nil {
			t.Fatalf("%d %v", status, o)
		}
		eventually(t, "it runs again", func() bool { _, o = r.do("GET", path, ""); return o["state"] == "running" })
		r.end()
		r = w.start(ofThreeCauses(&mended, &handled), nil)
		eventually(t, "it is over", func() bool { _, o = r.do("GET", path, ""); return o["state"] == "done" })
		if o["done"] != float64(n/3) || o["resumed"] != 1.0 {
			t.Errorf("%v", o)
		}
		eventually(t, "all of that cause are handled", func() bool { return len(handled.all()) == n/3 })
		// What it was not about is where it was, in its order.
		if left := valuesOf(r.deadCount(n - n/3)); left != ofCauses(n, 0, 1) {
			t.Errorf("left: %s", left)
		}
	})
}

func TestWithoutRecordsAnOperationLivesInTheProcessThatWasAskedAndSaysSo(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var mended [3]atomic.Bool
		var handled calls
		alone := settings{"RABBITMQ_RECORDS": "false"}
		r := w.start(ofThreeCauses(&mended, &handled), alone)
		w.produce(numbered(6)...)
		r.deadCount(6)
		status, o := r.do("POST", "/v1/dead_set/operations", `{"action":"replay","stream":"orders","select":{"all":true},"rate":"1/m"}`)
		if status != 202 || !strings.Contains(fmt.Sprint(o["message"]), "RABBITMQ_RECORDS=false") {
			t.Fatalf("%d %v", status, o)
		}
		r.end()
		r = w.start(ofThreeCauses(&mended, &handled), alone)
		r.ready()
		if status, answer := r.do("GET", fmt.Sprint("/v1/dead_set/operations/", o["id"]), ""); status != 404 {
			t.Errorf("another process knows it: %d %v", status, answer)
		}
	})
}

func TestAnyProcessAnswersForAnOperationThatAnotherRunsPausesItAndRefusesACountBesideIt(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		const n = 30
		var mended [3]atomic.Bool
		var handled calls
		one := w.start(ofThreeCauses(&mended, &handled), nil)
		w.produce(numbered(n)...)
		one.deadCount(n)
		mended[2].Store(true)
		other := w.start(ofThreeCauses(&mended, &handled), settings{"MODES": "api"})
		other.ready()
		_, o := one.do("POST", "/v1/dead_set/operations", `{"action":"replay","stream":"orders","select":{"filter":{"error":"out of stock"}},"rate":"1/s"}`)
		path := fmt.Sprint("/v1/dead_set/operations/", o["id"])
		eventually(t, "the other knows that it runs", func() bool { _, o = other.do("GET", path, ""); return o["state"] == "running" })
		if status, answer := other.do("DELETE", "/v1/dead_set", `{"count":1,"stream":"orders"}`); status != 409 || answer["operation"] != o["id"] {
			t.Errorf("a count at the other: %d %v", status, answer)
		}
		if status, o := other.do("PATCH", path, `{"state":"paused"}`); status != 200 || o["state"] != "paused" {
			t.Errorf("%d %v", status, o)
		}
		// Each reads what is shared by itself, some milliseconds before or after the others.
		eventually(t, "the first knows that it is paused", func() bool { _, o = one.do("GET", path, ""); return o["state"] == "paused" })
		if o["wanted"] != nil || o["term"] != nil {
			t.Errorf("%v", o)
		}
		if status, o := other.do("PATCH", path, `{"state":"running","rate":"unlimited"}`); status != 200 {
			t.Errorf("%d %v", status, o)
		}
		eventually(t, "it is over", func() bool { _, o = one.do("GET", path, ""); return o["state"] == "done" })
		if _, all := one.do("GET", "/v1/dead_set/operations?stream=orders", ""); len(all["operations"].([]any)) != 1 {
			t.Errorf("%v", all)
		}
		eventually(t, "all of that cause are handled", func() bool { return len(handled.all()) == n/3 })
	})
}

func TestAReplayOfAPausedStreamGoesNoFurtherAheadThanItMay(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		const n, ahead = 30, 4
		var mended [3]atomic.Bool
		var handled calls
		r := w.start(ofThreeCauses(&mended, &handled), nil)
		w.produce(numbered(n)...)
		r.deadCount(n)
		for i := range mended {
			mended[i].Store(true)
		}
		if status, _ := r.do("POST", "/v1/streams/orders/pause", ""); status != 200 {
			t.Fatalf("pause: %d", status)
		}
		_, o := r.do("POST", "/v1/dead_set/operations", fmt.Sprintf(`{"action":"replay","stream":"orders","select":{"all":true},"ahead":%d}`, ahead))
		path := fmt.Sprint("/v1/dead_set/operations/", o["id"])
		eventually(t, "it waits", func() bool {
			_, o = r.do("GET", path, "")
			return strings.HasPrefix(fmt.Sprint(o["why"]), "4 messages wait to be handled")
		})
		if o["state"] != "running" || o["done"] != float64(ahead) {
			t.Errorf("%v", o)
		}
		r.deadCount(n - ahead)
		if len(handled.all()) > 0 {
			t.Errorf("%d handled", len(handled.all()))
		}
		if status, _ := r.do("PATCH", path, `{"state":"cancelled"}`); status != 200 {
			t.Errorf("cancel: %d", status)
		}
		if status, _ := r.do("POST", "/v1/streams/orders/resume", ""); status != 200 {
			t.Fatalf("resume: %d", status)
		}
		if o := r.operate(`{"action":"replay","stream":"orders","select":{"all":true},"ahead":100}`); o["state"] != "done" || o["done"] != float64(n-ahead) || o["ahead"] != 100.0 {
			t.Errorf("%v", o)
		}
		eventually(t, "all are handled", func() bool { return len(handled.all()) == n })
	})
}

func TestWithRetriesOffWhatIsLeftIsDeletedAndNotReplayed(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var mended [3]atomic.Bool
		var handled calls
		r := w.start(ofThreeCauses(&mended, &handled), nil)
		w.produce(numbered(6)...)
		r.deadCount(6)
		r.end()
		r = w.start(ofThreeCauses(&mended, &handled), settings{"RETRY_ENABLED": "false"})
		r.ready()
		for _, dry := range []string{"", `,"dry_run":true`} {
			status, answer := 0, map[string]any{}
			eventually(t, "it is known what is left", func() bool {
				status, answer = r.do("POST", "/v1/dead_set/operations", `{"action":"replay","stream":"orders","select":{"all":true}`+dry+`}`)
				return status != 503
			})
			if status != 409 || !strings.Contains(fmt.Sprint(answer["error"]), "RETRY_ENABLED=true") {
				t.Errorf("%d %v", status, answer)
			}
		}
		if o := r.operate(`{"action":"delete","stream":"orders","select":{"ids":["` + w.topic + `:0:99"]}}`); o["state"] != "done" || o["done"] != 0.0 {
			t.Errorf("%v", o)
		}
		if o := r.operate(`{"action":"delete","stream":"orders","select":{"filter":{"error":"status 503"}}}`); o["state"] != "done" || o["done"] != 2.0 {
			t.Errorf("%v", o)
		}
	})
}
