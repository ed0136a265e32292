package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/internal/mistakes"
)

func TestAHundredRequestsWithBadInputAreRefusedAndTheGoodCallsBetweenThemAreAllMade(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		r := newReceiver(t, always(200))
		run := w.start("APP_SECRETS=partner-a=whsec_"+strings.Repeat("AAAA", 8), "APP_WORKFLOWS_QUICK=1ms")
		want := map[string]int{}
		good := func() {
			path := fmt.Sprint("/good/", len(want))
			method, to, body := "/calls", "", fmt.Sprintf(`{"request":{"url":%q},"waits":[],"sign":"partner-a"}`, r.url(path))
			if len(want)%2 == 1 {
				method, to, body = "/retry", "quick", fmt.Sprintf(`{"retry_request":{"url":%q}}`, r.url(path))
			}
			if a := run.do("POST", method, body, "x-retry-workflow", to); a.status != 202 {
				t.Errorf("a good call: %d %v", a.status, a.json)
			}
			want[path] = 1
		}
		for i, bad := range mistakes.All() {
			if i%5 == 0 {
				good()
			}
			a := run.do("POST", bad.Path, bad.Body, "Content-Type", "application/json")
			if detail := fmt.Sprint(a.json["detail"]); a.status != 400 || !strings.Contains(detail, bad.Says) || a.json["errors"] == nil {
				t.Errorf("%s %.120s: %d %.300v, want 400 with %q", bad.Path, bad.Body, a.status, a.json, bad.Says)
			}
		}
		good()
		eventually(t, "all good calls are over", func() bool { return run.ended("done") >= len(want) })
		made := map[string]int{}
		for _, got := range r.requests() {
			made[got.path]++
		}
		if fmt.Sprint(made) != fmt.Sprint(want) {
			t.Errorf("made: %v, want %v", made, want)
		}
		if stored := fmt.Sprintf("stepwell_messages_enqueued_total{stepwell_stream=%q} %d\n", stream, len(want)); !strings.Contains(run.text("/metrics"), stored) {
			t.Errorf("the metrics have no %s", stored)
		}
		if a := run.do("POST", "/calls", fmt.Sprintf(`{"request":{"url":%q},"workflow":"a"}`, r.url("/"))); a.status != 400 {
			t.Errorf("a workflow with mistakes was stored: %d %v", a.status, a.json)
		}
	})
}
