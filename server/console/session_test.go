package console

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// people are users, in any order: another process may have them in another.
func people(of ...string) []User {
	all := make([]User, 0, len(of))
	for _, name := range of {
		all = append(all, User{Name: name, Token: "secret of " + name, Acts: name == "alice"})
	}
	return all
}

// Replicas share nothing but the tokens.
func TestATicketIsGoodForItsTimeItsAppAndItsUserAlone(t *testing.T) {
	now := time.Now()
	d := &door{app: "shipping", users: people("alice", "bob")}
	ticket := d.ticket("secret of alice", now.Add(sessionTime))
	for _, test := range []struct {
		name string
		of   *door
		text string
		at   time.Time
		is   string
	}{
		{"now", d, ticket, now, "alice"},
		{"of somebody else", d, d.ticket("secret of bob", now.Add(sessionTime)), now, "bob"},
		{"on another replica", &door{app: "shipping", users: people("carol", "bob", "alice")}, ticket, now, "alice"},
		{"just before its end", d, ticket, now.Add(sessionTime - 2*time.Second), "alice"},
		{"after twelve hours", d, ticket, now.Add(sessionTime + time.Second), ""},
		{"of another app", &door{app: "billing", users: people("alice")}, ticket, now, ""},
		{"when the user went", &door{app: "shipping", users: people("bob")}, ticket, now, ""},
		{"when the token is another", &door{app: "shipping", users: []User{{Name: "alice", Token: "another"}}}, ticket, now, ""},
		{"with a later end", d, "9" + ticket, now, ""},
		{"with a sign", d, "+" + ticket, now, ""},
		{"without a MAC", d, strings.Split(ticket, ".")[0] + ".", now, ""},
		{"cut short", d, ticket[:len(ticket)-1], now, ""},
		{"empty", d, "", now, ""},
	} {
		got := ""
		if u := test.of.holder(test.text, test.at); u != nil {
			got = u.Name
		}
		if got != test.is {
			t.Errorf("%s: it is %q's", test.name, got)
		}
	}
}

// A cookie is whatever somebody sends.
func FuzzNoOtherCookieIsATicket(f *testing.F) {
	d := &door{app: "shipping", users: people("bob", "alice")}
	now := time.Unix(1_800_000_000, 0)
	real := d.ticket("secret of alice", now.Add(time.Hour))
	f.Add(real)
	f.Add(real + "0")
	f.Add("99999999999.")
	f.Add("-1." + strings.Repeat("0", 64))
	f.Fuzz(func(t *testing.T, text string) {
		// With the token one can make others; without it there is this one.
		if u := d.holder(text, now); (u != nil) != (text == real) || u != nil && u.Name != "alice" {
			t.Fatalf("%q is a ticket of %v", text, u)
		}
	})
}

// Cookies are shared by all ports of a host: two actors there must not end each other's sessions.
func TestTheNameOfTheCookieHasTheAppAndIsOne(t *testing.T) {
	for app, want := range map[string]string{"shipping": "stepwell_shipping", "a b;c=д": "stepwell_a_b_c__"} {
		if got := (&door{app: app}).cookieName(); got != want {
			t.Errorf("%s: %s", app, got)
		}
	}
}

func TestTenWrongTokensAMinuteAreHeardHoweverManyComeAtOnce(t *testing.T) {
	var g guesses
	now := time.Now()
	var heard sync.Map
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if _, is := g.try(now, false); is {
				heard.Store(i, true)
			}
		})
	}
	all.Wait()
	count := 0
	heard.Range(func(any, any) bool { count++; return true })
	if count != maxGuesses {
		t.Errorf("%d were heard", count)
	}
	if right, is := g.try(now.Add(guessTime-time.Second), true); right || is {
		t.Error("the right one was heard among too many wrong ones")
	}
	if right, is := g.try(now.Add(guessTime), true); !right || !is {
		t.Error("a minute later the right one is not heard")
	}
}

// A link to the login page must not lead on to a page that looks like it.
func TestALoginLeadsToPagesOfTheConsoleAlone(t *testing.T) {
	for wish, want := range map[string]string{
		"": "/console/", "/console": "/console", "/console/groups?stream=a&error=b": "/console/groups?stream=a&error=b", "/console?x": "/console?x",
		"//evil.test/console/": "/console/", "https://evil.test/": "/console/", "/v1/streams": "/console/", "/consolex": "/console/", `/\evil.test`: "/console/",
		`/console/../\evil.test`: "/console/", `/console/a/../../\evil.test?b`: "/console/", "/console/../v1/streams": "/console/", "/console/..": "/console/", "/console/": "/console/",
	} {
		w := httptest.NewRecorder()
		// A redirect cleans the path.
		_ = see(w, httptest.NewRequest(http.MethodPost, "/console/login", nil), next(wish))
		if got := w.Header().Get("Location"); got != want {
			t.Errorf("%q leads to %q", wish, got)
		}
	}
}

func TestACookieIsForHTTPSAloneWhereThatIsWhatThePersonUses(t *testing.T) {
	d := &door{app: "shipping"}
	for proto, secure := range map[string]bool{"": false, "http": false, "https": true, "HTTPS": true} {
		r := httptest.NewRequest(http.MethodPost, "/console/login", nil)
		r.Header.Set("X-Forwarded-Proto", proto)
		w := httptest.NewRecorder()
		d.setCookie(w, r, "x", 1)
		cookie := w.Result().Cookies()[0]
		if cookie.Secure != secure || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/console" {
			t.Errorf("%q: %v", proto, cookie)
		}
	}
}
