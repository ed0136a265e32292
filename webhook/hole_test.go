package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// A load balancer, or a NAT, forgets a connection and tells nobody; new ones lead on.
func TestAConnectionThatLeadsNowhereIsUsedNoMore(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			r := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
			r.EnableHTTP2 = protocol == "HTTP/2.0"
			r.StartTLS()
			t.Cleanup(r.Close)
			trusted := x509.NewCertPool()
			trusted.AddCert(r.Certificate())
			address, forget := forgetful(t, r.Listener.Addr().String())
			h := handler(t, &stored{}, func(c *Config) {
				c.Timeout, c.TLS = 300*time.Millisecond, &tls.Config{RootCAs: trusted, ServerName: "example.com", MinVersion: tls.VersionTLS12}
			})
			post := func() *answer { return do(t, h, &request{Method: "POST", URL: "https://" + address}) }
			if a := post(); a.status != 200 || a.text != protocol {
				t.Fatalf("before: status %d by %s: %v", a.status, a.text, a.err)
			}
			forget()
			for began := time.Now(); post().status != 200; {
				if time.Since(began) > 6*shortestQuiet {
					t.Fatalf("no answer for %s", time.Since(began))
				}
			}
		})
	}
}

// forgetful passes connections on to a server. What comes on those that there are when forget is
// called leads nowhere from then on.
func forgetful(t *testing.T, server string) (address string, forget func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	var forgotten atomic.Bool
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", server)
			if err != nil {
				_ = from.Close()
				return
			}
			t.Cleanup(func() { _, _ = from.Close(), to.Close() })
			old := !forgotten.Load()
			pass := func(to, from net.Conn) {
				for part := make([]byte, 4096); ; {
					n, err := from.Read(part)
					if err != nil {
						_ = to.Close()
						return
					}
					if !old || !forgotten.Load() {
						_, _ = to.Write(part[:n])
					}
				}
			}
			go pass(to, from)
			go pass(from, to)
		}
	}()
	return l.Addr().String(), func() { forgotten.Store(true) }
}
