package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/server"
)

func TestWhatIsNotOursGoesToTheUsersHandler(t *testing.T) {
	w := start(t, func(c *server.Config) {
		c.User = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-User", r.URL.Path)
			_, _ = io.Copy(w, r.Body)
		})
	})
	for _, path := range []string{"/", "/orders/7", "/v1/orders", "/v1/streams/orders", "/v1/streams/orders/pause/x", "/ping/", "/v1", "/metrics2", "/v1/dead_set/replay/x"} {
		if a := w.do("POST", path, "hello"); a.status != 200 || a.text != "hello" || a.header.Get("X-User") != path {
			t.Errorf("%s: %d %s", path, a.status, a.text)
		}
	}
	if a := w.do("GET", "/ping", ""); a.text != "pong\n" {
		t.Errorf("/ping: %s", a.text)
	}
}

func TestUsersMayKeepTheConnectionAndFlush(t *testing.T) {
	w := start(t, func(c *server.Config) {
		c.User = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			conn.Close()
		})
	})
	conn := w.dial("GET /socket HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if text, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 200") {
		t.Errorf("%q %v", text, err)
	}
}

func TestWithoutAUsersHandlerTheRestIs404(t *testing.T) {
	w := start(t, nil)
	for _, path := range []string{"/", "/v1/orders", "/a%2fb", "/%0aINFO", "/v1/streams/"} {
		if a := w.do("GET", path, ""); a.status != 404 || a.header.Get("Content-Type") != "application/problem+json" || a.json["title"] != "Not Found" || a.json["status"] != 404.0 {
			t.Errorf("%s: %d %s", path, a.status, a.text)
		}
	}
}

func TestAMethodThatARouteDoesNotHaveIs405AndSaysWhichItHas(t *testing.T) {
	w := start(t, func(c *server.Config) { c.User = http.NotFoundHandler() })
	tests := map[string]string{"PUT /v1/dead_set": "DELETE", "GET /v1/dead_set/replay": "POST", "POST /ping": "GET", "GET /v1/streams/orders/pause": "POST"}
	for request, allowed := range tests {
		method, path, _ := strings.Cut(request, " ")
		if a := w.do(method, path, ""); a.status != 405 || !strings.Contains(a.header.Get("Allow"), allowed) || a.json["error"] == nil {
			t.Errorf("%s: %d %v %s", request, a.status, a.header, a.text)
		}
	}
}

func TestWhatAnswersGETAnswersHEADWithoutABody(t *testing.T) {
	w := start(t, nil)
	for _, path := range []string{"/ping", "/livez", "/readyz", "/openapi.json", "/v1/streams", "/v1/dead_set?count=1&stream=orders"} {
		if a := w.do("HEAD", path, ""); a.status != 200 || a.text != "" || a.header.Get("Content-Length") == "" {
			t.Errorf("%s: %d %v", path, a.status, a.header)
		}
	}
	if a := w.do("HEAD", "/v1/dead_set?count=0&stream=orders", ""); a.status != 400 || a.text != "" {
		t.Errorf("a mistake: %d %s", a.status, a.text)
	}
}

func TestAPanicIs500AndTheServerGoesOn(t *testing.T) {
	w := start(t, func(c *server.Config) {
		c.User = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic([]string{"secret"}) })
	})
	w.orders.fail(func(context.Context) (server.Result, error) { panic("secret") })
	for _, path := range []string{"/", "/v1/dead_set?count=1&stream=orders"} {
		if a := w.do("GET", path, ""); a.status != 500 || a.json["error"] == nil || strings.Contains(a.text, "secret") {
			t.Errorf("%s: %d %s", path, a.status, a.text)
		}
	}
	if !strings.Contains(w.log.String(), "routes_test.go") {
		t.Errorf("the log has no stack: %s", w.log)
	}
	if a := w.do("GET", "/ping", ""); a.status != 200 {
		t.Errorf("/ping: %d", a.status)
	}
}

func TestAStreamIsPausedAndResumedAlsoTwice(t *testing.T) {
	w := start(t, nil)
	for _, verb := range []string{"pause", "pause", "resume", "resume"} {
		a := w.do("POST", "/v1/streams/orders/"+verb, "")
		if a.status != 200 || a.json["paused"] != (verb == "pause") || a.json["scope"] != "instance" || a.json["stream"] != "orders" {
			t.Errorf("%s: %d %s", verb, a.status, a.text)
		}
		list := w.do("GET", "/v1/streams", "").json["streams"].([]any)
		if first := list[0].(map[string]any); len(list) != 2 || first["id"] != "orders" || first["paused"] != (verb == "pause") {
			t.Errorf("after %s: %v", verb, list)
		}
	}
	if a := w.do("POST", "/v1/streams/orders/pause?scope=app", ""); a.status != 409 || !strings.Contains(a.text, "record that all its processes share") {
		t.Errorf("where there are no pauses of the app: %d %s", a.status, a.text)
	}
	if a := w.do("POST", "/v1/streams/ordres/pause", ""); a.status != 404 || !strings.Contains(a.text, "orders, plain") {
		t.Errorf("unknown stream: %d %s", a.status, a.text)
	}
}

func TestAProcessWithTheAPIAloneRefusesAPauseThatWouldHoldNothing(t *testing.T) {
	for modes, want := range map[string]int{"api": 409, "streams api": 200, "channels api": 200} {
		w := start(t, func(c *server.Config) { c.Modes = strings.Fields(modes) })
		for _, verb := range []string{"pause", "resume"} {
			a := w.do("POST", "/v1/streams/orders/"+verb, "")
			if a.status != want || want == 409 && !strings.Contains(a.text, "this process runs nothing of orders") {
				t.Errorf("%s with %s: %d %s", verb, modes, a.status, a.text)
			}
		}
		if paused := strings.Contains(w.log.String(), "audit: stream"); paused != (want == 200) {
			t.Errorf("%s: the log says %s", modes, w.log)
		}
	}
}

func TestReadinessNamesWhatIsMissingAndVerboseWhatIsThere(t *testing.T) {
	checks := []server.Check{{Name: "rabbitmq", Ready: true, Detail: "4.3.6"}, {Name: "stream orders", Ready: true, Stuck: true, Detail: "no progress"}}
	w := start(t, func(c *server.Config) {
		c.Health = func(context.Context) []server.Check { return slices.Clone(checks) }
	})
	for query, want := range map[string]string{
		"": "", "?verbose=false": "", "?verbose=0": "",
		"?verbose": "[+] rabbitmq: 4.3.6\n[!] stream orders: no progress\n", "?verbose=true": "[+] rabbitmq: 4.3.6\n[!] stream orders: no progress\n",
	} {
		if a := w.do("GET", "/readyz"+query, ""); a.status != 200 || a.text != want+"ready\n" {
			t.Errorf("%s: %d %s", query, a.status, a.text)
		}
	}
	checks[0] = server.Check{Name: "rabbitmq", Detail: "connection\nrefused"}
	if a := w.do("GET", "/readyz", ""); a.status != 503 || a.text != "[-] rabbitmq: connection refused\nnot ready\n" {
		t.Errorf("%d %s", a.status, a.text)
	}
	if a := w.do("GET", "/livez", ""); a.status != 200 {
		t.Errorf("/livez: %d", a.status)
	}
}

func TestTheDescriptionHasEveryRouteAndNoOther(t *testing.T) {
	w := start(t, nil)
	var api struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal([]byte(w.do("GET", "/openapi.json", "").text), &api); err != nil {
		t.Fatal(err)
	}
	var described []string
	for path, methods := range api.Paths {
		for method := range methods {
			described = append(described, strings.ToUpper(method)+" "+path)
		}
	}
	var served []string
	for _, r := range w.server.Routes() {
		served = append(served, strings.ReplaceAll(r, ":id", "{id}"))
	}
	slices.Sort(described)
	slices.Sort(served)
	if !slices.Equal(described, served) {
		t.Errorf("described %q\nserved %q", described, served)
	}
}
