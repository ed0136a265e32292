package console_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// What was typed at night is not typed twice.
func TestAConfirmationThatIsRefusedComesBackWithWhatWasTyped(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(2, records(2, "no")...)
	for _, test := range []struct{ name, text, says string }{
		{"rate", "500", "rate must be messages a second or a minute"},
		{"rate", "abc", "rate must be messages a second or a minute"},
		{"canary", "ten", "canary must be a whole number"},
		{"stop_at", "some", "stop_at must be a number of messages"},
	} {
		p := w.visit("/console/confirm?stream=orders&all=true&action=replay&beyond=true")
		form := p.asks()
		form.Set("note", "the bank is back")
		form.Set(test.name, test.text)
		if status := p.ask("POST", "/console/operations", form); status != http.StatusBadRequest {
			t.Errorf("%s %s: %d", test.name, test.text, status)
		}
		p.has(t, "Nothing was done: ", test.says, "Replay up to 2 messages?")
		again := p.asks()
		for _, name := range []string{"note", "rate", "canary", "stop_at", "all", "beyond", "expect"} {
			if again.Get(name) != form.Get(name) {
				t.Errorf("%s was %q, and comes back as %q", name, form.Get(name), again.Get(name))
			}
		}
	}
	w.mended.Store(true)
	p := w.visit("/console/confirm?stream=orders&all=true&action=replay")
	form := p.asks()
	form.Set("rate", "abc")
	p.ask("POST", "/console/operations", form)
	p.press("Replay 2", map[string]string{"rate": "200/s"})
	eventually(t, "both are handled", func() bool { return w.handled.Load() == 2 })
}

func TestAFilterThatCannotBeReadComesBackAsItWasTyped(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, page := range []string{"groups", "messages", "trash"} {
		p := w.visit("/console/" + page + "?stream=orders")
		status := p.ask("GET", "/console/"+page+"?stream=orders&died_from=yesterday&error=503&partition=x", nil)
		p.has(t, `"Died since" must be a time such as`, `"Partition" must be a whole number`, "yesterday")
		typed := url.Values{}
		for n := range p.page.Descendants() {
			if n.Data == "form" && attr(n, "role") == "search" {
				typed = filled(n, nil)
			}
		}
		if status != http.StatusBadRequest || typed.Get("died_from") != "yesterday" || typed.Get("error") != "503" || typed.Get("stream") != "orders" {
			t.Errorf("%s: %d, and the form has %v", page, status, typed)
		}
	}
}

// A form that cannot be sent as it is filled in needs no answer.
func TestABrowserKnowsWhichNumbersAndTimesAFieldTakes(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(1, records(1, "no")...)
	for path, fields := range map[string][]string{
		"/console/groups?stream=orders":                         {"died_from", "died_to", "partition", "offset_from", "offset_to", "attempts_min", "replays_max"},
		"/console/confirm?stream=orders&all=true&action=replay": {"rate", "canary", "stop_at"},
	} {
		bound := map[string]bool{}
		for n := range w.visit(path).page.Descendants() {
			if attr(n, "pattern") != "" && attr(n, "title") != "" || attr(n, "type") == "number" && attr(n, "min") != "" {
				bound[attr(n, "name")] = true
			}
		}
		for _, name := range fields {
			if !bound[name] {
				t.Errorf("%s takes anything as %s", path, name)
			}
		}
	}
}

func TestThePageOfAnErrorLeadsBackToWhereSomebodyWas(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(1, records(1, "no")...)
	id := operationIn(w.post("/console/operations", url.Values{"stream": {"orders"}, "error": {"none has it"}, "action": {"replay"}, "before": {"2100-01-01T00:00:00Z"}, "expect": {"1"}, "once": {"o"}}))
	eventually(t, "it is over", func() bool { return strings.Contains(w.visit("/console/operation?id="+id).text, "done ") })
	list := w.base + "/console/messages?stream=orders&error=no"
	for _, test := range []struct {
		name, method, path string
		form               url.Values
		referer, leads     string
	}{
		{"a rate that is none", "POST", "/console/operation", url.Values{"id": {id}, "rate": {"500"}}, "", "/console/operation?id=" + id},
		{"what ended meanwhile", "POST", "/console/operation", url.Values{"id": {id}, "state": {"paused"}}, w.base + "/console/operation", "/console/operation?id=" + id},
		{"nothing ticked", "GET", "/console/confirm?stream=orders&action=delete", nil, list, "/console/messages?stream=orders&error=no"},
		{"a sort that is refused", "POST", "/console/operations", url.Values{"stream": {"orders"}, "action": {"sort"}}, "", "/console/groups?stream=orders"},
		{"from nowhere", "GET", "/console/confirm?stream=orders&action=delete", nil, "", ""},
		{"from elsewhere", "GET", "/console/confirm?stream=orders&action=delete", nil, "https://evil.test/console/?x", ""},
		{"from a page that was posted", "GET", "/console/confirm?stream=orders&action=delete", nil, w.base + "/console/edit", ""},
		{"from what is no page of the console", "GET", "/console/confirm?stream=orders&action=delete", nil, w.base + "/v1/streams?x", ""},
	} {
		a := w.try(test.method, test.path, test.form, "Origin", w.base, "Referer", test.referer)
		leads := ""
		for n := range parsed(t, a.text).Descendants() {
			if n.Data == "a" && textOf(n) == "Back to where you were" {
				leads = attr(n, "href")
			}
		}
		if a.status < 400 || leads != test.leads {
			t.Errorf("%s: %d, leads to %q", test.name, a.status, leads)
		}
	}
}

// A session ends while somebody types.
func TestAFormThatCameTooLateLeadsToALoginAndWhatWasTypedIsThere(t *testing.T) {
	t.Parallel()
	w := start(t, "SERVER_TOKEN="+single)
	w.die(1, records(1, "no")...)
	form := url.Values{"stream": {"orders"}, "all": {"true"}, "action": {"replay"}, "before": {"2100-01-01T00:00:00Z"}, "expect": {"1"}, "once": {"x"}, "note": {"the bank is back"}, "rate": {"7/m"}}
	p := &plain{world: w}
	if status := p.ask("POST", "/console/operations", form); status != http.StatusUnauthorized {
		t.Fatalf("%d %s", status, p.text)
	}
	p.has(t, "nothing was done", "in a tab of its own")
	login, err := url.Parse(p.linkTo("Log in"))
	if err != nil || login.Path != "/console/login" {
		t.Fatalf("%v %v", login, err)
	}
	a := w.try("POST", "/console/login", url.Values{"token": {single}, "next": {login.Query().Get("next")}}, "Origin", w.base)
	session, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	back := plain{world: w, page: parsed(t, w.get(a.header.Get("Location"), "Cookie", session).text)}
	if asks := back.asks(); asks.Get("note") != "the bank is back" || asks.Get("rate") != "7/m" || asks.Get("all") != "true" {
		t.Errorf("%s has %v", a.header.Get("Location"), asks)
	}
}

func TestWhoHasToLogInIsOfferedNothingElse(t *testing.T) {
	t.Parallel()
	w := start(t, "SERVER_TOKEN="+single)
	p := w.visit("/console/login")
	for n := range p.page.Descendants() {
		if to := attr(n, "href"); n.Data == "a" && to != "#main" && to != "/console/" || attr(n, "id") == "keys" {
			t.Errorf("offered: %s", textOf(n))
		}
	}
}

func TestWhatHasNoPageHasTheFrameOfOne(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := &plain{world: w}
	if status := p.ask("GET", "/console/nosuch", nil); status != http.StatusNotFound {
		t.Errorf("%d", status)
	}
	p.has(t, "Not Found", "the console has no such page", "Operations")
}

// A cause is one click from its messages: what it is, and what can be done to all of them, stand
// before them.
func TestTheMessagesOfACauseSayFirstWhatItIsAndWhatCanBeDoneToAllOfThem(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(3, append(records(1, "refused"), append(records(1, "bank 17: status 503"), records(1, "bank 18: status 503")...)...)...)
	p := w.visit("/console/groups?stream=orders")
	p.has(t, "Replay all 3… Delete all 3…")
	p.follow("dead_letter bank")
	p.has(t, "2 of 3 dead match", "Of one cause: bank <n>: status 503")
	for n := range p.page.Descendants() {
		if _, open := find(n, "open"); n.Data == "details" && open && attr(n, "id") != "fold" {
			t.Error("all filters are shown")
		}
	}
	if before, _, _ := strings.Cut(p.text, "bank 17"); !strings.Contains(before, "Replay all 2… Delete all 2…") {
		t.Errorf("before the first of them: %s", before)
	}
	p.follow("Replay all 2…")
	p.has(t, "Replay 2 messages?", "of the cause")
	p.open("GET", "/console/messages?stream=orders&partition=0", nil)
	opened := 0
	for n := range p.page.Descendants() {
		if _, open := find(n, "open"); n.Data == "details" && open {
			opened++
		}
	}
	if opened != 2 {
		t.Errorf("with one of the other filters %d parts of the form are open", opened)
	}
}

// Nothing is done by it; but something was by the form.
func TestAFormThatIsSentOnceMoreWithAnotherRateLeadsToWhatItBegan(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(5, records(5, "no")...)
	p := w.visit("/console/confirm?stream=orders&all=true&action=replay")
	form := p.asks()
	form.Set("rate", "1/m")
	p.ask("POST", "/console/operations", form)
	began := p.path
	form.Set("note", "once more")
	if status := p.ask("POST", "/console/operations", form); status != http.StatusConflict || strings.Contains(p.text, "Nothing was done") || !slices.Contains(links(p), began) {
		t.Errorf("%d, and no link to %s: %v\n%s", status, began, links(p), p.text)
	}
}

func links(p *plain) (all []string) {
	for n := range p.page.Descendants() {
		if n.Data == "a" {
			all = append(all, attr(n, "href"))
		}
	}
	return all
}
