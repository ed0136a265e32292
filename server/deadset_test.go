package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/server"
)

func TestPeekShowsTheOldestAndChangesNothing(t *testing.T) {
	w := start(t, nil)
	for range 2 {
		a := w.do("GET", "/v1/dead_set?count=2&topic-entity=orders", "")
		if a.status != 200 || fmt.Sprint(a.json["messages"]) != "[a b]" {
			t.Fatalf("peek: %d %s", a.status, a.text)
		}
	}
	if acts := w.orders.acts(); len(acts) != 0 {
		t.Errorf("a peek acted: %v", acts)
	}
}

func TestPeekOfAnEmptyDeadSetIsAnEmptyList(t *testing.T) {
	w := start(t, nil)
	w.orders.all = nil
	if a := w.do("GET", "/v1/dead_set?count=2&stream=orders", ""); a.status != 200 || strings.TrimSpace(a.text) != `{"messages":[],"depth":0,"cut":false}` {
		t.Errorf("peek: %d %s", a.status, a.text)
	}
}

func TestAPeekSaysWhetherItShowsAllThatWasAskedFor(t *testing.T) {
	w := start(t, nil)
	w.orders.all = []any{"a", "b", "c", "d", "e"} // one answer shows three
	for count, want := range map[int]string{1: "[a] 5 false", 3: "[a b c] 5 false", 4: "[a b c] 5 true", 100_000: "[a b c] 5 true"} {
		a := w.do("GET", fmt.Sprintf("/v1/dead_set?count=%d&stream=orders", count), "")
		if got := fmt.Sprint(a.json["messages"], a.json["depth"], a.json["cut"]); a.status != 200 || got != want {
			t.Errorf("peek of %d: %d %s, want %s", count, a.status, got, want)
		}
	}
	w.orders.all = w.orders.all[:2]
	if a := w.do("GET", "/v1/dead_set?count=100&stream=orders", ""); a.json["cut"] != false {
		t.Errorf("peek of all there are: %s", a.text)
	}
}

func TestEveryWayToSendTheParametersWorksWithEveryMethod(t *testing.T) {
	queries := []string{"?count=1&topic-entity=orders", "?count=1&topic_entity=orders", "?count=1&stream=orders", "?count=1&count=1&stream=orders"}
	bodies := []string{
		`{"count":1,"topic-entity":"orders"}`, `{"count":"1","topic_entity":"orders"}`, `{"count":"1","stream":"orders"}`,
		` {"stream":"orders","topic-entity":"orders","count":"1"} `, `{"count":1,"count":"1","stream":"orders"}`,
	}
	methods := map[string]string{"GET": "/v1/dead_set", "POST": "/v1/dead_set/replay", "DELETE": "/v1/dead_set"}
	for method, path := range methods {
		w := start(t, func(*server.Config) {})
		w.orders.all = slices.Repeat([]any{"x"}, 100)
		for _, query := range queries {
			if a := w.do(method, path+query, ""); a.status != 200 {
				t.Errorf("%s %s: %d %s", method, query, a.status, a.text)
			}
		}
		for _, body := range bodies {
			if a := w.do(method, path, body); a.status != 200 {
				t.Errorf("%s %s: %d %s", method, body, a.status, a.text)
			}
		}
		if a := w.do(method, path+"?count=1", `{"stream":"orders"}`, "Content-Type", "application/json; charset=utf-8"); a.status != 200 {
			t.Errorf("%s with both: %d %s", method, a.status, a.text)
		}
		for _, n := range w.orders.acts() {
			if n != 1 {
				t.Errorf("%s acted on %d", method, n)
			}
		}
	}
}

func TestReplayAndDeleteSayWhatTheyDid(t *testing.T) {
	for method, path := range map[string]string{"POST": "/v1/dead_set/replay", "DELETE": "/v1/dead_set"} {
		w := start(t, nil)
		a := w.do(method, path, `{"count":"2","topic_entity":"orders"}`)
		if a.status != 200 || a.json["requested"] != 2.0 || a.json["done"] != 2.0 || a.json["left"] != 1.0 || a.json["stopped"] != "" || a.json["message"] == "" {
			t.Errorf("%s: %d %s", method, a.status, a.text)
		}
	}
}

func TestAReplayOrDeleteByCountTakesNoKeyThatItWouldNotKeep(t *testing.T) {
	for method, path := range map[string]string{"POST": "/v1/dead_set/replay", "DELETE": "/v1/dead_set"} {
		w := start(t, nil)
		a := w.do(method, path, `{"count":1,"stream":"orders"}`, "Idempotency-Key", "k")
		if a.status != 400 || !strings.Contains(a.text, "Idempotency-Key is for operations") {
			t.Errorf("%s: %d %s", method, a.status, a.text)
		}
		if a := w.do(method, path, `{"count":3,"stream":"orders"}`); a.json["done"] != 3.0 {
			t.Errorf("%s: what was refused was done: %s", method, a.text)
		}
	}
}

func TestWhatStoppedHalfWaySaysHowFarItCame(t *testing.T) {
	half := server.Result{Requested: 10, Done: 4, Left: 6}
	told := half
	told.Stopped = "connection lost"
	tests := map[string]func(context.Context) (server.Result, error){
		"told by the result": func(context.Context) (server.Result, error) { return told, nil },
		"told by an error":   func(context.Context) (server.Result, error) { return half, errors.New("connection lost") },
		"told by both":       func(context.Context) (server.Result, error) { return told, server.ErrUnavailable },
	}
	for name, trap := range tests {
		w := start(t, nil)
		w.orders.fail(trap)
		a := w.do("POST", "/v1/dead_set/replay", `{"count":10,"stream":"orders"}`)
		if a.status != 503 || a.json["done"] != 4.0 || a.json["left"] != 6.0 || a.json["requested"] != 10.0 || a.json["stopped"] != "connection lost" {
			t.Errorf("%s: %d %s", name, a.status, a.text)
		}
		if text, _ := a.json["error"].(string); !strings.Contains(text, "connection lost") {
			t.Errorf("%s: error is %q", name, text)
		}
	}
}

func TestAWalkThatNeverBeganSaysSoInAllItsFieldsAndInTheAudit(t *testing.T) {
	w := start(t, nil)
	w.orders.fail(func(context.Context) (server.Result, error) {
		return server.Result{Requested: 10, Left: -1}, fmt.Errorf("replay: %w: connection refused", server.ErrUnavailable)
	})
	a := w.do("POST", "/v1/dead_set/replay", `{"count":10,"stream":"orders"}`)
	left, told := a.json["left"]
	if a.status != 503 || a.json["requested"] != 10.0 || a.json["done"] != 0.0 || !told || left != nil || a.json["message"] == "" {
		t.Errorf("%d %s", a.status, a.text)
	}
	if why, _ := a.json["stopped"].(string); !strings.Contains(why, "connection refused") {
		t.Errorf("stopped is %q", why)
	}
	if log := w.log.String(); !strings.Contains(log, "requested=10 done=0 error=") {
		t.Errorf("the audit knows how many are left: %s", log)
	}
}

func TestErrorsOfADeadSetHaveTheirStatus(t *testing.T) {
	tests := []struct {
		name   string
		err    error
		status int
		retry  bool
	}{
		{"another walk", fmt.Errorf("walk: %w", server.ErrBusy), http.StatusConflict, true},
		{"brokers away", fmt.Errorf("walk: %w", server.ErrUnavailable), http.StatusServiceUnavailable, true},
		{"refused", fmt.Errorf("raise the setting: %w", server.ErrRefused), http.StatusInternalServerError, false},
		{"no retries", server.ErrRetryOff, http.StatusNotFound, false},
		{"took too long", context.DeadlineExceeded, http.StatusServiceUnavailable, true},
		{"anything else", errors.New("amqp://user:secret@host"), http.StatusInternalServerError, false},
	}
	w := start(t, func(c *server.Config) { c.PeekWait = time.Millisecond })
	for _, test := range tests {
		w.orders.fail(func(context.Context) (server.Result, error) { return server.Result{}, test.err })
		for method, path := range map[string]string{"GET": "/v1/dead_set", "POST": "/v1/dead_set/replay", "DELETE": "/v1/dead_set"} {
			a := w.do(method, path, `{"count":1,"stream":"orders"}`)
			if a.status != test.status || (a.header.Get("Retry-After") != "") != test.retry || a.json["error"] == nil {
				t.Errorf("%s, %s: %d %v %s", test.name, method, a.status, a.header, a.text)
			}
			if strings.Contains(a.text, "secret") {
				t.Errorf("%s, %s tells what is inside: %s", test.name, method, a.text)
			}
			if told := strings.Contains(a.text, "raise the setting"); told != errors.Is(test.err, server.ErrRefused) {
				t.Errorf("%s, %s: %s", test.name, method, a.text)
			}
		}
	}
	if !strings.Contains(w.log.String(), "user:secret") {
		t.Errorf("the log does not say what went wrong: %s", w.log)
	}
}

func TestRetriesOffIs404AndSaysSo(t *testing.T) {
	w := start(t, nil)
	if a := w.do("GET", "/v1/dead_set?count=1&stream=plain", ""); a.status != 404 || !strings.Contains(a.text, "retries are off") {
		t.Errorf("peek: %d %s", a.status, a.text)
	}
}

func TestAPeekWaitsForAnotherWalkAndAReplayDoesNot(t *testing.T) {
	w := start(t, nil)
	busy := 3
	w.orders.fail(func(context.Context) (server.Result, error) {
		if busy--; busy >= 0 {
			return server.Result{}, server.ErrBusy
		}
		return server.Result{}, nil
	})
	if a := w.do("GET", "/v1/dead_set?count=1&stream=orders", ""); a.status != 200 {
		t.Errorf("peek: %d %s", a.status, a.text)
	}
	busy = 3
	if a := w.do("POST", "/v1/dead_set/replay?count=1&stream=orders", ""); a.status != 409 {
		t.Errorf("replay: %d %s", a.status, a.text)
	}
}

func TestEveryReplayAndDeleteLeavesOneAuditLine(t *testing.T) {
	w := start(t, func(c *server.Config) { c.Tokens = single("swordfish") })
	const bearer = "Bearer swordfish"
	w.do("POST", "/v1/dead_set/replay", `{"count":2,"stream":"orders"}`, "Authorization", bearer, "X-Forwarded-For", "6.6.6.6")
	w.do("DELETE", "/v1/dead_set", `{"count":1,"topic-entity":"orders"}`, "Authorization", bearer)
	w.orders.fail(func(context.Context) (server.Result, error) { return server.Result{Left: -1}, server.ErrBusy })
	w.do("DELETE", "/v1/dead_set", `{"count":7,"stream":"orders"}`, "Authorization", bearer)
	w.do("DELETE", "/v1/dead_set", "{\"count\":7,\"stream\":\"or\\nders\"}", "Authorization", bearer)
	var lines []string
	for line := range strings.Lines(w.log.String()) {
		if strings.Contains(line, "audit") {
			lines = append(lines, line)
		}
	}
	want := []string{
		`by=token role=operator right=token address=127.0.0.1 action=replay stream=orders requested=2 done=2 left=1`,
		`by=token role=operator right=token address=127.0.0.1 action=delete stream=orders requested=1 done=1 left=0`,
		`by=token role=operator right=token address=127.0.0.1 action=delete stream=orders requested=7 done=0 error=`,
	}
	if len(lines) != len(want) {
		t.Fatalf("%d audit lines, want %d: %s", len(lines), len(want), w.log)
	}
	for i, line := range lines {
		if !strings.Contains(line, want[i]) {
			t.Errorf("line %d is %s want %s", i, line, want[i])
		}
	}
	if strings.Contains(w.log.String(), "swordfish") {
		t.Error("the token is in the log")
	}
}
