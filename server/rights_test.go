package server_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/server"
)

// right is who may use a route on a server that has a token.
type right int

const (
	everybody right = iota // probes, metrics and the description: no data of messages is in them
	withToken              // 401 without it
	ofConsole              // a session of the console; the token as a header is none
)

// rights has every route of the server, as server.Routes names them: one that is missing here was
// added without a thought of who may use it. Which pages of the console want a session is told by
// the tests of that package.
func rights() map[string]right {
	return map[string]right{
		"GET /ping":                         everybody,
		"GET /livez":                        everybody,
		"GET /readyz":                       everybody,
		"GET /metrics":                      everybody,
		"GET /openapi.json":                 everybody,
		"GET /v1/dead_set":                  withToken,
		"GET /v1/dead_set/groups":           withToken,
		"GET /v1/dead_set/export":           withToken,
		"GET /v1/dead_set/messages/:id":     withToken,
		"POST /v1/dead_set/replay":          withToken,
		"DELETE /v1/dead_set":               withToken,
		"POST /v1/dead_set/operations":      withToken,
		"GET /v1/dead_set/operations":       withToken,
		"GET /v1/dead_set/operations/:id":   withToken,
		"PATCH /v1/dead_set/operations/:id": withToken,
		"GET /v1/streams":                   withToken,
		"POST /v1/streams/:id/pause":        withToken,
		"POST /v1/streams/:id/resume":       withToken,
		"GET /console":                      ofConsole,
		"GET /console/*":                    ofConsole,
		"POST /console":                     ofConsole,
		"POST /console/*":                   ofConsole,
	}
}

func TestEveryRouteIsForThoseWhoMayUseItAndForNobodyElse(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *server.Config) {
		c.Console, c.Token, c.Metrics = true, "swordfish", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	})
	rights := rights()
	for _, route := range w.server.Routes() {
		if _, known := rights[route]; !known {
			t.Errorf("%s: nothing says who may use it", route)
		}
	}
	callers := map[string]struct {
		header string
		token  bool // it is the right one
	}{
		"nobody":        {header: ""},
		"a wrong token": {header: "Bearer swordfisH"},
		"the token":     {header: "Bearer swordfish", token: true},
	}
	for route, right := range rights {
		if !slices.Contains(w.server.Routes(), route) {
			t.Errorf("%s: there is no such route", route)
			continue
		}
		method, path, _ := strings.Cut(route, " ")
		path = strings.NewReplacer(":id", "orders", "*", "operations").Replace(path)
		for name, caller := range callers {
			headers := []string{"Origin", "http://" + w.server.Addr()}
			if caller.header != "" {
				headers = append(headers, "Authorization", caller.header)
			}
			a := w.do(method, path, "", headers...)
			refused := a.status == http.StatusUnauthorized || strings.Contains(a.text, `action="/console/login"`)
			if want := right == ofConsole || right == withToken && !caller.token; refused != want {
				t.Errorf("%s by %s: refused is %v, want %v: %d %s", route, name, refused, want, a.status, a.text)
			}
		}
	}
	if acts := w.orders.acts(); len(acts) != 0 {
		t.Errorf("a request without a count acted: %v", acts)
	}
}

// Whoever asks for an operation is known by the right that let the request in: a name in its body
// would be for anyone to choose.
func TestNobodySaysInWhoseNameAnOperationIsAskedFor(t *testing.T) {
	t.Parallel()
	w, pile := operating(t, func(c *server.Config) { c.Token = "swordfish" })
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
