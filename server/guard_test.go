package server_test

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/server"
)

// everywhere makes the server listen on all addresses.
func everywhere(c *server.Config) { c.Address = "0.0.0.0:0" }

// apiPaths are a request of each kind that the guard must look at.
var apiPaths = map[string]string{
	"GET /v1/dead_set?count=1&stream=orders":         "",
	"POST /v1/dead_set/replay?count=1&stream=orders": "",
	"DELETE /v1/dead_set?count=1&stream=orders":      "",
	"GET /v1/streams":                "",
	"POST /v1/streams/orders/pause":  "",
	"POST /v1/streams/orders/resume": "",
}

// onAPI sends every kind of request and wants the status of each.
func (w *world) onAPI(status int, says string, headers ...string) {
	w.t.Helper()
	for request := range apiPaths {
		method, path, _ := strings.Cut(request, " ")
		if a := w.do(method, path, "", headers...); a.status != status || !strings.Contains(a.text, says) {
			w.t.Errorf("%s: %d %s", request, a.status, a.text)
		}
	}
}

func TestBeyondLoopbackWithoutATokenTheAPIIsClosedAndSaysWhichSettingOpensIt(t *testing.T) {
	w := start(t, everywhere)
	w.onAPI(403, "server.token")
	for _, path := range []string{"/ping", "/livez", "/readyz", "/openapi.json"} {
		if a := w.do("GET", path, ""); a.status != 200 {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	if w.orders.asked != 0 {
		t.Error("a refused request reached the dead set")
	}
}

func TestInsecureOpensTheAPIAndIsLoggedAtStart(t *testing.T) {
	w := start(t, func(c *server.Config) { everywhere(c); c.Insecure = true })
	w.onAPI(200, "")
	if !strings.Contains(w.log.String(), "server.insecure") {
		t.Errorf("log: %s", w.log)
	}
}

func TestTheTokenIsAskedForWhereverItIsSet(t *testing.T) {
	tests := map[string]func(*server.Config){
		"beyond loopback":              everywhere,
		"beyond loopback and insecure": func(c *server.Config) { everywhere(c); c.Insecure = true },
		"on loopback":                  func(*server.Config) {},
	}
	for name, address := range tests {
		t.Run(name, func(t *testing.T) {
			w := start(t, func(c *server.Config) { address(c); c.Tokens = single("swordfish") })
			w.onAPI(401, "server.token")
			for _, wrong := range []string{"swordfish", "Bearer", "Bearer ", "Bearer swordfis", "Bearer swordfish2", "Basic swordfish", "Bearer SWORDFISH"} {
				w.onAPI(401, "server.token", "Authorization", wrong)
			}
			if a := w.do("GET", "/v1/streams", ""); a.header.Get("WWW-Authenticate") == "" {
				t.Error("401 without WWW-Authenticate")
			}
			if w.orders.asked != 0 {
				t.Error("a refused request reached the dead set")
			}
			w.onAPI(200, "", "Authorization", "Bearer swordfish")
			w.onAPI(200, "", "Authorization", "bearer swordfish")
		})
	}
}

func TestATokenWithoutBearerBeforeItIsAnsweredWithHowToSendIt(t *testing.T) {
	w := start(t, func(c *server.Config) { everywhere(c); c.Tokens = single("swordfish") })
	// The right one and a wrong one have the same answer: it is no way to guess.
	for _, sent := range []string{"swordfish", "sardine", "Basic swordfish", "swordfish swordfish", "Bearer:swordfish"} {
		w.onAPI(401, "Authorization must begin with Bearer and a space, and then have one of server.token", "Authorization", sent)
		if a := w.do("GET", "/v1/streams", "", "Authorization", sent); strings.Contains(a.text, "swordfish") {
			t.Errorf("%q is shown: %s", sent, a.text)
		}
	}
	w.onAPI(401, "the token is none of server.token", "Authorization", "Bearer sardine")
	w.onAPI(401, "a token is missing: send Authorization: Bearer")
}

// Whoever reads the log alone sees that somebody guesses, and from where.
func TestWhoIsRefusedForTheirTokenIsToldOfInTheLogAndCannotFillIt(t *testing.T) {
	w := start(t, func(c *server.Config) { c.Tokens = single("swordfish") })
	for range 50 {
		w.do("DELETE", "/v1/dead_set?stream=orders", "", "Authorization", "Bearer sw0rdfish")
	}
	w.do("GET", "/v1/streams", "", "Authorization", "Bearer swordfish")
	log := w.log.String()
	if told := strings.Count(log, "audit: refused without a token that is right"); told != 1 {
		t.Errorf("told %d times", told)
	}
	if want := "address=127.0.0.1 method=DELETE path=/v1/dead_set since_last=1"; !strings.Contains(log, want) || strings.Contains(log, "sw0rdfish") {
		t.Errorf("%q is not in the log, or the token is:\n%s", want, log)
	}
}

func TestOnLoopbackTheHostMustNameTheLoopback(t *testing.T) {
	w := start(t, nil)
	_, port, err := net.SplitHostPort(w.server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	for _, good := range []string{"localhost", "LOCALHOST:" + port, "localhost.", "127.0.0.1", "127.8.9.1:80", "[::1]", "[::1]:" + port, "[::ffff:127.0.0.1]"} {
		if a := w.do("GET", "/v1/streams", "", "Host", good); a.status != 200 {
			t.Errorf("Host %s: %d %s", good, a.status, a.text)
		}
	}
	for _, bad := range []string{"evil.example", "evil.example:" + port, "localhost.evil.example", "127.0.0.1.nip.io", "10.0.0.1", "[::2]", "0.0.0.0"} {
		w.onAPI(403, "Host", "Host", bad)
		if a := w.do("GET", "/metrics", "", "Host", bad); a.status == 200 {
			t.Errorf("/metrics under %s: %d", bad, a.status)
		}
	}
}

func TestAWebPageOfAnotherOriginCanChangeNothing(t *testing.T) {
	w := start(t, nil)
	foreign := [][]string{{"Origin", "http://evil.example"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}}
	for _, headers := range foreign {
		for request := range apiPaths {
			method, path, _ := strings.Cut(request, " ")
			if a := w.do(method, path, "", headers...); method != "GET" && a.status != 403 {
				t.Errorf("%s with %v: %d %s", request, headers, a.status, a.text)
			}
		}
		a := w.do("OPTIONS", "/v1/dead_set", "", append(headers, "Access-Control-Request-Method", "DELETE")...)
		if a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("a foreign origin is let in: %v", a.header)
		}
	}
	if acts := w.orders.acts(); len(acts) != 0 {
		t.Errorf("acted: %v", acts)
	}
}

func inShop(key string) string { return "SHOP_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_")) }

func TestWhatTheServerSaysNamesTheVariablesAsTheAppCallsThem(t *testing.T) {
	prefixed := func(c *server.Config) { c.Setting = inShop }
	closed := start(t, func(c *server.Config) { everywhere(c); prefixed(c) })
	closed.onAPI(403, "SHOP_SERVER_TOKEN")
	closed.onAPI(403, "SHOP_SERVER_INSECURE")
	open := start(t, func(c *server.Config) { everywhere(c); prefixed(c); c.Insecure = true })
	locked := start(t, func(c *server.Config) { prefixed(c); c.Tokens = single("t") })
	locked.onAPI(401, "SHOP_SERVER_TOKEN")
	locked.onAPI(401, "SHOP_SERVER_TOKEN", "Authorization", "Bearer x")
	if !strings.Contains(closed.log.String(), "SHOP_SERVER_TOKEN") || !strings.Contains(open.log.String(), "SHOP_SERVER_INSECURE") {
		t.Errorf("logs: %s %s", closed.log, open.log)
	}
	if _, err := server.New(server.Config{Address: "localhost", Setting: inShop}); err == nil || !strings.Contains(err.Error(), "SHOP_SERVER_ADDRESS") {
		t.Errorf("got %v", err)
	}
}

func TestRoutesOfTheProgramsOwnAreGuardedWhereItSaysSo(t *testing.T) {
	asked := 0
	guarded := func(c *server.Config) {
		c.User = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ })
		c.GuardUser = true
	}
	closed := start(t, func(c *server.Config) { everywhere(c); guarded(c) })
	locked := start(t, func(c *server.Config) { guarded(c); c.Tokens = single("swordfish") })
	local := start(t, guarded)
	tests := []struct {
		name    string
		w       *world
		headers []string
		status  int
	}{
		{"beyond loopback without a token", closed, nil, 403},
		{"no token", locked, nil, 401},
		{"a wrong token", locked, []string{"Authorization", "Bearer x"}, 401},
		{"the token", locked, []string{"Authorization", "Bearer swordfish"}, 200},
		{"on loopback", local, nil, 200},
		{"on loopback by another name", local, []string{"Host", "evil.example"}, 403},
		{"a web page of elsewhere", local, []string{"Origin", "http://evil.example"}, 403},
	}
	served := 0
	for _, test := range tests {
		if a := test.w.do("POST", "/calls", "", test.headers...); a.status != test.status {
			t.Errorf("%s: %d %s, want %d", test.name, a.status, a.text, test.status)
		}
		if test.status == 200 {
			served++
		}
	}
	if asked != served {
		t.Errorf("the handler was asked %d times, want %d", asked, served)
	}
	if !strings.Contains(closed.log.String(), "own routes are closed") {
		t.Errorf("the log does not say that more than /v1 is closed: %s", closed.log)
	}
	open := start(t, func(c *server.Config) { guarded(c); everywhere(c); c.Insecure = true })
	if a := open.do("POST", "/calls", ""); a.status != 200 || !strings.Contains(open.log.String(), "own routes are open") {
		t.Errorf("insecure: %d, log %s", a.status, open.log)
	}
}
