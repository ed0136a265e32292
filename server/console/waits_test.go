package console

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAQueuedOperationWaitsForWhatIsBeforeItOnItsDeadSetOrForOneOfMany(t *testing.T) {
	of := func(phase, stream string) operation {
		return operation{ID: phase + " " + stream, Phase: phase, Stream: stream}
	}
	runs, queued, paused := of("running", "a"), of("queued", "a"), of("paused", "a")
	asked := operation{ID: "asked", Phase: "queued", Stream: "a"}
	others := []operation{of("running", "b"), of("running", "c"), of("running", "d"), of("running", "e")}
	for name, test := range map[string]struct {
		unfinished []operation
		runs       string // the id of what it waits for
		many       int
	}{
		"what runs":                   {unfinished: []operation{runs, queued, asked}, runs: runs.ID},
		"what is queued before it":    {unfinished: []operation{queued, asked}, runs: queued.ID},
		"one of four":                 {unfinished: append(others[:4:4], asked), many: 4},
		"what runs, beside three":     {unfinished: append(others[:3:3], runs, asked), runs: runs.ID},
		"nothing: three run":          {unfinished: append(others[:3:3], asked, paused)},
		"nothing: one is paused":      {unfinished: []operation{asked, paused}},
		"nothing: one is queued then": {unfinished: []operation{asked, queued}},
	} {
		got := waits(asked, test.unfinished)
		switch {
		case test.runs == "" && test.many == 0 && got != nil, test.many > 0 && (got == nil || got.Many != test.many), test.runs != "" && (got == nil || got.For == nil || got.For.ID != test.runs):
			t.Errorf("%s: it waits for %+v", name, got)
		}
	}
	if asked.Why = "this process does not know such an operation"; waits(asked, []operation{runs, asked}) != nil {
		t.Error("it says two reasons why it waits")
	}
}

// What is dead is shown also while nobody knows which operations there are.
func TestWhereOperationsAreNotKnownThePageOfADeadSetSaysSo(t *testing.T) {
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/operations") {
			refusing(http.StatusServiceUnavailable, "operations are not known yet").ServeHTTP(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"depth": 3})
	})
	c, err := New(Config{API: api})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/console/groups?stream=orders", nil))
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "not known now: operations are not known yet") || !strings.Contains(w.Body.String(), "3 dead") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
