package actor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

// dies is an app of which every message dies at once.
func dies() actor.App {
	return orders(func(context.Context, *stepwell.Message) error { return stepwell.DeadLetter(errors.New("status 503")) })
}

// inTrash is what the trash shows, of those that match.
func (r *running) inTrash(query string) (all []map[string]any) {
	r.t.Helper()
	status, list := 0, map[string]any{}
	eventually(r.t, "a look at the trash", func() bool {
		status, list = r.do("GET", "/v1/dead_set/trash?stream=orders"+query, "")
		return status != 409
	})
	if status != 200 || list["complete"] != true {
		r.t.Fatalf("trash: %d %v", status, list)
	}
	for _, m := range list["messages"].([]any) {
		all = append(all, m.(map[string]any))
	}
	return all
}

func TestADeleteIsUndoneAndTheDepthOfTheDeadSetIsNeverThatOfItsTrash(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		const n = 12
		r := w.start(dies(), nil)
		w.produce(numbered(n)...)
		before := r.deadCount(n)
		some := fmt.Sprintf(`{"ids":[%q,%q]}`, before[3]["id"], before[7]["id"])
		o := r.operate(`{"action":"delete","stream":"orders","select":` + some + `,"expect":2}`)
		if o["state"] != "done" || o["done"] != 2.0 {
			t.Fatalf("delete: %v", o)
		}
		if trash := r.inTrash(fmt.Sprint("&operation=", o["id"])); len(trash) != 2 || valuesOf(trash) != valuesOf([]map[string]any{before[3], before[7]}) || trash[0]["deleted_by"] != o["id"] || trash[0]["expires_at"] == nil {
			t.Errorf("in the trash: %v", trash)
		}
		r.deadCount(n - 2)
		eventually(t, "the depth is that of the dead set alone", func() bool { return r.depths()[w.queue("orders", "dead_set")] == n-2 })
		status, done := r.do("DELETE", "/v1/dead_set", `{"count":"3","topic-entity":"orders"}`)
		if status != 200 || done["done"] != 3.0 || !strings.Contains(fmt.Sprint(done["message"]), fmt.Sprint("undo ", done["undo"])) {
			t.Fatalf("delete by count: %d %v", status, done)
		}
		if trash := r.inTrash(""); len(trash) != 5 {
			t.Errorf("in the trash: %v", trash)
		}
		// Another process undoes both, the second first.
		other := w.start(dies(), settings{"MODES": "api"})
		other.ready()
		for _, id := range []any{done["undo"], o["id"]} {
			if back := other.operate(fmt.Sprintf(`{"action":"restore","stream":"orders","select":{"operation":%q}}`, id)); back["state"] != "done" || back["done"] != back["matched"] || back["done"] == 0.0 {
				t.Errorf("restore of %v: %v", id, back)
			}
		}
		after := r.deadCount(n)
		want := append(append(append([]map[string]any{}, before[4:7]...), before[8:]...), before[0], before[1], before[2], before[3], before[7])
		if valuesOf(after) != valuesOf(want) {
			t.Errorf("restored: %s, want %s", valuesOf(after), valuesOf(want))
		}
		for i, m := range after {
			if fmt.Sprint(m) != fmt.Sprint(want[i]) {
				t.Errorf("it was %v and is %v", want[i], m)
			}
		}
		if trash := other.inTrash(""); len(trash) != 0 {
			t.Errorf("still in the trash: %v", trash)
		}
	})
}

func TestADeleteForGoodAndOneWithoutATrashKeepNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		r := w.start(dies(), nil)
		w.produce(numbered(4)...)
		r.deadCount(4)
		if o := r.operate(`{"action":"delete","stream":"orders","select":{"filter":{"value":"0"}},"forever":true}`); o["state"] != "done" || o["done"] != 1.0 || o["forever"] != true {
			t.Errorf("%v", o)
		}
		if status, done := r.do("DELETE", "/v1/dead_set?count=1&stream=orders&forever=true", ""); status != 200 || done["done"] != 1.0 || done["undo"] != nil {
			t.Errorf("%d %v", status, done)
		}
		if trash := r.inTrash(""); len(trash) != 0 {
			t.Errorf("%v", trash)
		}
		r.end()
		r = w.start(dies(), settings{"DEAD_SET_TRASH": "0"})
		r.deadCount(2)
		if o := r.operate(`{"action":"delete","stream":"orders","select":{"filter":{"value":"2"}}}`); o["state"] != "done" || o["done"] != 1.0 || o["forever"] != true {
			t.Errorf("%v", o)
		}
		if status, done := r.do("DELETE", "/v1/dead_set", `{"count":1,"stream":"orders"}`); status != 200 || fmt.Sprint(done["message"]) != "deleted 1 of 1 messages of orders" {
			t.Errorf("%d %v", status, done)
		}
		if status, answer := r.do("GET", "/v1/dead_set/trash?stream=orders", ""); status != 404 || !strings.Contains(fmt.Sprint(answer["detail"]), "DEAD_SET_TRASH=0") {
			t.Errorf("%d %v", status, answer)
		}
	})
}

// What was deleted under one setting is undone under another.
func TestADeleteIsUndoneAfterTheRetentionWasChanged(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		r := w.start(dies(), nil)
		w.produce(numbered(3)...)
		r.deadCount(3)
		o := r.operate(`{"action":"delete","stream":"orders","select":{"all":true}}`)
		r.end()
		r = w.start(dies(), settings{"DEAD_SET_TRASH": "1h"})
		r.ready()
		id := fmt.Sprint(o["id"])
		eventually(t, "the operation is known", func() bool { status, _ := r.do("GET", "/v1/dead_set/operations/"+id, ""); return status == 200 })
		if trash := r.inTrash("&operation=" + id); len(trash) != 3 {
			t.Errorf("%v", trash)
		}
		if o := r.operate(`{"action":"restore","stream":"orders","select":{"operation":"` + id + `"},"expect":3}`); o["state"] != "done" || o["done"] != 3.0 {
			t.Errorf("%v", o)
		}
		r.deadCount(3)
	})
}

func TestATrashThatIsFullTakesNothingMoreAndNothingIsGone(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		const n = 30
		// One page, of some messages.
		r := w.start(dies(), settings{"DEAD_SET_TRASH_PAGES": "1", "DEAD_SET_WALK_BYTES": "4000"})
		w.produce(numbered(n)...)
		depth := func() int { return r.depths()[w.queue("orders", "dead_set")] }
		eventually(t, "all are dead", func() bool { return depth() == n })
		o := r.operate(`{"action":"delete","stream":"orders","select":{"all":true}}`)
		if o["state"] != "paused" || !hasAll(fmt.Sprint(o["why"]), "DEAD_SET_TRASH_PAGES", "1 of 1") || o["done"] == 0.0 {
			t.Fatalf("%v", o)
		}
		eventually(t, "the rest is there", func() bool { return depth() == n-int(o["done"].(float64)) })
		status, done := r.do("DELETE", "/v1/dead_set", `{"count":1,"stream":"orders"}`)
		if status != 503 || done["done"] != 0.0 || !hasAll(fmt.Sprint(done["stopped"]), "DEAD_SET_TRASH_PAGES") || !hasAll(fmt.Sprint(done["error"]), "forever=true") {
			t.Errorf("%d %v", status, done)
		}
		if status, done := r.do("DELETE", "/v1/dead_set", `{"count":1,"stream":"orders","forever":true}`); status != 200 || done["done"] != 1.0 {
			t.Errorf("%d %v", status, done)
		}
	})
}

// With a second to be kept, that is all: afterwards the trash is empty by itself.
func TestTheTrashEmptiesItself(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		r := w.start(dies(), settings{"DEAD_SET_TRASH": "3s"})
		w.produce(numbered(5)...)
		r.deadCount(5)
		began := time.Now()
		if status, done := r.do("DELETE", "/v1/dead_set", `{"count":5,"stream":"orders"}`); status != 200 || done["done"] != 5.0 {
			t.Fatalf("%d %v", status, done)
		}
		if trash := r.inTrash(""); len(trash) != 5 && time.Since(began) < 3*time.Second {
			t.Errorf("%v", trash)
		}
		eventually(t, "it is empty", func() bool {
			status, list := r.do("GET", "/v1/dead_set/trash?stream=orders", "")
			return status == 200 && list["depth"] == 0.0
		})
	})
}
