package console

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

// hostile are texts that try to become something else than text.
var hostile = []string{
	`"><script>alert(1)</script><img src=x onerror=alert(1)>`,
	`' onmouseover='alert(1)' x='`,
	"javascript:alert(1)//",
	"</pre></textarea></title></style><svg/onload=alert(1)>",
	"{{.}}<!--<script>",
	"//evil.test/\\evil.test",
	"\u202e\x00\u2028</script>",
}

// answers has /v1 say a text wherever it says one.
func answers(text string) http.Handler {
	m := map[string]any{
		"id": text, "topic": text, "queue": text, "exchange": text, "routing_key": text, "key": text, "key_encoding": text, "encoding": text, "reason": text,
		"error": text, "error_type": text, "stack": text, "trace_id": text, "group": text, "operation": text, "copies": 2,
		"headers": []any{map[string]any{"key": text, "value": text, "encoding": text, "truncated": true}}, "trace_url": "javascript:" + text, "tries": []any{map[string]any{"attempt": 1, "error": text, "error_type": text, "instance": text, "app_version": text, "trace_url": "javascript:" + text}},
	}
	group := map[string]any{"group": text, "count": 3, "reason": text, "error": text, "error_type": text, "example_id": text, "minutes": make([]int, 60)}
	operation := map[string]any{
		"id": text, "action": text, "stream": text, "channel": text, "select": map[string]any{"filter": map[string]string{text: text}}, "note": text, "by": text, "state": text, "why": text,
		"rate": text, "runner": text, "left_out": map[string]any{"undated": 1},
	}
	whole := map[string]any{
		"modes": []any{text}, "streams": []any{map[string]any{"id": text, "error": text, "suspect": text, "pauses": []any{map[string]any{"scope": text, "by": text}}, "channels": []any{map[string]any{"id": text, "error": text}}}},
		"other_pauses": []any{map[string]any{"stream": text, "scope": "app", "by": text}}, "groups": []any{group}, "messages": []any{m}, "samples": []any{m}, "operations": []any{operation}, "matched": 3, "depth": 3, "next": text,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var said any = whole
		switch {
		case r.URL.Query().Get("part") != "":
			_, _ = w.Write([]byte(text))
			return
		case strings.HasPrefix(r.URL.Path, "/v1/dead_set/messages/"):
			said = m
		case strings.HasPrefix(r.URL.Path, "/v1/dead_set/operations/"):
			said = operation
		}
		_ = json.NewEncoder(w).Encode(said)
	})
}

// Keys, headers, errors, notes, and names come from anybody who can write to a topic. A page has no
// element and no attribute that its template has not.
func TestNoTextOfAMessageBecomesAnythingElse(t *testing.T) {
	for _, text := range hostile {
		entered := func(r *http.Request, _ User) (*http.Request, error) { return r, nil }
		c, err := New(Config{API: answers(text), App: text, Users: []User{{Name: text, Token: text, Acts: true}}, Enter: entered, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		session := &http.Cookie{Name: c.door.cookieName(), Value: c.door.ticket(text, time.Now().Add(time.Hour))}
		of := url.Values{"stream": {text}, "channel": {text}}
		with := func(names ...string) string {
			q := url.Values{"stream": of["stream"], "channel": of["channel"]}
			for _, name := range names {
				q.Set(name, text)
			}
			return "?" + q.Encode()
		}
		for _, path := range []string{
			"/console/", "/console/groups" + with("error", "header."+text), "/console/messages" + with("error", "cursor", "value."+text),
			"/console/trash" + with("error", "cursor"), "/console/trash" + with("operation"), "/console/message" + with("id", "view"), "/console/message" + with("id") + "&view=hex", "/console/message" + with("id") + "&view=raw",
			"/console/operations" + with(), "/console/operation" + with("id"), "/console/confirm" + with("pick", "action"), "/console/confirm" + with("key", "topic") + "&action=delete",
			"/console/edit" + with("id"),
			"/console/login?next=" + url.QueryEscape(text), "/console/confirm" + with("action"), "/console/confirm" + with() + "&action=sort", "/console/hold" + with(),
		} {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.AddCookie(session)
			if c.ServeHTTP(w, r); w.Code != http.StatusOK && w.Code != http.StatusBadRequest {
				t.Fatalf("%s: %d %s", path, w.Code, w.Body)
			}
			if strings.Contains(w.Body.String(), "Log in") != strings.Contains(path, "/login") {
				t.Errorf("%s: %s", path, w.Body)
			}
			page, err := html.Parse(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			for n := range page.Descendants() {
				harmless(t, path, n)
			}
		}
	}
}

// leadsNowhere is what html/template makes of the URL of a script, as that of a trace might be
// which no actor of ours has told.
const leadsNowhere = "#ZgotmplZ"

// harmless complains of an element that no template has.
func harmless(t *testing.T, path string, n *html.Node) {
	t.Helper()
	if n.Type == html.CommentNode {
		t.Errorf("%s: a comment %q", path, n.Data)
	}
	if n.Type != html.ElementNode {
		return
	}
	switch n.Data {
	case "img", "svg", "iframe", "object", "style", "base":
		t.Errorf("%s has a %s", path, n.Data)
	}
	for _, a := range n.Attr {
		switch {
		case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "x":
			t.Errorf("%s: %s has %s=%q", path, n.Data, a.Key, a.Val)
		case n.Data == "script" && a.Key == "src" && a.Val != "/console/console.js":
			t.Errorf("%s loads %s", path, a.Val)
		case (a.Key == "href" || a.Key == "action") && a.Val != "#main" && a.Val != leadsNowhere && !strings.HasPrefix(a.Val, "/console/"):
			t.Errorf("%s leads to %s", path, a.Val)
		}
	}
	if n.Data == "script" && n.FirstChild != nil {
		t.Errorf("%s has a script of its own", path)
	}
}
