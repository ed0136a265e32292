package server_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/server"
)

// right is who may use a route on a server that has tokens.
type right int

const (
	everybody right = iota // probes, metrics and the description: no data of messages is in them
	looks                  // 401 without a token
	changes                // 403 for a viewer, too
	ofConsole              // a session of the console; a token as a header is none
)

// rights has every route of the server, as server.Routes names them: one that is missing here was
// added without a thought of who may use it. Which pages of the console want a session is told by
// the tests of that package.
func rights() map[string]right {
	return map[string]right{
		"GET /ping":                           everybody,
		"GET /livez":                          everybody,
		"GET /readyz":                         everybody,
		"GET /metrics":                        everybody,
		"GET /openapi.json":                   everybody,
		"GET /v1/dead_set":                    looks,
		"GET /v1/dead_set/groups":             looks,
		"GET /v1/dead_set/export":             looks,
		"GET /v1/dead_set/trash":              looks,
		"GET /v1/dead_set/messages/:id":       looks,
		"POST /v1/dead_set/messages/:id/edit": changes,
		"POST /v1/dead_set/replay":            changes,
		"DELETE /v1/dead_set":                 changes,
		"POST /v1/dead_set/operations":        changes,
		"GET /v1/dead_set/operations":         looks,
		"GET /v1/dead_set/operations/:id":     looks,
		"PATCH /v1/dead_set/operations/:id":   changes,
		"GET /v1/streams":                     looks,
		"POST /v1/streams/:id/pause":          changes,
		"POST /v1/streams/:id/resume":         changes,
		"GET /console":                        ofConsole,
		"GET /console/*":                      ofConsole,
		"POST /console":                       ofConsole,
		"POST /console/*":                     ofConsole,
	}
}

func TestEveryRouteIsForThoseWhoMayUseItAndForNobodyElse(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *server.Config) {
		c.Console, c.Tokens, c.Metrics = true, staff(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	})
	rights := rights()
	for _, route := range w.server.Routes() {
		if _, known := rights[route]; !known {
			t.Errorf("%s: nothing says who may use it", route)
		}
	}
	// What is refused to whom; 0: the route answers, whatever it answers.
	callers := map[string]map[right]int{
		"":                   {everybody: 0, looks: 401, changes: 401, ofConsole: 401},
		"Bearer swordfisH":   {everybody: 0, looks: 401, changes: 401, ofConsole: 401},
		"Bearer swordfish":   {everybody: 0, looks: 0, changes: 0, ofConsole: 401},
		"Bearer alice's own": {everybody: 0, looks: 0, changes: 0, ofConsole: 401},
		"Bearer bob's own":   {everybody: 0, looks: 0, changes: 403, ofConsole: 401},
	}
	for route, right := range rights {
		if !slices.Contains(w.server.Routes(), route) {
			t.Errorf("%s: there is no such route", route)
			continue
		}
		method, path, _ := strings.Cut(route, " ")
		path = strings.NewReplacer(":id", "orders", "*", "operations").Replace(path)
		for header, refusals := range callers {
			headers := []string{"Origin", "http://" + w.server.Addr()}
			if header != "" {
				headers = append(headers, "Authorization", header)
			}
			a := w.do(method, path, "", headers...)
			refused := 0
			switch {
			case strings.Contains(a.text, `action="/console/login"`):
				refused = http.StatusUnauthorized // a page that asks for a token
			case a.status == http.StatusUnauthorized, a.status == http.StatusForbidden:
				refused = a.status
			}
			if refused != refusals[right] {
				t.Errorf("%s by %q: refused with %d, want %d: %d %s", route, header, refused, refusals[right], a.status, a.text)
			}
			if refused == http.StatusForbidden && !strings.Contains(a.text, "what changes something needs the role operator, and bob has the role viewer") {
				t.Errorf("%s: %s", route, a.text)
			}
		}
	}
	if acts := w.orders.acts(); len(acts) != 0 {
		t.Errorf("a request without a count acted: %v", acts)
	}
}

// staff are an operator and a viewer beside the single token.
func staff() []server.Token {
	return append(single("swordfish"), server.Token{Name: "alice", Role: server.Operator, Secret: "alice's own"}, server.Token{Name: "bob", Role: server.Viewer, Secret: "bob's own"})
}

func TestAViewerChangesNothingHoweverTheyAsk(t *testing.T) {
	t.Parallel()
	w, pile := operating(t, func(c *server.Config) {
		c.Tokens, c.GuardUser = staff(), true
		c.User = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("mine " + r.Method)) })
	})
	defer close(pile.hold)
	bob := []string{"Authorization", "Bearer bob's own"}
	const all = `{"action":"replay","stream":"orders","select":{"all":true}`
	for request, body := range map[string]string{
		"POST /v1/dead_set/replay?count=1&stream=orders": "", "DELETE /v1/dead_set?count=1&stream=orders": "",
		"POST /v1/dead_set/operations": all + "}", "POST /v1/dead_set/operations ": all + `,"dry_run":true}`,
		"POST /v1/dead_set/messages/a:0:7/edit": `{"stream":"orders","value":"x"}`,
		"PATCH /v1/dead_set/operations/op_1":    `{"state":"paused"}`, "POST /v1/streams/orders/pause": "", "POST /mine": "",
	} {
		method, path, _ := strings.Cut(strings.TrimSpace(request), " ")
		// A method in a header is for frameworks that believe it.
		for _, more := range [][]string{nil, {"X-HTTP-Method-Override", "GET"}, {"X-Forwarded-User", "alice"}} {
			if a := w.do(method, path, body, append(more, bob...)...); a.status != http.StatusForbidden || !strings.Contains(a.text, "operator") {
				t.Errorf("%s: %d %s", request, a.status, a.text)
			}
		}
	}
	if a := w.do("GET", "/mine", "", bob...); a.status != 200 || a.text != "mine GET" {
		t.Errorf("the program's own: %d %s", a.status, a.text)
	}
	if acts := w.orders.acts(); len(acts) != 0 || strings.Contains(w.log.String(), "audit") {
		t.Errorf("acted: %v, log %s", acts, w.log)
	}
	if a := w.do("GET", "/v1/streams", "", bob...); a.status != 200 || !strings.Contains(a.text, `"paused":false`) {
		t.Errorf("%d %s", a.status, a.text)
	}
}

func TestEachChangeLeavesOneLineWithWhoDidWhatByWhichRight(t *testing.T) {
	t.Parallel()
	w, pile := operating(t, func(c *server.Config) { c.Tokens = staff() })
	defer close(pile.hold)
	alice := []string{"Authorization", "Bearer alice's own"}
	const is = "by=alice role=operator right=token address=127.0.0.1"
	lines := func() int { return strings.Count(w.log.String(), "audit: ") }
	for _, change := range []struct{ method, path, body, says string }{
		{"POST", "/v1/dead_set/replay?count=2&stream=orders", "", `"audit: dead set" ` + is + " action=replay stream=orders requested=2 done=2 left=1"},
		{"DELETE", "/v1/dead_set?count=1&stream=orders", "", `"audit: dead set" ` + is + " action=delete stream=orders requested=1 done=1 left=0"},
		{"POST", "/v1/streams/orders/pause", "", `"audit: stream paused" ` + is + " stream=orders"},
		{"POST", "/v1/streams/orders/resume", "", `"audit: stream resumed" ` + is + " stream=orders"},
		{"POST", "/v1/dead_set/operations", `{"action":"replay","stream":"orders","select":{"all":true},"expect":3}`, `"audit: operation asked for" ` + is + " action=replay stream=orders select=all expect=3"},
	} {
		before := lines()
		if a := w.do(change.method, change.path, change.body, alice...); a.status >= 300 || lines() != before+1 || !strings.Contains(w.log.String(), change.says) {
			t.Errorf("%s: %d %s, log %s", change.path, a.status, a.text, w.log)
		}
	}
	if a := w.do("GET", "/v1/dead_set/operations?by=alice", "", "Authorization", "Bearer bob's own"); !strings.Contains(a.text, `"by":"alice"`) {
		t.Errorf("%d %s", a.status, a.text)
	}
	if log := w.log.String(); strings.Contains(log, "own") || strings.Contains(log, "swordfish") {
		t.Errorf("a token is in the log: %s", log)
	}
}

// Who comes past the proxy could write any name there: it is worth what the token beside it is.
func TestAProxySaysWhoItLetInBesideItsTokenAlone(t *testing.T) {
	t.Parallel()
	const pause = "/v1/streams/orders/pause"
	by := func(w *world, name string) bool { return strings.Contains(w.log.String(), "by="+name+" role") }
	behind := start(t, func(c *server.Config) { c.Tokens, c.UserHeader = staff(), "X-Forwarded-User" })
	token := []string{"Authorization", "Bearer alice's own"}
	for _, test := range []struct {
		headers []string
		status  int
		by      string
	}{
		{[]string{"X-Forwarded-User", "dora"}, 401, ""},
		{append([]string{"X-Forwarded-User", "dora"}, token...), 200, `"dora via alice"`},
		{append([]string{"X-Forwarded-User", "bob"}, token...), 200, `"bob via alice"`},
		{append([]string{"X-Forwarded-User", "Zoë <z@example.org>"}, token...), 200, `"Zoë <z@example.org> via alice"`},
		{token, 200, "alice"},
		{append([]string{"X-Forwarded-User", ""}, token...), 400, ""},
		{append([]string{"X-Forwarded-User", "x\u202ey"}, token...), 400, ""},
		{append([]string{"X-Forwarded-User", "\xff"}, token...), 400, ""},
		{append([]string{"X-Forwarded-User", strings.Repeat("x", 101)}, token...), 400, ""},
		// The role is the token's, whoever it is.
		{[]string{"X-Forwarded-User", "alice", "Authorization", "Bearer bob's own"}, 403, ""},
	} {
		if a := behind.do("POST", pause, "", test.headers...); a.status != test.status || test.by != "" && !by(behind, test.by) {
			t.Errorf("%q: %d %s, log %s", test.headers, a.status, a.text, behind.log)
		}
	}
	open := start(t, func(c *server.Config) { c.UserHeader = "X-Forwarded-User" })
	if a := open.do("POST", pause, "", "X-Forwarded-User", "dora"); a.status != 200 || !by(open, "loopback") {
		t.Errorf("without a token: %d, log %s", a.status, open.log)
	}
}

// Whoever asks for an operation is known by the right that let the request in: a name in its body
// would be for anyone to choose.
func TestNobodySaysInWhoseNameAnOperationIsAskedFor(t *testing.T) {
	t.Parallel()
	w, pile := operating(t, func(c *server.Config) { c.Tokens = single("swordfish") })
	defer close(pile.hold)
	const of = `"action":"replay","stream":"orders","select":{"all":true}`
	login := []string{"Authorization", "Bearer swordfish"}
	if a := w.do("POST", "/v1/dead_set/operations", `{`+of+`,"by":"mallory"}`, login...); a.status != http.StatusBadRequest || !strings.Contains(a.text, "by") {
		t.Errorf("with a name: %d %s", a.status, a.text)
	}
	if a := w.do("POST", "/v1/dead_set/operations", `{`+of+`}`, login...); a.status != http.StatusAccepted || a.json["by"] != "token" {
		t.Errorf("without one: %d %s", a.status, a.text)
	}
	if log := w.log.String(); strings.Contains(log, "swordfish") || !strings.Contains(log, "by=token") {
		t.Errorf("log: %s", log)
	}
}

func TestAChangeThatFailsIsNoChangeInTheAudit(t *testing.T) {
	w, _ := operating(t, mayEdit)
	w.orders.fail(func(context.Context) (server.Result, error) { return server.Result{}, errors.New("broken") })
	for _, test := range []struct{ method, path, body, says string }{
		{"POST", "/v1/streams/orders/pause?scope=app", "", `"audit: stream pause failed"`},
		{"POST", "/v1/streams/orders/resume?scope=app", "", `"audit: stream resume failed"`},
		{"PATCH", "/v1/dead_set/operations/op_none", `{"state":"paused"}`, `"audit: operation change failed"`},
		{"POST", editing, `{"stream":"orders","value":"x"}`, `"audit: message edit failed"`},
	} {
		if a := w.do(test.method, test.path, test.body); a.status < 400 || !strings.Contains(w.log.String(), test.says) {
			t.Errorf("%s: %d %s, %s", test.path, a.status, a.text, w.log)
		}
	}
	for line := range strings.Lines(w.log.String()) {
		if strings.Contains(line, "audit: ") && (!strings.Contains(line, " failed\" by=") || !strings.Contains(line, "error=")) {
			t.Errorf("it reads as if it was done: %s", line)
		}
	}
}
