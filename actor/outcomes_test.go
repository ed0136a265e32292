package actor_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
)

// The process that runs the operation handles nothing: what becomes of its messages it has from the
// one that does.
func TestAReplayKnowsWhatBecameOfItsMessagesInAnotherProcess(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		const n = 30
		var mended [3]atomic.Bool
		var handled calls
		app := ofThreeCauses(&mended, &handled)
		app.Shared = true
		r := w.start(app, nil)
		w.produce(numbered(n)...)
		r.deadCount(n)
		if w.rabbit != "" {
			r.end()
			w.start(app, settings{"MODES": "streams,retries"})
			r = w.start(app, settings{"MODES": "api"})
			r.ready()
		}
		mended[0].Store(true)
		o := r.operate(`{"action":"replay","stream":"orders","select":{"all":true},"canary":4}`)
		if o["state"] != "paused" || o["done"] != 4.0 || !strings.Contains(fmt.Sprint(o["why"]), "of the canary a try failed") {
			t.Fatalf("a canary of which some die: %v", o)
		}
		for i := range mended {
			mended[i].Store(true)
		}
		if status, _ := r.do("PATCH", fmt.Sprint("/v1/dead_set/operations/", o["id"]), `{"state":"cancelled"}`); status != 200 {
			t.Fatalf("cancel: %d", status)
		}
		left := len(r.dead(n))
		o = r.operate(`{"action":"replay","stream":"orders","select":{"all":true},"canary":4,"stop_at":"5%"}`)
		if o["state"] != "done" || o["done"] != float64(left) || o["canary_over"] != true {
			t.Fatalf("of %d: %v", left, o)
		}
		want := fmt.Sprint(map[string]any{"died": 0.0, "failed": 0.0, "handled": float64(left), "unknown": 0.0})
		eventually(t, "all are told", func() bool {
			_, o = r.do("GET", fmt.Sprint("/v1/dead_set/operations/", o["id"]), "")
			return fmt.Sprint(o["outcome"]) == want
		})
	})
}
