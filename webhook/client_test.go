package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func do(t *testing.T, h *Handler, r *request) *answer {
	t.Helper()
	return h.client.do(t.Context(), r, "id-1", "")
}

func TestAnAddressNotAllowedIsNeverDialled(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var dialled atomic.Int64
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			dialled.Add(1)
			conn.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	for _, rules := range [][]string{nil, {"partner.example"}, {"10.0.0.0/8"}} {
		h := handler(t, &stored{}, func(c *Config) { c.Hosts = rules })
		for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"} {
			a := do(t, h, &request{Method: "GET", URL: "http://" + host + ":" + port + "/"})
			if a.status != 0 || a.outcome(false) != unknown || !strings.Contains(a.Error(), "may not be called") {
				t.Errorf("%q: %s: status %d, %v", rules, host, a.status, a.err)
			}
		}
	}
	// The listener works: who is allowed comes through.
	do(t, handler(t, &stored{}, nil), &request{Method: "GET", URL: "http://127.0.0.1:" + port + "/"})
	deadline := time.After(10 * time.Second)
	for dialled.Load() == 0 {
		select {
		case <-deadline:
			t.Fatal("nothing came through, so the test shows nothing")
		case <-time.After(time.Millisecond):
		}
	}
	if n := dialled.Load(); n != 1 {
		t.Errorf("dialled %d times, want only by who is allowed", n)
	}
}

// A proxy would dial for us, and it knows no hosts: who may call the proxy could call all that it
// reaches.
func TestNoProxyDialsForUs(t *testing.T) {
	transport := handler(t, &stored{}, nil).client.http
	if transport.Proxy != nil {
		t.Error("a proxy is asked for")
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	elsewhere := newReceiver(t, status(200))
	r := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, elsewhere.URL+"/new?token=hidden", http.StatusFound)
	})
	a := do(t, handler(t, &stored{}, nil), &request{Method: "POST", URL: r.URL})
	if a.status != 302 || elsewhere.count() != 0 {
		t.Errorf("status %d, %d requests elsewhere", a.status, elsewhere.count())
	}
	// Whoever reads that alone knows what to do: the call is to be posted with the other URL.
	if want := ": status 302, a redirect to " + elsewhere.URL + ", which is not followed"; !strings.HasSuffix(a.Error(), want) {
		t.Errorf("%q does not end with %q", a.Error(), want)
	}
}

func TestAStatusOfRedirectsWithoutAPlaceIsAStatus(t *testing.T) {
	r := newReceiver(t, status(304))
	if a := do(t, handler(t, &stored{}, nil), &request{Method: "POST", URL: r.URL}); !strings.HasSuffix(a.Error(), ": status 304") {
		t.Error(a)
	}
}

func TestARedirectToWhatIsNoURLIsAnAnswerLikeOthersAndIsNotShown(t *testing.T) {
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://[?token=hidden")
		w.WriteHeader(http.StatusFound)
	})
	a := do(t, handler(t, &stored{}, nil), &request{Method: "GET", URL: r.URL})
	if a.status != 302 || a.outcome(false) != up || strings.Contains(a.Error(), "hidden") {
		t.Errorf("status %d, outcome %d: %v", a.status, a.outcome(false), a)
	}
}

func TestAHostThatDoesNotAnswerIsGivenUpInTime(t *testing.T) {
	release := make(chan struct{})
	r := newReceiver(t, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	h := handler(t, &stored{}, func(c *Config) { c.Timeout = 50 * time.Millisecond })
	a := do(t, h, &request{Method: "GET", URL: r.URL + "/?token=hidden"})
	if a.outcome(false) != down || !strings.Contains(a.Error(), "no whole answer within 50ms") || strings.Contains(a.Error(), "hidden") {
		t.Errorf("%d %v", a.status, a.err)
	}
}

func TestAnAnswerWithoutAnEndIsReadToItsBeginningOnly(t *testing.T) {
	r := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		for chunk := []byte(strings.Repeat("x", 4096)); req.Context().Err() == nil; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	// Its beginning is all that is waited for, and not the time-out.
	h, asked := handler(t, &stored{}, func(c *Config) { c.Timeout = maxTimeout }), make(chan *answer, 1)
	go func() { asked <- do(t, h, &request{Method: "GET", URL: r.URL}) }()
	select {
	case a := <-asked:
		if a.status != 500 || len(a.text) != maxAnswer {
			t.Errorf("status %d, %d bytes kept", a.status, len(a.text))
		}
	case <-time.After(20 * time.Second):
		r.CloseClientConnections()
		t.Fatal("it is read for ever")
	}
}

func TestAnAnswerThatSwitchesProtocolsHoldsNoCall(t *testing.T) {
	left := make(chan struct{})
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		defer close(left)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: any\r\n\r\n"); err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(io.Discard, conn) // it says nothing more, and waits for the other to leave
	})
	h, asked := handler(t, &stored{}, nil), make(chan *answer, 1)
	go func() { asked <- do(t, h, &request{Method: "POST", URL: r.URL}) }()
	select {
	case a := <-asked:
		if a.status != 101 || a.ok() || a.outcome(false) != up {
			t.Errorf("status %d, %v", a.status, a.err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the call is held for longer than its time-out")
	}
	<-left
}

func TestARequestIsSentAsItWasPostedAndSignedAnewAtEachTry(t *testing.T) {
	r := newReceiver(t, status(200))
	h := handler(t, &stored{}, withSecret)
	req := &request{Method: "PATCH", URL: r.URL + "/a?b=c", Headers: http.Header{"X-A": {"1", "2"}, "Content-Type": {"application/xml"}}, Body: []byte(`"<a/>"`)}
	for range 2 {
		if a := h.client.do(t.Context(), req, "order-17", "partner-a"); a.status != 200 {
			t.Fatal(a)
		}
	}
	for i, got := range r.requests {
		if got.Method != http.MethodPatch || got.URL.String() != "/a?b=c" || r.bodies[i] != "<a/>" || len(got.Header["X-A"]) != 2 || got.Header.Get("Content-Type") != "application/xml" {
			t.Errorf("%s %s %v %q", got.Method, got.URL, got.Header, r.bodies[i])
		}
		sent, err := time.Parse(time.DateTime, "1970-01-01 00:00:00")
		if err != nil {
			t.Fatal(err)
		}
		seconds, err := time.ParseDuration(got.Header.Get(headerTimestamp) + "s")
		if at := sent.Add(seconds); err != nil || time.Since(at) > time.Minute {
			t.Errorf("timestamp %s: %v", at, err)
		}
		_, want := sign(h.secrets["partner-a"], "order-17", sent.Add(seconds), []byte("<a/>"))
		if got.Header.Get(headerID) != "order-17" || got.Header.Get(headerSignature) != want {
			t.Errorf("id %s, signature %s, want %s", got.Header.Get(headerID), got.Header.Get(headerSignature), want)
		}
	}
}

func TestASecretThatIsGoneSendsNothingUnsigned(t *testing.T) {
	r := newReceiver(t, status(200))
	a := handler(t, &stored{}, nil).client.do(t.Context(), &request{Method: "POST", URL: r.URL}, "a", "partner-a")
	if a.ok() || r.count() != 0 || !strings.Contains(a.Error(), `secret "partner-a"`) {
		t.Errorf("%v, %d requests", a, r.count())
	}
}

func TestTLSIsAsItIsSet(t *testing.T) {
	r := httptest.NewTLSServer(status(200))
	defer r.Close()
	get := &request{Method: "GET", URL: r.URL}
	if a := do(t, handler(t, &stored{}, nil), get); a.status != 0 || !strings.Contains(a.Error(), "certificate") {
		t.Errorf("an unknown authority: %d %v", a.status, a.err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(r.Certificate())
	h := handler(t, &stored{}, func(c *Config) { c.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12} })
	if a := do(t, h, get); !a.ok() {
		t.Errorf("a known authority: %v", a)
	}
}

func TestAnAllowedAddressThatDoesNotAnswerBesideOneThatIsNotAllowedIsTriedAgain(t *testing.T) {
	err := &net.OpError{Op: "dial", Err: fmt.Errorf("10.0.0.1 %w", errNotAllowed)}
	if a := (&answer{err: dialError(err, true)}); a.outcome(false) != down {
		t.Errorf("one of its addresses was dialled: %v", a.err)
	}
	if a := (&answer{err: dialError(err, false)}); a.outcome(false) != unknown {
		t.Errorf("none was: %v", a.err)
	}
}
