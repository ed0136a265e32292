package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// The tokens of an operator and of a viewer, and the setting that has both.
const (
	alices = "alice-has-a-token-of-her-own"
	bobs   = "bob-has-a-token-of-his-own"
	single = "the-token-that-stands-alone"
	staff  = "SERVER_TOKENS=alice:operator:" + alices + ",bob:viewer:" + bobs
)

// login returns the cookie of a session that begins with the token.
func (w *world) login(token string) string {
	w.t.Helper()
	a := w.try("POST", "/console/login", url.Values{"token": {token}}, "Origin", w.base)
	session, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	if a.status != http.StatusSeeOther || session == "" {
		w.t.Fatalf("login: %d %s", a.status, a.text)
	}
	return session
}

// acts are the ways of a page to change something: what it would post, and links that ask first.
func acts(t *testing.T, text string) (all []string) {
	t.Helper()
	page, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for n := range page.Descendants() {
		switch to := attr(n, "action") + attr(n, "href"); {
		case n.Data == "form" && strings.EqualFold(attr(n, "method"), "post") && to != "/console/logout":
			all = append(all, to)
		case (strings.HasPrefix(to, "/console/confirm") || strings.HasPrefix(to, "/console/hold") || strings.HasPrefix(to, "/console/edit")) && (n.Data == "a" || textOf(n) != ""):
			all = append(all, to)
		case n.Data == "input" && attr(n, "type") == "checkbox" && attr(n, "name") == "pick":
			all = append(all, "tick")
		}
	}
	return all
}

// A page that has no button is a courtesy; what counts is that a form which somebody else wrote
// for the viewer is refused.
func TestAViewerSeesAllAndHasNoButtonThatChangesAnythingAndAForgedFormIsRefused(t *testing.T) {
	t.Parallel()
	w := start(t, staff, "DEAD_SET_EDIT=true")
	w.die(1, records(1, "no")...)
	alice, bob := w.login(alices), w.login(bobs)
	id := operationIn(w.post("/console/operations", url.Values{"stream": {"orders"}, "error": {"none has it"}, "action": {"replay"}, "before": {"2100-01-01T00:00:00Z"}, "expect": {"1"}, "once": {"o"}}, "Cookie", alice))
	bearer := []string{"Authorization", "Bearer " + bobs}
	eventually(t, "it is over", func() bool {
		return strings.Contains(w.get("/v1/dead_set/operations/"+id, bearer...).text, `"state":"done"`)
	})
	before, buttons := w.state(bearer...), 0
	for _, r := range routes() {
		path := strings.Replace(r.path, "op_1", id, 1)
		switch {
		case r.method == "POST" && !r.open && r.path != "/console/logout":
			for _, headers := range [][]string{nil, {"Authorization", "Bearer " + alices}, {"X-Forwarded-User", "alice"}} {
				a := w.try("POST", path, r.form, append([]string{"Origin", w.base, "Cookie", bob}, headers...)...)
				if a.status != http.StatusForbidden || !strings.Contains(a.text, "what changes something needs the role operator, and bob has the role viewer") {
					t.Errorf("POST %s: %d %s", path, a.status, a.text)
				}
			}
		case strings.HasPrefix(path, "/console/confirm"), strings.HasPrefix(path, "/console/edit"):
			if a := w.try("GET", path, nil, "Cookie", bob); a.status != http.StatusForbidden || !strings.Contains(a.text, "operator") {
				t.Errorf("%s: %d %s", path, a.status, a.text)
			}
		case r.method == "GET" && !r.open && path != "/console":
			his, hers := w.get(path, "Cookie", bob), w.get(path, "Cookie", alice)
			if of := acts(t, his.text); len(of) > 0 {
				t.Errorf("%s lets a viewer do %q", path, of)
			}
			if strings.Contains(his.text, "Pause all") {
				t.Errorf("%s tells a viewer of what they may not do", path)
			}
			buttons += len(acts(t, hers.text))
			if page := strings.Contains(his.text, "<html"); page && (!strings.Contains(his.text, "<bdi>bob</bdi>, viewer") || !strings.Contains(hers.text, "<bdi>alice</bdi></span>")) {
				t.Errorf("%s does not say who looks: %s", path, his.text)
			}
		}
	}
	if buttons < 8 {
		t.Errorf("an operator has only %d ways to act", buttons)
	}
	if after := w.state(bearer...); after != before {
		t.Errorf("%s became %s", before, after)
	}
}

// operationIn is the id in the URL of an operation's page.
func operationIn(to string) string { return strings.TrimPrefix(to, "/console/operation?id=") }

func TestWhatIsDoneInTheConsoleIsDoneInTheNameOfWhoLoggedIn(t *testing.T) {
	t.Parallel()
	w := start(t, staff, "SERVER_TOKEN="+single, "SERVER_USER_HEADER=X-Forwarded-User")
	w.die(1, records(1, "no")...)
	for _, test := range []struct {
		token, user, by string
	}{
		{alices, "", "alice"}, {single, "", "token"}, {alices, `<b>"dora"`, `<b>"dora" via alice`},
	} {
		headers := []string{"Cookie", w.login(test.token)}
		if test.user != "" {
			headers = append(headers, "X-Forwarded-User", test.user)
		}
		form := url.Values{"stream": {"orders"}, "error": {"none has it"}, "action": {"replay"}, "before": {"2100-01-01T00:00:00Z"}, "expect": {"1"}, "once": {test.by}}
		to := w.post("/console/operations", form, headers...)
		p := plain{world: w, page: parsed(t, w.get(to, headers...).text)}
		if p.text = textOf(p.page); !strings.Contains(p.text, " by "+test.by+" ") {
			t.Errorf("asked for by %s: %s", test.by, p.text)
		}
		if a := w.get("/v1/dead_set/operations?by="+url.QueryEscape(test.by), "Authorization", "Bearer "+bobs); !strings.Contains(a.text, operationIn(to)) {
			t.Errorf("by %s: %s", test.by, a.text)
		}
	}
	if a := w.try("GET", "/console/", nil, "Cookie", w.login(alices), "X-Forwarded-User", ""); a.status != http.StatusBadRequest {
		t.Errorf("a proxy that let nobody in: %d", a.status)
	}
}

func parsed(t *testing.T, text string) *html.Node {
	t.Helper()
	page, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return page
}
