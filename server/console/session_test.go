package console

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Replicas share nothing but the token.
func TestATicketIsGoodForItsTimeItsAppAndItsTokenAlone(t *testing.T) {
	now := time.Now()
	d := &door{app: "shipping", token: "secret"}
	ticket := d.ticket(now.Add(sessionTime))
	for _, test := range []struct {
		name string
		of   *door
		text string
		at   time.Time
		good bool
	}{
		{"now", d, ticket, now, true},
		{"on another replica", &door{app: "shipping", token: "secret"}, ticket, now, true},
		{"just before its end", d, ticket, now.Add(sessionTime - 2*time.Second), true},
		{"after twelve hours", d, ticket, now.Add(sessionTime + time.Second), false},
		{"of another app", &door{app: "billing", token: "secret"}, ticket, now, false},
		{"when the token went", &door{app: "shipping", token: "another"}, ticket, now, false},
		{"with a later end", d, "9" + ticket, now, false},
		{"with a sign", d, "+" + ticket, now, false},
		{"without a MAC", d, strings.Split(ticket, ".")[0] + ".", now, false},
		{"cut short", d, ticket[:len(ticket)-1], now, false},
		{"empty", d, "", now, false},
	} {
		if got := test.of.good(test.text, test.at); got != test.good {
			t.Errorf("%s: good is %v", test.name, got)
		}
	}
}

// A cookie is whatever somebody sends.
func FuzzNoOtherCookieIsATicket(f *testing.F) {
	d := &door{app: "shipping", token: "secret"}
	now := time.Unix(1_800_000_000, 0)
	real := d.ticket(now.Add(time.Hour))
	f.Add(real)
	f.Add(real + "0")
	f.Add("99999999999.")
	f.Add("-1." + strings.Repeat("0", 64))
	f.Fuzz(func(t *testing.T, text string) {
		// With the token one can make others; without it there is this one.
		if d.good(text, now) && text != real {
			t.Fatalf("%q is good", text)
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
	} {
		if got := next(wish); got != want {
			t.Errorf("%q leads to %q", wish, got)
		}
	}
}

func TestACookieIsForHTTPSAloneWhereThatIsWhatThePersonUses(t *testing.T) {
	d := &door{app: "shipping", token: "secret"}
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
