package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/operations"
	"github.com/stepwell/stepwell/server"
)

// pile is a dead set as operations see it: three messages match whatever is asked for.
type pile struct {
	asked chan operations.Request
	hold  chan struct{} // a turn waits for it
}

func (p *pile) May(context.Context, *operations.Request) error { return nil }

func (p *pile) Sample(_ context.Context, r *operations.Request) (operations.Sample, error) {
	if r.Note == "busy" {
		return operations.Sample{}, server.ErrBusy
	}
	if r.Note == "nothing" {
		return operations.Sample{Groups: []any{}, Samples: []any{}, Complete: true}, nil
	}
	return operations.Sample{Matched: 3, Bytes: 30, Groups: []any{}, Samples: []any{}, Depth: 9, Complete: true}, nil
}

func (p *pile) Waiting(context.Context) (int, error) { return 0, nil }

func (p *pile) Turn(_ context.Context, enough <-chan struct{}, r *operations.Request, _ int) (operations.Turn, error) {
	p.asked <- *r
	select {
	case <-p.hold:
	case <-enough:
	}
	return operations.Turn{Begun: 3, More: true}, nil
}

// operating starts a server whose operations run until their turns are held no more, with
// changes to its configuration.
func operating(t *testing.T, changes ...func(*server.Config)) (*world, *pile) {
	t.Helper()
	p := &pile{asked: make(chan operations.Request, 100), hold: make(chan struct{})}
	runner := operations.New(operations.Config{
		Store: operations.NewMemory(), Name: "here", Sets: map[operations.Target]operations.DeadSet{{Stream: "orders"}: p, {Stream: "orders", Channel: "slow"}: p},
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- runner.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return start(t, func(c *server.Config) {
		c.Operations, c.PeekWait = runner, time.Millisecond
		for _, change := range changes {
			change(c)
		}
	}), p
}

func TestAnOperationIsAskedForShownListedAndChanged(t *testing.T) {
	w, p := operating(t)
	before := time.Now().Add(-time.Minute).UTC().Truncate(time.Second)
	a := w.do("POST", "/v1/dead_set/operations", fmt.Sprintf(`{"action":"replay","stream":"orders","select":{"filter":{"error":"away","partition":3,"value.paid":true}},
		"before":%q,"expect":3,"rate":"200/s","include_crash_loop":true,"ahead":500,"note":"mended"}`, before.Format(time.RFC3339)))
	id, _ := a.json["id"].(string)
	if a.status != 202 || !strings.HasPrefix(id, "op_") || a.header.Get("Location") != "/v1/dead_set/operations/"+id || a.json["state"] != "queued" || a.json["by"] != "loopback" ||
		a.json["rate"] != "200/s" || a.json["expect"] != 3.0 || a.json["note"] != "mended" || a.json["message"] != "replay of orders is queued" {
		t.Fatalf("%d %s", a.status, a.text)
	}
	r := <-p.asked
	if !r.Before.Equal(before) || r.Ahead != 500 || a.json["ahead"] != 500.0 || !r.CrashLoops || r.Forever || *r.Expect != 3 || fmt.Sprint(r.Select.Filter) != "map[error:away partition:3 value.paid:true]" {
		t.Errorf("%+v", r)
	}
	if a := w.do("GET", "/v1/dead_set/operations/"+id, ""); a.status != 200 || a.json["state"] != "running" || a.json["matched"] != 3.0 || a.json["runner"] != "here" {
		t.Errorf("%d %s", a.status, a.text)
	}
	for query, want := range map[string]int{"": 1, "?stream=orders&state=running&by=loopback&limit=1": 1, "?stream=plain": 0, "?state=done": 0, "?by=alice": 0} {
		if a := w.do("GET", "/v1/dead_set/operations"+query, ""); a.status != 200 || len(a.json["operations"].([]any)) != want {
			t.Errorf("%s: %d %s", query, a.status, a.text)
		}
	}
	for _, step := range []struct{ body, state, rate string }{
		{`{"rate":"5/m"}`, "running", "5/m"}, {`{"state":"paused"}`, "paused", "5/m"}, {`{"state":"paused","rate":"unlimited"}`, "paused", "<nil>"}, {`{"state":"cancelled"}`, "cancelled", "<nil>"},
	} {
		a := w.do("PATCH", "/v1/dead_set/operations/"+id, step.body)
		if a.status != 200 || a.json["state"] != step.state || fmt.Sprint(a.json["rate"]) != step.rate {
			t.Errorf("%s: %d %s", step.body, a.status, a.text)
		}
	}
	if a := w.do("PATCH", "/v1/dead_set/operations/"+id, `{"state":"running"}`); a.status != 409 || a.header.Get("Retry-After") != "" {
		t.Errorf("of one that is over: %d %s", a.status, a.text)
	}
	for _, method := range []string{"GET", "PATCH"} {
		body := map[string]string{"PATCH": `{"state":"paused"}`}[method]
		if a := w.do(method, "/v1/dead_set/operations/op_none", body); a.status != 404 || !strings.Contains(a.text, "there is no such operation") {
			t.Errorf("%d %s", a.status, a.text)
		}
	}
	for _, line := range []string{`msg="audit: operation asked for" by=loopback role=operator right=loopback address=127.0.0.1 action=replay stream=orders select="filter error,partition,value.paid" expect=3 operation=` + id, `msg="audit: operation changed"`, "wish=paused"} {
		if !strings.Contains(w.log.String(), line) {
			t.Errorf("%s is not in %s", line, w.log)
		}
	}
	if strings.Contains(w.log.String(), "mended") || strings.Contains(w.log.String(), "away") {
		t.Errorf("free text of the request is in the log: %s", w.log)
	}
}

func TestADeleteSaysThatItIsForGood(t *testing.T) {
	w, p := operating(t)
	for _, body := range []string{`{"action":"delete","stream":"orders","channel":"slow","select":{"all":true}}`, `{"action":"delete","stream":"orders","channel":"slow","select":{"ids":["a","b"]},"forever":true}`} {
		a := w.do("POST", "/v1/dead_set/operations", body)
		if a.status != 202 || a.json["forever"] != true || a.json["channel"] != "slow" || !strings.Contains(a.text, "what is deleted is gone for good") {
			t.Errorf("%d %s", a.status, a.text)
		}
		if r := <-p.asked; r.Select.All == (r.Select.IDs != nil) || !r.Forever || time.Since(r.Before) > time.Minute || r.Expect != nil {
			t.Errorf("%+v", r)
		}
		if a := w.do("PATCH", a.header.Get("Location"), `{"state":"cancelled"}`); a.status != 200 {
			t.Errorf("%d %s", a.status, a.text)
		}
	}
}

func TestADryRunCountsAndDoesNothing(t *testing.T) {
	w, p := operating(t)
	a := w.do("POST", "/v1/dead_set/operations", `{"action":"delete","stream":"orders","select":{"group":"7f3a91c2b04d"},"dry_run":true,"rate":"1/s"}`)
	if a.status != 200 || a.json["dry_run"] != true || a.json["matched"] != 3.0 || a.json["bytes"] != 30.0 || a.json["seconds"] != 3.0 || a.json["id"] != nil || !strings.Contains(a.text, "nothing was changed") {
		t.Errorf("%d %s", a.status, a.text)
	}
	if a := w.do("POST", "/v1/dead_set/operations", `{"action":"replay","stream":"orders","select":{"all":true},"dry_run":true,"note":"busy"}`); a.status != 409 || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", a.status, a.text)
	}
	if a := w.do("GET", "/v1/dead_set/operations", ""); len(a.json["operations"].([]any)) != 0 || len(p.asked) != 0 {
		t.Errorf("%s", a.text)
	}
}

func TestTheSameKeyIsTheSameOperationAndNeverAnother(t *testing.T) {
	w, _ := operating(t)
	const body = `{"action":"replay","stream":"orders","select":{"all":true},"before":"2h"}`
	first := w.do("POST", "/v1/dead_set/operations", body, "Idempotency-Key", "mine")
	again := w.do("POST", "/v1/dead_set/operations", ` {"stream":"orders","select":{"all":true},"before":"2h","action":"replay"}`, "Idempotency-Key", "mine")
	if first.status != 202 || again.status != 200 || first.json["id"] != again.json["id"] || first.json["before"] != again.json["before"] || first.json["wish"] != nil {
		t.Errorf("%d %s, %d %s", first.status, first.text, again.status, again.text)
	}
	for _, other := range []string{strings.Replace(body, "2h", "1h", 1), strings.Replace(body, "replay", "delete", 1)} {
		if a := w.do("POST", "/v1/dead_set/operations", other, "Idempotency-Key", "mine"); a.status != 409 {
			t.Errorf("%s: %d %s", other, a.status, a.text)
		}
	}
	for _, key := range []string{"", strings.Repeat("x", 256)} {
		if a := w.do("POST", "/v1/dead_set/operations", body, "Idempotency-Key", key); a.status != 400 {
			t.Errorf("%q: %d", key, a.status)
		}
	}
}

func TestWhatIsNotUnderstoodIsNeverTakenForAll(t *testing.T) {
	w, p := operating(t)
	const whole = `"action":"delete","stream":"orders"`
	for body, says := range map[string]string{
		``:                                       "select is missing",
		`{`:                                      "JSON",
		`[]`:                                     "object",
		`{` + whole + `}`:                        "select is missing",
		`{` + whole + `,"select":1}`:             "select must be an object",
		`{` + whole + `,"select":null}`:          "select must be an object",
		`{` + whole + `,"select":{}}`:            "exactly one of ids, group, filter and all",
		`{` + whole + `,"select":{"filter":{}}}`: "an empty filter chooses nothing",
		`{` + whole + `,"select":{"filter":{"error":""}}}`:                                                      "error is empty",
		`{` + whole + `,"select":{"filter":{"error":null}}}`:                                                    "select.filter.error must be a text",
		`{` + whole + `,"select":{"filter":{"eror":"x"}}}`:                                                      "unknown filter eror; known",
		`{` + whole + `,"select":{"filter":{"error":"x","error":"y"}}}`:                                         "error is given twice",
		`{` + whole + `,"select":{"filter":{"error_re":"("}}}`:                                                  "RE2",
		`{` + whole + `,"select":{"filter":null}}`:                                                              "select.filter must be an object",
		`{` + whole + `,"select":{"group":""}}`:                                                                 "select.group is empty",
		`{` + whole + `,"select":{"group":"7f3a"}}`:                                                             "12 hexadecimal digits",
		`{` + whole + `,"select":{"ids":[]}}`:                                                                   "select.ids must be a list of 1 to 1000",
		`{` + whole + `,"select":{"ids":["a",""]}}`:                                                             "none of them empty",
		`{` + whole + `,"select":{"ids":"a"}}`:                                                                  "select.ids must be a list",
		`{` + whole + `,"select":{"all":false}}`:                                                                "select.all must be true",
		`{` + whole + `,"select":{"all":"true"}}`:                                                               "select.all must be true or false",
		`{` + whole + `,"select":{"all":true,"group":"7f3a91c2b04d"}}`:                                          "exactly one",
		`{` + whole + `,"select":{"al":true}}`:                                                                  "unknown member select.al",
		`{` + whole + `,"select":{"all":true},"dryrun":true}`:                                                   "did you mean dry_run?",
		`{` + whole + `,"select":{"all":true},"dry_run":"true"}`:                                                "dry_run must be true or false",
		`{` + whole + `,"select":{"all":null}}`:                                                                 "select.all must be true or false",
		`{` + whole + `,"select":{"group":null}}`:                                                               "select.group must be a text",
		`{` + whole + `,"select":{"ids":null}}`:                                                                 "select.ids must be a list",
		`{` + whole + `,"select":{"all":true},"dry_run":null}`:                                                  "dry_run must be true or false",
		`{` + whole + `,"select":{"all":true},"forever":null}`:                                                  "forever must be true or false",
		`{` + whole + `,"select":{"all":true},"include_crash_loop":null}`:                                       "include_crash_loop must be true or false",
		`{` + whole + `,"select":{"all":true},"channel":null}`:                                                  "channel must be a text",
		`{` + whole + `,"select":{"all":true},"before":null}`:                                                   "before must be a text",
		`{` + whole + `,"select":{"all":true},"rate":null}`:                                                     "rate must be a text",
		`{` + whole + `,"select":{"all":true},"ahead":null}`:                                                    "ahead must be a whole number",
		`{` + whole + `,"select":{"all":true},"expect":null}`:                                                   "expect must be a whole number",
		`{` + whole + `,"select":{"all":true},"expect":-1}`:                                                     "expect must be a whole number",
		`{` + whole + `,"select":{"all":true},"expect":1.5}`:                                                    "expect must be a whole number",
		`{` + whole + `,"select":{"all":true},"before":"yesterday"}`:                                            "before must be a time",
		`{` + whole + `,"select":{"all":true},"before":""}`:                                                     "before is empty",
		`{` + whole + `,"select":{"all":true},"rate":"fast"}`:                                                   "rate must be messages a second",
		`{` + whole + `,"select":{"all":true},"rate":200}`:                                                      "rate must be a text",
		`{` + whole + `,"select":{"all":true},"forever":false}`:                                                 "there is no trash",
		`{` + whole + `,"select":{"all":true},"include_crash_loop":true}`:                                       "include_crash_loop is for replay",
		`{` + whole + `,"select":{"all":true},"channel":"fast"}`:                                                `no channel "fast"`,
		`{` + whole + `,"select":{"all":true},"Stream":"plain"}`:                                                "unknown member Stream",
		`{` + whole + `,"select":{"all":true},"stream":"plain"}`:                                                "stream is given twice",
		`{` + whole + `,"select":{"all":true}} {}`:                                                              "follows",
		`{` + whole + `,"select":{"filter":{"error":[[[["x"]]]]}}}`:                                             "nested",
		`{"action":"move","stream":"orders","select":{"all":true}}`:                                             "action must be replay, delete, restore, sort or unsort",
		`{"action":"replay","stream":"orders","forever":true,"select":{"all":true}}`:                            "forever is for delete",
		`{"action":"replay","stream":"orders","select":{"all":true},"ahead":0}`:                                 "ahead must be a whole number from 1 on",
		`{"action":"replay","stream":"orders","select":{"all":true},"ahead":"9"}`:                               "ahead must be a whole number",
		`{"action":"delete","stream":"orders","select":{"all":true},"ahead":9}`:                                 "ahead is for replay",
		`{"action":"replay","topic-entity":"orders","select":{"all":true}}`:                                     "stream is missing; streams are: orders, plain; unknown member topic-entity",
		`{"action":"replay","stream":"ordres","select":{"all":true}}`:                                           `unknown stream "ordres"`,
		`{"action":"replay","stream":"orders","select":{"all":true},"note":"` + strings.Repeat("x", 501) + `"}`: "note is 501 bytes",
	} {
		if a := w.do("POST", "/v1/dead_set/operations", body); a.status != 400 || !strings.Contains(fmt.Sprint(a.json["error"]), says) {
			t.Errorf("%s: %d %s", body, a.status, a.text)
		}
	}
	if a := w.do("POST", "/v1/dead_set/operations?dry_run=true", `{`+whole+`,"select":{"all":true}}`); a.status != 400 {
		t.Errorf("a wish in the query: %d", a.status)
	}
	if a := w.do("POST", "/v1/dead_set/operations", `{"action":"replay","stream":"plain","select":{"all":true}}`); a.status != 404 {
		t.Errorf("without retries: %d %s", a.status, a.text)
	}
	for path, says := range map[string]string{"?stream=": "stream is empty", "?stream=x": "unknown stream", "?state=over": "state must be one of", "?limit=0": "limit must be", "?limt=1": "did you mean limit?"} {
		if a := w.do("GET", "/v1/dead_set/operations"+path, ""); a.status != 400 || !strings.Contains(a.text, says) {
			t.Errorf("%s: %d %s", path, a.status, a.text)
		}
	}
	for body, says := range map[string]string{``: "state or rate is missing", `{"state":"done"}`: "state must be", `{"state":""}`: "state is empty", `{"rate":"x"}`: "rate must be", `{"sate":"paused"}`: "did you mean state?"} {
		if a := w.do("PATCH", "/v1/dead_set/operations/op_x", body); a.status != 400 || !strings.Contains(a.text, says) {
			t.Errorf("%s: %d %s", body, a.status, a.text)
		}
	}
	if len(p.asked) != 0 {
		t.Errorf("%d turns", len(p.asked))
	}
}

func TestACountIsRefusedWhileAnOperationRunsOnThatDeadSetAndPeeksGoOn(t *testing.T) {
	w, p := operating(t)
	id := w.do("POST", "/v1/dead_set/operations", `{"action":"replay","stream":"orders","select":{"all":true}}`).json["id"]
	<-p.asked
	for method, path := range map[string]string{"POST": "/v1/dead_set/replay", "DELETE": "/v1/dead_set"} {
		if a := w.do(method, path, `{"count":1,"stream":"orders"}`); a.status != http.StatusConflict || a.json["operation"] != id || a.header.Get("Retry-After") == "" || !strings.Contains(a.text, "pause or cancel it") {
			t.Errorf("%s: %d %s", method, a.status, a.text)
		}
		if a := w.do(method, path, `{"count":1,"stream":"orders","channel":"slow"}`); a.status != 200 {
			t.Errorf("%s of another dead set: %d %s", method, a.status, a.text)
		}
	}
	if a := w.do("GET", "/v1/dead_set?stream=orders&count=1", ""); a.status != 200 {
		t.Errorf("%d %s", a.status, a.text)
	}
	w.do("PATCH", fmt.Sprint("/v1/dead_set/operations/", id), `{"state":"paused"}`)
	if a := w.do("DELETE", "/v1/dead_set", `{"count":1,"stream":"orders"}`); a.status != 200 {
		t.Errorf("while it pauses: %d %s", a.status, a.text)
	}
}

func TestWithoutARunnerThereAreNoOperations(t *testing.T) {
	w := start(t, nil)
	for method, path := range map[string]string{"POST": "", "GET": "", "PATCH": "/op_x"} {
		if a := w.do(method, "/v1/dead_set/operations"+path, ""); a.status != 404 {
			t.Errorf("%s: %d %s", method, a.status, a.text)
		}
	}
}

// noted are operations of which only the wish is kept.
type noted struct {
	server.Operations
	last *operations.Request
}

func (n *noted) Ask(_ context.Context, r operations.Request, _ operations.Rate, _ string) (operations.Operation, bool, error) {
	n.last = &r
	return operations.Operation{Request: r}, false, nil
}

func (n *noted) Sample(_ context.Context, r operations.Request) (operations.Sample, error) {
	n.last = &r
	return operations.Sample{}, nil
}

// FuzzAWishIsUnderstoodWholeOrRefused sends any body: what is taken says in so many words what it
// does, and no member of it was passed over.
func FuzzAWishIsUnderstoodWholeOrRefused(f *testing.F) {
	f.Add(`{"action":"delete","stream":"orders","select":{"all":true}}`)
	f.Add(`{"action":"replay","stream":"orders","select":{"filter":{"error":"x","partition":3}},"expect":3,"rate":"1/s"}`)
	f.Add(`{"action":"replay","stream":"orders","select":{"ids":["a"]},"select":{"all":true},"dry_run":true}`)
	f.Add(`{"action":"replay","stream":"orders","select":{"group":"7f3a91c2b04d","ALL":true}}`)
	n := &noted{}
	w := start(f, func(c *server.Config) { c.Operations = n })
	f.Fuzz(func(t *testing.T, body string) {
		n.last = nil
		req := httptest.NewRequest(http.MethodPost, "/v1/dead_set/operations", strings.NewReader(body))
		req.Host = "localhost"
		req.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		w.server.Handler().ServeHTTP(rec, req)
		taken := rec.Code == http.StatusOK || rec.Code == http.StatusAccepted
		if taken != (n.last != nil) || !taken && rec.Code >= 500 {
			t.Fatalf("%s: %d %s", body, rec.Code, rec.Body)
		}
		if !taken {
			return
		}
		var sent map[string]any
		if err := json.Unmarshal([]byte(body), &sent); err != nil {
			t.Fatalf("%s: taken, and %v", body, err)
		}
		chosen, _ := sent["select"].(map[string]any)
		if len(chosen) != 1 || n.last.Select.All != (chosen["all"] == true) || sent["action"] != n.last.Action || sent["stream"] != n.last.Stream {
			t.Errorf("%s became %+v", body, n.last)
		}
		if of, err := n.last.Select.Compile(time.Now()); err != nil || of.IsZero() {
			t.Errorf("%s chooses nothing: %v", body, err)
		}
	})
}
