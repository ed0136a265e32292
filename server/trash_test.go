package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/operations"
	"github.com/stepwell/stepwell/server"
)

func keeping(c *server.Config) { c.Trash = 72 * time.Hour }

func TestADeleteByCountGoesToTheTrashAndSaysUntilWhenAndHowToUndoIt(t *testing.T) {
	w := start(t, keeping)
	a := w.do("DELETE", "/v1/dead_set", `{"count":"2","topic_entity":"orders"}`)
	undo, _ := a.json["undo"].(string)
	if a.status != 200 || a.json["requested"] != 2.0 || a.json["done"] != 2.0 || a.json["left"] != 1.0 || !strings.HasPrefix(undo, "op_") {
		t.Fatalf("%d %s", a.status, a.text)
	}
	until := time.Now().Add(72 * time.Hour).UTC().Format("2006-01-02T15:")
	if says := fmt.Sprint(a.json["message"]); !strings.HasPrefix(says, "deleted 2 of 2 messages of orders; in the trash until "+until) || !strings.HasSuffix(says, "stepwell dead-set undo "+undo+" -s orders brings it back") {
		t.Errorf("it says %q", says)
	}
	if got := fmt.Sprint(w.orders.trashed); got != "[72h0m0s op_ 2]" {
		t.Errorf("%s", got)
	}
	a = w.do("DELETE", "/v1/dead_set", `{"count":1,"stream":"orders","channel":"slow"}`)
	if says := fmt.Sprint(a.json["message"]); a.status != 200 || !strings.HasSuffix(says, fmt.Sprint("stepwell dead-set undo ", a.json["undo"], " -s orders -c slow brings it back")) {
		t.Errorf("of a channel: %d, %q", a.status, says)
	}
	if !strings.Contains(w.log.String(), "undo="+undo) {
		t.Errorf("the audit line does not name it: %s", w.log)
	}
}

// For good, it answers as it did before there was a trash.
func TestADeleteByCountForGoodTouchesNoTrash(t *testing.T) {
	for _, query := range []string{"&forever=true", ""} {
		w := start(t, func(c *server.Config) {
			if query != "" {
				keeping(c)
			}
		})
		a := w.do("DELETE", "/v1/dead_set?count=2&stream=orders"+query, "")
		if a.status != 200 || strings.TrimSpace(a.text) != `{"message":"deleted 2 of 2 messages of orders","requested":2,"done":2,"left":1,"left_out":0,"too_large":0,"stopped":""}` {
			t.Errorf("%d %s", a.status, a.text)
		}
		if len(w.orders.trashed) > 0 {
			t.Errorf("%v", w.orders.trashed)
		}
	}
	w := start(t, nil)
	for query, says := range map[string]string{"&forever=false": "there is no trash", "&forever=yes": "forever must be true or false"} {
		if a := w.do("DELETE", "/v1/dead_set?count=2&stream=orders"+query, ""); a.status != 400 || !strings.Contains(a.text, says) {
			t.Errorf("%s: %d %s", query, a.status, a.text)
		}
	}
	if a := w.do("POST", "/v1/dead_set/replay?count=2&stream=orders&forever=true", ""); a.status != 400 {
		t.Errorf("a replay for good: %d %s", a.status, a.text)
	}
}

func TestADeleteThatTheTrashDoesNotTakeDeletesNothing(t *testing.T) {
	w := start(t, keeping)
	w.orders.fail(func(context.Context) (server.Result, error) {
		return server.Result{Requested: 2, Left: 3}, fmt.Errorf("%w: 64 of 64 pages are in use", server.ErrNoTrash)
	})
	a := w.do("DELETE", "/v1/dead_set", `{"count":2,"stream":"orders"}`)
	if a.status != 503 || a.json["done"] != 0.0 || a.json["left"] != 3.0 || !strings.Contains(fmt.Sprint(a.json["stopped"]), "64 of 64") || !strings.Contains(fmt.Sprint(a.json["error"]), "forever=true") {
		t.Errorf("%d %s", a.status, a.text)
	}
}

func TestTheTrashIsListedByFilterAndByWhoDeleted(t *testing.T) {
	w, _ := operating(t, keeping)
	a := w.do("GET", "/v1/dead_set/trash?stream=orders&operation=op_gone&error=away&limit=2&cursor=c", "")
	if a.status != 200 || fmt.Sprint(a.json["messages"]) != "[kept for 72h0m0s a b]" || a.json["matched"] != 3.0 || a.json["next"] != "n" {
		t.Fatalf("%d %s", a.status, a.text)
	}
	if q := w.orders.query; q.MovedBy != "op_gone" || q.Limit != 2 || q.After != "c" || q.Filter.IsZero() {
		t.Errorf("%+v", q)
	}
	for query, says := range map[string]string{
		"?stream=ordres": "unknown stream", "?stream=orders&count=3": "unknown parameter count", "?stream=orders&operation=": "operation is empty", "?stream=orders&limit=0": "limit",
	} {
		if a := w.do("GET", "/v1/dead_set/trash"+query, ""); a.status != 400 || !strings.Contains(a.text, says) {
			t.Errorf("%s: %d %s", query, a.status, a.text)
		}
	}
	none := start(t, nil)
	if a := none.do("GET", "/v1/dead_set/trash?stream=orders", ""); a.status != 404 || !strings.Contains(a.text, "there is no trash (dead_set.trash=0)") {
		t.Errorf("%d %s", a.status, a.text)
	}
}

func TestADeleteIsKeptUnlessItIsForGoodAndARestoreTakesWhatItKept(t *testing.T) {
	w, p := operating(t, keeping)
	a := w.do("POST", "/v1/dead_set/operations", `{"action":"delete","stream":"orders","select":{"all":true},"forever":false}`)
	id, _ := a.json["id"].(string)
	if a.status != 202 || a.json["forever"] != nil || a.json["trash"] != "72h0m0s" || !strings.Contains(a.text, "is in the trash for 72h: stepwell dead-set undo "+id+" -s orders brings it back") {
		t.Fatalf("%d %s", a.status, a.text)
	}
	if r := <-p.asked; r.Forever || r.Trash != operations.Wait(72*time.Hour) {
		t.Errorf("%+v", r)
	}
	if a := w.do("PATCH", a.header.Get("Location"), `{"state":"cancelled"}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.text)
	}
	a = w.do("POST", "/v1/dead_set/operations", `{"action":"restore","stream":"orders","select":{"operation":"`+id+`"},"expect":3}`)
	if a.status != 202 || a.json["message"] != "restore of orders is queued" || fmt.Sprint(a.json["select"]) != "map[operation:"+id+"]" {
		t.Fatalf("%d %s", a.status, a.text)
	}
	if r := <-p.asked; r.Action != operations.Restore || r.Select.Operation != id || r.Trash != operations.Wait(72*time.Hour) {
		t.Errorf("%+v", r)
	}
	restore, _ := a.json["id"].(string)
	if a := w.do("PATCH", a.header.Get("Location"), `{"state":"cancelled"}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.text)
	}
	a = w.do("POST", "/v1/dead_set/operations", `{"action":"delete","stream":"orders","select":{"all":true},"forever":true}`)
	gone, _ := a.json["id"].(string)
	if a.status != 202 || a.json["trash"] != nil || !strings.Contains(a.text, "gone for good") {
		t.Fatalf("%d %s", a.status, a.text)
	}
	for body, want := range map[string]struct {
		status int
		says   string
	}{
		`{"action":"restore","stream":"orders","select":{"operation":"` + restore + `"}}`:             {400, "is a restore: only what was deleted is in the trash"},
		`{"action":"restore","stream":"orders","channel":"slow","select":{"operation":"` + id + `"}}`: {400, "is of orders"},
		`{"action":"restore","stream":"orders","select":{"operation":"` + gone + `"}}`:                {404, "has deleted for good"},
		`{"action":"replay","stream":"orders","select":{"operation":"` + id + `"}}`:                   {400, "select.operation is for restore"},
		`{"action":"restore","stream":"orders","select":{"operation":"x","all":true}}`:                {400, "exactly one"},
		`{"action":"restore","stream":"orders","select":{"all":true},"forever":true}`:                 {400, "forever"},
		`{"action":"restore","stream":"orders","select":{"all":true},"canary":3}`:                     {400, "canary"},
	} {
		if a := w.do("POST", "/v1/dead_set/operations", body); a.status != want.status || !strings.Contains(a.text, want.says) {
			t.Errorf("%s: %d %s", body, a.status, a.text)
		}
	}
	none, _ := operating(t)
	if a := none.do("POST", "/v1/dead_set/operations", `{"action":"restore","stream":"orders","select":{"operation":"op_x"}}`); a.status != 404 || !strings.Contains(a.text, "there is no trash") {
		t.Errorf("%d %s", a.status, a.text)
	}
}

func TestADeleteSaysForHowLongItKeepsAsPeopleSayIt(t *testing.T) {
	for keep, says := range map[string]string{"10s": "10s", "1m30s": "1m30s", "20m": "20m", "1h0m20s": "1h0m20s", "90m": "1h30m", "72h": "72h"} {
		w, _ := operating(t, func(c *server.Config) {
			var err error
			if c.Trash, err = time.ParseDuration(keep); err != nil {
				t.Fatal(err)
			}
		})
		a := w.do("POST", "/v1/dead_set/operations", `{"action":"delete","stream":"orders","select":{"all":true},"dry_run":true}`)
		if a.status != 200 || !strings.HasSuffix(fmt.Sprint(a.json["message"]), "is in the trash for "+says) {
			t.Errorf("%s: %d %v", keep, a.status, a.json["message"])
		}
	}
}

func TestADryRunOfARestoreOfWhatIsNotThereSaysSo(t *testing.T) {
	w, _ := operating(t, keeping)
	a := w.do("POST", "/v1/dead_set/operations", `{"action":"restore","stream":"orders","select":{"operation":"op_1"},"dry_run":true,"note":"nothing"}`)
	if says := fmt.Sprint(a.json["message"]); a.status != 200 || !strings.HasPrefix(says, "nothing of op_1 is in the trash of orders") {
		t.Errorf("%d %s", a.status, a.text)
	}
}
