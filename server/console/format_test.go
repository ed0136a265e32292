package console

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A number that a person confirmed reads as it did where it was confirmed.
func TestThePageOfAnOperationWritesAllNumbersAlike(t *testing.T) {
	page := operationPage(t, map[string]any{"id": "op_1", "action": "replay", "stream": "orders", "state": "running", "matched": 94120, "expect": 94120, "canary": 1000})
	for _, want := range []string{"0 of 94,120", "94,120 messages, as was confirmed", "1,000 messages first"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in %s", want, page)
		}
	}
}

func TestThePageOfAnOperationSaysWhatDiedTooLateForIt(t *testing.T) {
	asked, acts := "2026-11-25T09:00:02Z", "2026-11-25T09:00:00Z"
	for _, test := range []struct {
		action, acts string
		says         string // empty: no line of it
	}{
		{"delete", "", "09:00:02"},
		{"replay", acts, "09:00:00"}, // it left out more than was asked for
		{"restore", "", ""},
		{"sort", "", ""},
	} {
		o := map[string]any{"id": "op_1", "action": test.action, "stream": "orders", "state": "done", "before": asked}
		if test.acts != "" {
			o["acts_before"] = test.acts
		}
		_, line, found := strings.Cut(operationPage(t, o), "<dt>Died before</dt>")
		line, _, _ = strings.Cut(line, "</dd>")
		if found != (test.says != "") || !strings.Contains(line, test.says) {
			t.Errorf("%s %q: %q, want %q", test.action, test.acts, line, test.says)
		}
	}
}

func TestAStreamOrChannelIsSaidToRunWhereItsMessagesAreWorkedOff(t *testing.T) {
	for _, test := range []struct {
		reads, runs, paused bool
		want                string
	}{
		{true, true, false, "running, running"},
		{true, false, false, "running, not run here"},
		{false, true, false, "not read here, running"},
		{false, false, false, "not read here, not run here"},
		{false, false, true, "paused, paused"},
	} {
		page := pageOf(t, "/console/", map[string]any{"modes": []string{"api"}, "streams": []any{map[string]any{
			"id": "orders", "reads": test.reads, "paused": test.paused, "channels": []any{map[string]any{"id": "slow", "runs": test.runs}},
		}}})
		var states []string
		for _, cell := range strings.Split(page, `data-state="`)[1:] {
			if state, _, _ := strings.Cut(cell, `"`); strings.Contains("running, not read here, not run here, paused", state) {
				states = append(states, state)
			}
		}
		if got := strings.Join(states, ", "); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}

// A process that reads no topics has a lag of 0 for each, whoever is behind by how much.
func TestTheLagOfAStreamThatOthersReadIsNotCalledNone(t *testing.T) {
	for _, test := range []struct {
		reads, paused bool
		lag           any // nil: nobody knows
		want          string
	}{{true, false, 0, ">0<"}, {true, true, 0, ">0<"}, {false, false, 0, ">–<"}, {false, true, 0, ">–<"}, {true, false, nil, ">–<"}} {
		page := pageOf(t, "/console/", map[string]any{"modes": []string{"api"}, "streams": []any{map[string]any{
			"id": "orders", "reads": test.reads, "paused": test.paused, "lag": test.lag,
		}}})
		_, cell, _ := strings.Cut(page, `data-label="Lag"`)
		if cell, _, _ = strings.Cut(cell, "/td>"); !strings.Contains(cell, test.want) {
			t.Errorf("%+v: %s", test, cell)
		}
	}
}

func TestNobodyCountsDownToTheEndOfAReplayThatWaitsForItsCanaryOrIsPaused(t *testing.T) {
	for want, o := range map[string]operation{
		"about 5 s left":  {Phase: "running", ETA: 5},
		"about 10 s left": {Phase: "running", ETA: 10, Canary: 10, CanaryOver: true},
	} {
		if got := o.Left(); got != want {
			t.Errorf("%+v: %q", o, got)
		}
	}
	for _, o := range []operation{{Phase: "running", ETA: 5, Canary: 10}, {Phase: "paused", ETA: 5}, {Phase: "queued", ETA: 5}} {
		if got := o.Left(); got != "" {
			t.Errorf("%+v: %q", o, got)
		}
	}
}

func TestThePageOfAReplayIsToldWhenItsStreamIsPaused(t *testing.T) {
	o, all := operation{Stream: "orders", Channel: "slow"}, map[string]string{}
	row{At: o.At(), Held: "orders is paused"}.tell(all)
	if all[o.HeldKey()] != "orders is paused" {
		t.Errorf("it is told %v", all)
	}
}

// operationPage is the page of an operation that /v1 shows so.
func operationPage(t *testing.T, o map[string]any) string {
	t.Helper()
	return pageOf(t, "/console/operation?id=op_1", o)
}

// pageOf is a page of a console to which /v1 has but one answer.
func pageOf(t *testing.T, at string, answer map[string]any) string {
	t.Helper()
	api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(answer) })
	entered := func(r *http.Request, _ User) (*http.Request, error) { return r, nil }
	c, err := New(Config{API: api, App: "shipping", Enter: entered, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+at, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}
