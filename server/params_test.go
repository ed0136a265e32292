package server_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/server"
)

func TestAMistakeInTheParametersIsNamedAndNothingIsDone(t *testing.T) {
	tests := []struct {
		name, query, body string
		says              string
	}{
		{"nothing", "", "", "count is missing"},
		{"nothing, and the stream is named too", "", "", "streams are: orders, plain"},
		{"no count", "?stream=orders", "", "count is missing"},
		{"empty count", "?stream=orders&count=", "", "count is missing"},
		{"null count", "", `{"stream":"orders","count":null}`, "count is missing"},
		{"count 0", "?stream=orders&count=0", "", `not "0"`},
		{"negative count", "?stream=orders&count=-1", "", `not "-1"`},
		{"count in words", "?stream=orders&count=abc", "", `not "abc"`},
		{"count above the limit", "?stream=orders&count=100001", "", "from 1 to 100000"},
		{"count beyond any number", "?stream=orders&count=99999999999999999999999", "", "from 1 to 100000"},
		{"count with an exponent", "", `{"stream":"orders","count":1e2}`, `not "1e2"`},
		{"large count with an exponent", "", `{"stream":"orders","count":1e9}`, `not "1e9"`},
		{"count with a fraction", "", `{"stream":"orders","count":10.0}`, `not "10.0"`},
		{"count with a leading zero", "?stream=orders&count=010", "", `not "010"`},
		{"count with a sign", "?stream=orders&count=%2B5", "", `not "+5"`},
		{"count in another base", "?stream=orders&count=0x10", "", `not "0x10"`},
		{"count with a space", "?stream=orders&count=5%20", "", `not "5 "`},
		{"count in other digits", "?stream=orders&count=%D9%A1", "", "whole number"},
		{"count true", "", `{"stream":"orders","count":true}`, "count must be a number"},
		{"count in a list", "", `{"stream":"orders","count":[1]}`, "count must be a number"},
		{"two counts in the query", "?stream=orders&count=1&count=2", "", `count is given twice, as "1" and as "2"`},
		{"two counts in the body", "", `{"stream":"orders","count":1,"count":2}`, "count is given twice"},
		{"query against body", "?count=1", `{"stream":"orders","count":2}`, "count is given twice"},
		{"an empty count beside a good one", "?count=", `{"stream":"orders","count":2}`, "count is given twice"},
		{"two streams under two names", "?count=1&stream=orders&topic-entity=plain", "", "stream is given twice"},
		{"no stream", "?count=1", "", "stream (or topic-entity) is missing; streams are: orders, plain"},
		{"unknown stream", "?count=1&stream=ordres", "", `unknown stream "ordres"; streams are: orders, plain`},
		{"stream in capitals", "?count=1&stream=Orders", "", `unknown stream "Orders"`},
		{"stream as a number", "", `{"count":1,"stream":7}`, "stream must be a text"},
		{"a channel", "?count=1&stream=orders&channel=fast", "", `stream orders has no channel "fast"; its channels are: slow`},
		{"a channel of a stream that has none", "?count=1&stream=plain&channel=slow", "", `stream plain has no channel "slow"; its channels are: none`},
		{"a channel of an unknown stream", "?count=1&stream=ordres&channel=slow", "", `unknown stream "ordres"`},
		{"channel as an object", "", `{"count":1,"stream":"orders","channel":{}}`, "channel must be a text"},
		{"misspelt channel", "?count=1&stream=orders&chanel=", "", "did you mean channel?"},
		{"channel in capitals", "", `{"count":1,"stream":"orders","Channel":""}`, "did you mean channel?"},
		{"misspelt count", "?stream=orders&counts=5", "", "did you mean count?"},
		{"misspelt topic entity", "", `{"count":1,"topicEntity":"orders"}`, "did you mean topic-entity?"},
		{"query that cannot be read", "?stream=orders&count=%zz", "", "query"},
		{"semicolon in the query", "?stream=orders;count=1", "", "query"},
		{"truncated JSON", "", `{"count":1,`, "not JSON"},
		{"junk", "", `count=1&stream=orders`, "not JSON"},
		{"trailing junk", "", `{"count":1,"stream":"orders"}{}`, "follows"},
		{"a list", "", `[{"count":1,"stream":"orders"}]`, "must be a JSON object"},
		{"a text", "", `"orders"`, "must be a JSON object"},
		{"null", "", `null`, "must be a JSON object"},
		{"blanks", "", "  \n", "not JSON"},
		{"crash loops of more than a replay", "?stream=orders&count=1&include_crash_loop=maybe", "", "include_crash_loop"},
		{"a dry run", "?stream=orders&count=1&ids=t:0:1&dry_run=true", "", "unknown parameter dry_run; known: count, stream, topic-entity, topic_entity, channel"},
		{"a comment beside two good counts", "?count=1&count=1&stream=orders&comment=x", "", "unknown parameter comment; known:"},
		{"nested", "", `{"count":1,"stream":"orders","only":{"count":1}}`, "unknown parameter only; known:"},
		{"the parameters nested", "", `{"data":{"count":1,"stream":"orders"}}`, "unknown parameter data; known:"},
		{"null", "", `{"count":1,"stream":"orders","dry_run":null}`, "unknown parameter dry_run; known:"},
		{"without a name", "?count=1&stream=orders&=x", "", "unknown parameter ; known:"},
		{"misspelt limit", "?count=1&stream=orders&limt=3", "", "unknown parameter limt; known:"},
		{"misspelt crash loops", "?stream=orders&count=1&include-crash-loops=true", "", "unknown parameter include-crash-loops"},
		{"a byte order mark", "", "\ufeff{}", "not JSON"},
	}
	w := start(t, nil)
	for _, test := range tests {
		for method, path := range map[string]string{"GET": "/v1/dead_set", "POST": "/v1/dead_set/replay", "DELETE": "/v1/dead_set"} {
			a := w.do(method, path+test.query, test.body)
			if text, _ := a.json["error"].(string); a.status != 400 || !strings.Contains(text, test.says) || a.json["detail"] != text {
				t.Errorf("%s, %s: %d %s", test.name, method, a.status, a.text)
			}
			if kind := a.header.Get("Content-Type"); kind != "application/problem+json" {
				t.Errorf("%s, %s: content type %q", test.name, method, kind)
			}
		}
	}
	if w.orders.asked != 0 {
		t.Error("a mistake reached a dead set")
	}
}

func TestWhatOnlyAReplayKnowsIsUnknownToTheOthers(t *testing.T) {
	w := start(t, nil)
	const known = "known: count, stream, topic-entity, topic_entity, channel"
	tests := []struct{ method, path, query, says string }{
		{"GET", "/v1/dead_set", "include_crash_loop=true", "unknown parameter include_crash_loop; " + known},
		{"DELETE", "/v1/dead_set", "include_crash_loop=false", "unknown parameter include_crash_loop; " + known},
		{"POST", "/v1/dead_set/replay", "include_crash_loop=yes", "must be true or false"},
		{"POST", "/v1/dead_set/replay", "include_crashloop=true", "did you mean include_crash_loop?"},
		{"POST", "/v1/dead_set/replay", "dry_run=true", known + ", include_crash_loop"},
		{"POST", "/v1/dead_set/replay", "dry_run=true", "; to replay one cause, or whatever else is chosen: POST /v1/dead_set/operations"},
		{"DELETE", "/v1/dead_set", "group=7f3a91c2b04d", "; to delete one cause, or whatever else is chosen: POST /v1/dead_set/operations"},
		{"DELETE", "/v1/dead_set", "header.tenant=acme", "; to delete one cause, or whatever else is chosen: POST /v1/dead_set/operations"},
	}
	for _, test := range tests {
		if a := w.do(test.method, test.path+"?count=1&stream=orders&"+test.query, ""); a.status != 400 || !strings.Contains(a.text, test.says) {
			t.Errorf("%s %s: %d %s", test.method, test.query, a.status, a.text)
		}
	}
	if w.orders.asked != 0 {
		t.Error("a mistake reached the dead set")
	}
}

// A script that says channel=$CH, and CH is not set, must not delete from another dead set.
func TestAnEmptyParameterIsRefusedAndNeverMeansThatItIsLeftOut(t *testing.T) {
	w, _ := operating(t, keeping)
	const good = "?count=1&stream=orders&"
	tests := []struct{ method, path, query, body, name string }{
		{"GET", "/v1/dead_set", good + "channel=", "", "channel"},
		{"GET", "/v1/dead_set", "?stream=orders&channel=&limit=3", "", "channel"},
		{"GET", "/v1/dead_set", "?stream=orders&limit=3&cursor=", "", "cursor"},
		{"GET", "/v1/dead_set/groups", "?stream=orders&channel=", "", "channel"},
		{"GET", "/v1/dead_set/export", "?stream=orders&channel", "", "channel"},
		{"GET", "/v1/dead_set/trash", "?stream=orders&channel=", "", "channel"},
		{"GET", "/v1/dead_set/messages/a", "?stream=orders&channel=", "", "channel"},
		{"GET", "/v1/dead_set/messages/a", "?stream=orders&part=", "", "part"},
		{"GET", "/v1/dead_set/operations", "?stream=", "", "stream"},
		{"POST", "/v1/dead_set/replay", good + "channel=", "", "channel"},
		{"POST", "/v1/dead_set/replay", good + "include_crash_loop=", "", "include_crash_loop"},
		{"POST", "/v1/dead_set/replay", "", `{"count":1,"stream":"orders","include_crash_loop":""}`, "include_crash_loop"},
		{"POST", "/v1/dead_set/replay", "", `{"count":1,"stream":"orders","channel":null}`, "channel"},
		{"DELETE", "/v1/dead_set", good + "channel=", "", "channel"},
		{"DELETE", "/v1/dead_set", good + "channel=&channel=slow", "", "channel"},
		{"DELETE", "/v1/dead_set", good + "forever=", "", "forever"},
		{"DELETE", "/v1/dead_set", "?count=1&topic-entity=", "", "topic-entity"},
		{"DELETE", "/v1/dead_set", "", `{"count":1,"topic_entity":"orders","channel":""}`, "channel"},
	}
	for _, test := range tests {
		a := w.do(test.method, test.path+test.query, test.body)
		if a.status != 400 || a.json["error"] != test.name+" is empty: leave it out, or say what is meant" {
			t.Errorf("%s %s%s %s: %d %s", test.method, test.path, test.query, test.body, a.status, a.text)
		}
	}
	if w.orders.asked != 0 {
		t.Error("a mistake reached the dead set")
	}
}

func TestCallsWithoutParametersRefuseAnyAndAPauseKnowsItsScopeAlone(t *testing.T) {
	w := start(t, nil)
	tests := []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "/v1/streams", "", 200, ""},
		{"GET", "/v1/streams?stream=orders", "", 400, "unknown parameter stream; known: none"},
		{"POST", "/v1/streams/orders/pause", "", 200, ""},
		{"POST", "/v1/streams/orders/pause", "{}", 200, ""},
		{"POST", "/v1/streams/orders/resume?partition=3", "", 400, "unknown parameter partition; known: scope"},
		{"POST", "/v1/streams/orders/pause?for=5m", "", 400, "unknown parameter for; known: scope"},
		{"POST", "/v1/streams/orders/resume", `{"stream":"plain"}`, 400, "unknown parameter stream; known: scope"},
		{"POST", "/v1/streams/orders/resume?scope=cluster", "", 400, "scope must be instance or app, not"},
		{"POST", "/v1/streams/orders/resume?scope=", "", 400, "scope is empty: leave it out"},
		{"POST", "/v1/streams/orders/resume", `{"scope":"App"}`, 400, "scope must be instance or app, not"},
		{"POST", "/v1/streams/orders/resume", `{"scope":null}`, 400, "scope is empty: leave it out"},
		{"POST", "/v1/streams/orders/resume?scope=app", `{"scope":"instance"}`, 400, "scope is given twice"},
	}
	for _, test := range tests {
		if a := w.do(test.method, test.path, test.body); a.status != test.status || !strings.Contains(a.text, test.says) {
			t.Errorf("%s %s %s: %d %s", test.method, test.path, test.body, a.status, a.text)
		}
	}
	if a := w.do("GET", "/v1/streams", ""); !strings.Contains(a.text, `"id":"orders","paused":true`) {
		t.Errorf("a resume that was refused resumed: %s", a.text)
	}
}

func TestABodyThatIsNotCalledJSONIs415(t *testing.T) {
	w := start(t, nil)
	const good = `{"count":1,"stream":"orders"}`
	tests := []struct {
		name   string
		header []string
	}{
		{"what curl -d sends", []string{"Content-Type", "application/x-www-form-urlencoded"}},
		{"what a web page may send unasked", []string{"Content-Type", "text/plain"}},
		{"nothing", []string{"Content-Type", ""}},
		{"nonsense", []string{"Content-Type", "json;;"}},
		{"compressed", []string{"Content-Encoding", "gzip"}},
	}
	for _, test := range tests {
		if a := w.do("DELETE", "/v1/dead_set", good, test.header...); a.status != 415 || !strings.Contains(a.text, "application/json") {
			t.Errorf("%s: %d %s", test.name, a.status, a.text)
		}
	}
	if acts := w.orders.acts(); len(acts) != 0 {
		t.Errorf("acted: %v", acts)
	}
	if a := w.do("DELETE", "/v1/dead_set?count=1&stream=orders", "", "Content-Type", "text/plain"); a.status != 200 {
		t.Errorf("without a body its type does not matter: %d %s", a.status, a.text)
	}
}

// FuzzParametersNeverActWithoutAGoodCount sends any query and body: the answer is never 500, and
// what acts was asked for in so many words.
func FuzzParametersNeverActWithoutAGoodCount(f *testing.F) {
	f.Add("count=1&stream=orders", "")
	f.Add("", `{"count":"10","topic_entity":"orders"}`)
	f.Add("count=1;stream=orders", `{"count":1e9,"stream":"orders","channel":""}`)
	f.Add("Count=1", `{"count":1,"count":2,"stream":"orders"}{}`)
	f.Add("count=%00", "[[[[[")
	f.Fuzz(func(t *testing.T, query, body string) {
		w := &world{orders: newSet(), log: &log{}}
		cfg := config(w)
		cfg.Insecure, cfg.BodyLimit = true, 1<<10
		s, err := server.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		done := opened(t, s)
		defer done()
		r := httptest.NewRequest("POST", "/v1/dead_set/replay", bytes.NewReader([]byte(body))) //nolint:usestdlibvars // as on the wire
		r.URL.RawQuery = query
		r.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		s.Handler().ServeHTTP(rec, r)
		acts := w.orders.acts()
		switch rec.Code {
		case http.StatusOK:
			given, _ := url.ParseQuery(query)
			for _, n := range acts {
				if n < 1 || n > server.MaxCount || !given.Has("count") && !strings.Contains(body, "c") {
					t.Errorf("acted on %d for %q %q", n, query, body)
				}
			}
		case http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge:
			if len(acts) != 0 {
				t.Errorf("%d, and acted on %v for %q %q", rec.Code, acts, query, body)
			}
		default:
			t.Errorf("%d for %q %q: %s", rec.Code, query, body, rec.Body)
		}
	})
}

func TestAReplayTakesWhatKilledTheProcessOnlyWhenAskedTo(t *testing.T) {
	for _, test := range []struct {
		query, body string
		all         int
	}{
		{"?stream=orders&count=1", "", 0},
		{"?stream=orders&count=1&include_crash_loop=false", "", 0},
		{"?stream=orders&count=1&include_crash_loop=true", "", 1},
		{"", `{"stream":"orders","count":1,"include_crash_loop":true}`, 1},
		{"", `{"stream":"orders","count":1,"include_crash_loop":"true"}`, 1},
		{"", `{"stream":"orders","count":1,"include_crash_loop":false}`, 0},
	} {
		w := start(t, nil)
		if a := w.do("POST", "/v1/dead_set/replay"+test.query, test.body); a.status != 200 || w.orders.crashLoops != test.all {
			t.Errorf("%s%s: %d %s, %d replays of all", test.query, test.body, a.status, a.text, w.orders.crashLoops)
		}
	}
}

// With include_crash_loop the same count takes the oldest, whatever they died of.
func TestAReplayThatLeavesOutWhatKilledTheProcessNamesTheCommandsForOneOfThem(t *testing.T) {
	w := start(t, nil)
	w.orders.trap = func(context.Context) (server.Result, error) { return server.Result{LeftOut: 2}, nil }
	const want = "2 that killed the process were left out: stepwell dead-set list -s orders --reason crash_loop shows them, " +
		"stepwell dead-set replay -s orders --id ID --include-crash-loop replays one of them"
	if a := w.do("POST", "/v1/dead_set/replay?stream=orders&count=3", ""); a.status != 200 || !strings.Contains(a.text, want) {
		t.Errorf("%d %s", a.status, a.text)
	}
}
