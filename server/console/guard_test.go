package console_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// routes are all of the console, with what a request to each needs to be one that works.
func routes() []struct {
	method, path string
	form         url.Values
	open         bool // also for those who are not logged in
} {
	return []struct {
		method, path string
		form         url.Values
		open         bool
	}{
		{method: "GET", path: "/console"},
		{method: "GET", path: "/console/"},
		{method: "GET", path: "/console/groups?stream=orders"},
		{method: "GET", path: "/console/messages?stream=orders"},
		{method: "GET", path: "/console/trash?stream=orders"},
		{method: "GET", path: "/console/message?stream=orders&id=orders.v1:0:0"},
		{method: "GET", path: "/console/edit?stream=orders&id=orders.v1:0:0"},
		{method: "GET", path: "/console/edit?stream=orders&id=orders.v1:0:0&value=x&do=edit"},
		{method: "GET", path: "/console/save?stream=orders&id=orders.v1:0:0&part=value"},
		{method: "GET", path: "/console/export?stream=orders"},
		{method: "GET", path: "/console/operations"},
		{method: "GET", path: "/console/operation?id=op_1"},
		{method: "GET", path: "/console/confirm?stream=orders&all=true&action=delete"},
		{method: "GET", path: "/console/confirm?stream=orders&all=true&action=replay&before=2100-01-01T00:00:00Z&expect=1&once=x&typed=1"},
		{method: "GET", path: "/console/confirm?stream=orders&action=sort"},
		{method: "GET", path: "/console/hold?stream=orders"},
		{method: "HEAD", path: "/console/events"},
		{method: "GET", path: "/console/login", open: true},
		{method: "GET", path: "/console/console.css", open: true},
		{method: "GET", path: "/console/console.js", open: true},
		{method: "GET", path: "/console/icon.svg", open: true},
		{method: "POST", path: "/console/streams", form: url.Values{"stream": {"orders"}, "do": {"pause"}}},
		{method: "POST", path: "/console/operations", form: url.Values{"stream": {"orders"}, "all": {"true"}, "action": {"delete"}, "before": {"2100-01-01T00:00:00Z"}, "expect": {"1"}, "typed": {"1"}, "once": {"x"}}},
		{method: "POST", path: "/console/edit", form: url.Values{"stream": {"orders"}, "id": {"orders.v1:0:0"}, "value": {"x"}, "do": {"edit"}}},
		{method: "POST", path: "/console/operation", form: url.Values{"id": {"op_1"}, "state": {"cancelled"}}},
		{method: "POST", path: "/console/login", form: url.Values{"token": {single}}, open: true},
		{method: "POST", path: "/console/logout", form: url.Values{}},
	}
}

// state is all that a request could have changed.
func (w *world) state(headers ...string) string {
	// What a look holds does not count for that moment.
	eventually(w.t, "one is dead", func() bool { return w.dead() == 1 })
	return fmt.Sprint(w.get("/v1/dead_set/operations", headers...).text, strings.Contains(w.get("/v1/streams", headers...).text, `"paused":true`))
}

// Links are followed by anything: other pages, previews of chats, browsers that guess what is next.
func TestWhatIsGotChangesNothing(t *testing.T) {
	t.Parallel()
	w := start(t, "DEAD_SET_EDIT=true")
	w.die(1, records(1, "no")...)
	before := w.state()
	for _, r := range routes() {
		path := r.path
		if r.method == "HEAD" { // a GET of it does not end
			if a := w.try("HEAD", path, nil); a.status != http.StatusOK {
				t.Errorf("HEAD %s: %d", path, a.status)
			}
			continue
		}
		if r.method == "POST" {
			path += "?" + r.form.Encode() // as a link would
		}
		for _, method := range []string{"GET", "HEAD"} {
			if a := w.try(method, path, nil); a.status == 0 || a.status == http.StatusInternalServerError {
				t.Errorf("%s %s: %d", method, path, a.status)
			}
		}
		for _, method := range []string{"PUT", "PATCH", "DELETE", "OPTIONS"} {
			if a := w.try(method, path, nil, "Origin", w.base); a.status < 400 && a.status != http.StatusNoContent {
				t.Errorf("%s %s: %d", method, path, a.status)
			}
		}
	}
	if after := w.state(); after != before {
		t.Errorf("%s became %s", before, after)
	}
}

// Files that are saved have a stricter policy of their own.
func TestEveryAnswerForbidsFramesScriptsOfOthersAndCopies(t *testing.T) {
	t.Parallel()
	w := start(t, "DEAD_SET_EDIT=true")
	w.die(1, records(1, "no")...)
	for _, r := range append(routes(), struct {
		method, path string
		form         url.Values
		open         bool
	}{method: "GET", path: "/console/nothing"}) {
		h := w.try(r.method, r.path, r.form, "Origin", "https://evil.test").header
		if r.method == "GET" {
			h = w.try(r.method, r.path, nil).header
		}
		policy := h.Get("Content-Security-Policy")
		if saved := "sandbox; default-src 'none'"; policy != saved && policy != "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'" {
			t.Errorf("%s: policy %q", r.path, policy)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "same-origin" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", r.path, h)
		}
	}
}

// A browser always says where a form comes from. What says nothing is no browser, and has /v1.
func TestAPostNeedsAnOriginThatIsTheConsolesOwn(t *testing.T) {
	t.Parallel()
	w := start(t, "DEAD_SET_EDIT=true")
	w.die(1, records(1, "no")...)
	before := w.state()
	for _, headers := range [][]string{
		{}, {"Origin", "https://evil.test"}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site", "Origin", w.base},
		{"Origin", w.base, "Host", "evil.test"}, {"Origin", "http://evil.test", "Host", "evil.test"},
	} {
		for _, r := range routes() {
			if r.method != "POST" {
				continue
			}
			if a := w.try("POST", r.path, r.form, headers...); a.status != http.StatusForbidden {
				t.Errorf("%s with %v: %d", r.path, headers, a.status)
			}
		}
	}
	if a := w.try("GET", "/console/", nil, "Host", "evil.test"); a.status != http.StatusForbidden || strings.Contains(a.text, "orders") {
		t.Errorf("a page under a foreign name: %d", a.status)
	}
	if after := w.state(); after != before {
		t.Errorf("%s became %s", before, after)
	}
}

// Roles so far: who has the token, and who has not.
func TestWithoutASessionNothingIsShownOrDone(t *testing.T) {
	t.Parallel()
	w := start(t, "SERVER_TOKEN="+single, "SERVER_ADDRESS=0.0.0.0:0", "DEAD_SET_EDIT=true")
	w.die(1, records(1, "no-one-may-see-it")...)
	bearer := []string{"Authorization", "Bearer " + single}
	before := w.state(bearer...)
	for _, cookie := range []string{"", "stepwell_shipping=", "stepwell_shipping=" + single, "stepwell_shipping=99999999999.00", "stepwell_shipping=true"} {
		for _, r := range routes() {
			a := w.try(r.method, r.path, r.form, "Origin", w.base, "Cookie", cookie)
			switch {
			case strings.Contains(a.text, "no-one-may-see-it"), strings.Contains(a.text, "orders.v1:0:0\""):
				t.Errorf("%s %s with %q shows what is inside", r.method, r.path, cookie)
			case r.open:
			case r.method == "GET" && (a.status != http.StatusSeeOther || !strings.HasPrefix(a.header.Get("Location"), "/console/login?next=")):
				t.Errorf("GET %s with %q: %d %v", r.path, cookie, a.status, a.header)
			case r.method == "POST" && a.status != http.StatusUnauthorized:
				t.Errorf("POST %s with %q: %d", r.path, cookie, a.status)
			}
		}
		if a := w.try("GET", "/console/events", nil, "Cookie", cookie); a.status != http.StatusUnauthorized {
			t.Errorf("events with %q: %d", cookie, a.status)
		}
	}
	if after := w.state(bearer...); after != before {
		t.Errorf("%s became %s", before, after)
	}
}

// The cookie must not open /v1, nor the token in a header the console: each has one way in.
func TestALoginIsGoodForTheConsoleAndNotForTheAPI(t *testing.T) {
	t.Parallel()
	w := start(t, "SERVER_TOKEN="+single)
	w.die(1, records(1, "no")...)
	a := w.try("POST", "/console/login", url.Values{"token": {"wrong"}, "next": {"/console/"}}, "Origin", w.base)
	if a.status != http.StatusUnauthorized || a.header.Get("Set-Cookie") != "" {
		t.Errorf("a wrong token: %d %v", a.status, a.header)
	}
	a = w.try("POST", "/console/login", url.Values{"token": {single}, "next": {"/console/groups?stream=orders"}}, "Origin", w.base)
	cookie := a.header.Get("Set-Cookie")
	if a.status != http.StatusSeeOther || a.header.Get("Location") != "/console/groups?stream=orders" {
		t.Fatalf("login: %d %v", a.status, a.header)
	}
	for _, has := range []string{"stepwell_shipping=", "Path=/console", "HttpOnly", "SameSite=Strict", "Max-Age=43200"} {
		if !strings.Contains(cookie, has) {
			t.Errorf("the cookie has no %s: %s", has, cookie)
		}
	}
	if strings.Contains(cookie, single) {
		t.Errorf("the cookie has the token: %s", cookie)
	}
	session, _, _ := strings.Cut(cookie, ";")
	if page := w.get("/console/groups?stream=orders", "Cookie", session); !strings.Contains(page.text, "1 dead, by cause") || !strings.Contains(page.text, "Log out") {
		t.Errorf("logged in: %s", page.text)
	}
	value := strings.TrimPrefix(session, "stepwell_shipping=")
	for _, headers := range [][]string{{"Cookie", session}, {"Authorization", "Bearer " + value}, {"Authorization", value}} {
		if a := w.try("GET", "/v1/streams", nil, headers...); a.status != http.StatusUnauthorized {
			t.Errorf("/v1 with %v: %d", headers, a.status)
		}
	}
	if a := w.try("GET", "/console/", nil, "Authorization", "Bearer "+single); a.status != http.StatusSeeOther {
		t.Errorf("the token itself opens the console: %d", a.status)
	}
	if to := w.post("/console/streams", url.Values{"stream": {"orders"}, "do": {"pause"}}, "Cookie", session); to != "/console/" {
		t.Errorf("a pause leads to %s", to)
	}
	a = w.try("POST", "/console/logout", url.Values{}, "Origin", w.base, "Cookie", session)
	if gone := a.header.Get("Set-Cookie"); !strings.Contains(gone, "Max-Age=0") || !strings.Contains(gone, "Path=/console") {
		t.Errorf("logged out: %s", gone)
	}
}

// As /v1 is, and it says by which setting it opens.
func TestBeyondLoopbackAndWithoutATokenTheConsoleIsClosed(t *testing.T) {
	t.Parallel()
	w := start(t, "SERVER_ADDRESS=0.0.0.0:0")
	for _, r := range routes() {
		if a := w.try(r.method, r.path, r.form, "Origin", w.base); a.status != http.StatusForbidden || r.method != "HEAD" && !strings.Contains(a.text, "SERVER_TOKEN") {
			t.Errorf("%s %s: %d", r.method, r.path, a.status)
		}
	}
}

func TestAProcessThatDoesNotServeTheAPIHasNoConsole(t *testing.T) {
	t.Parallel()
	w := start(t, "MODES=streams,retries,channels")
	if a := w.try("GET", "/console/", nil); a.status != http.StatusNotFound || !strings.Contains(a.text, "MODES") {
		t.Errorf("%d %s", a.status, a.text)
	}
}

// listen opens /console/events, and returns what it tells, line by line.
func (w *world) listen(ctx context.Context) (*http.Response, *bufio.Scanner) {
	w.t.Helper()
	return w.listenTo(ctx, "/console/events")
}

func (w *world) listenTo(ctx context.Context, path string) (*http.Response, *bufio.Scanner) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.base+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return resp, lines
}

// The names are those in the data-live attributes of the pages.
func TestNumbersAreToldWhileAPageIsOpen(t *testing.T) {
	t.Parallel()
	w := start(t)
	resp, lines := w.listen(t.Context())
	if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("events are %s", kind)
	}
	told := func(text string) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); lines.Scan() && time.Now().Before(end); {
			if strings.Contains(lines.Text(), text) {
				return
			}
		}
		t.Fatalf("was never told %s: %v", text, lines.Err())
	}
	told(`"stream orders  dead":"0"`)
	w.die(3, records(3, "no")...)
	told(`"stream orders  dead":"3"`)
	w.visit("/console/").press("Pause", nil)
	told(`"stream orders  state":"paused"`)
	p := w.visit("/console/confirm?stream=orders&all=true&action=delete")
	p.press("Delete 3", map[string]string{"typed": "3"})
	told(`progress":"3 of 3"`)
}

// A page that stays open for days must not hold up a deploy: a request that does not end has two
// seconds, which the stop would wait for.
func TestNotMoreThanThirtyTwoPagesAreKeptUpToDateAndAStopWaitsForNone(t *testing.T) {
	t.Parallel()
	w := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	for i := range 32 {
		if resp, lines := w.listen(ctx); resp.StatusCode != http.StatusOK || !lines.Scan() {
			t.Fatalf("listener %d: %d", i, resp.StatusCode)
		}
	}
	resp, _ := w.listen(ctx)
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
		t.Errorf("one more: %d", resp.StatusCode)
	}
	cancel()
	eventually(t, "those who left make room", func() bool {
		one, end := context.WithCancel(t.Context())
		defer end()
		resp, _ := w.listen(one)
		return resp.StatusCode == http.StatusOK
	})
	_, lines := w.listen(t.Context())
	began := time.Now()
	w.stop()
	for lines.Scan() {
		continue
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("the stop took %v with a page open", took)
	}
}

func TestThePageOfAnOperationIsToldItsNumbersHoweverManyWereAskedForSince(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(3, records(3, "no")...)
	ask := func() string {
		t.Helper()
		a := w.send("POST", "/v1/dead_set/operations", "application/json", `{"action":"replay","stream":"orders","select":{"all":true},"rate":"1/m"}`)
		_, id, _ := strings.Cut(a.text, `"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		if a.status != http.StatusAccepted {
			t.Fatalf("%d %s", a.status, a.text)
		}
		return id
	}
	id := ask()
	eventually(t, "it runs", func() bool {
		return strings.Contains(w.send("GET", "/v1/dead_set/operations/"+id, "", "").text, `"state":"running"`)
	})
	for range 50 {
		ask()
	}
	p := w.get("/console/operation?id=" + id).text
	_, from, _ := strings.Cut(p, `data-events="`)
	from, _, _ = strings.Cut(from, `"`)
	_, lines := w.listenTo(t.Context(), html.UnescapeString(from))
	own := "operation " + id + " "
	for range 4 { // an event for all, and one of its own, with a line between them
		if !lines.Scan() || !strings.Contains(lines.Text(), own) {
			continue
		}
		var told map[string]string
		if err := json.Unmarshal([]byte(strings.TrimPrefix(lines.Text(), "data: ")), &told); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"state": "running", "causes": "3 of ", "began": "20", "ended": "not yet"} {
			if !strings.HasPrefix(told[own+name], want) {
				t.Errorf("%s is told as %q, want %q", name, told[own+name], want)
			}
		}
		for name := range told {
			if !strings.Contains(p, `data-live="`+name+`"`) && name != own+"causes" { // which it has as a list
				t.Errorf("the page has no place for %q", name)
			}
		}
		return
	}
	t.Errorf("of the operation that runs nothing is told at %s", from)
}

// An operation on more causes than are told apart has among its largest what stands for the rest.
func TestTheRestOfManyCausesIsNoLinkToAllMessages(t *testing.T) {
	t.Parallel()
	w := start(t)
	const causes = 1001 // two have no room
	var all []*kgo.Record
	for i := range causes {
		all = append(all, records(1, fmt.Sprintf("out of %c%c%c", 'a'+i/676, 'a'+i/26%26, 'a'+i%26))...)
	}
	w.die(causes, all...)
	a := w.send("POST", "/v1/dead_set/operations", "application/json", `{"action":"replay","stream":"orders","select":{"all":true},"rate":"1/m"}`)
	_, id, _ := strings.Cut(a.text, `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	var causesOf string
	eventually(t, "what they died of is known", func() (known bool) {
		_, causesOf, known = strings.Cut(w.get("/console/operation?id="+id).text, `aria-label="What they died of"`)
		return known
	})
	causesOf, _, _ = strings.Cut(causesOf, "</ul>")
	if !strings.Contains(causesOf, "2 of all other causes") || strings.Count(causesOf, "<a ") != 2 || strings.Count(causesOf, "group=") != 2 {
		t.Errorf("%d: %s", a.status, causesOf)
	}
}
