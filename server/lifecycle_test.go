package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/server"
)

// opened opens a server that has no listener; done closes it.
func opened(t testing.TB, s *server.Server) (done func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Open(ctx) }()
	eventually(t, "the server is open", func() bool {
		rec := httptest.NewRecorder()
		s.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/openapi.json", nil)) //nolint:usestdlibvars // as on the wire
		return rec.Code == 200
	})
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestUntilTheStartIsDoneOnlyProbesAnswer(t *testing.T) {
	w := startClosed(t, func(c *server.Config) {
		c.User = http.NotFoundHandler()
		c.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	})
	for _, path := range []string{"/ping", "/livez", "/metrics"} {
		if a := w.do("GET", path, ""); a.status != 200 {
			t.Errorf("%s: %d %s", path, a.status, a.text)
		}
	}
	if a := w.do("GET", "/readyz", ""); a.status != 503 || !strings.Contains(a.text, "starting") {
		t.Errorf("/readyz: %d %s", a.status, a.text)
	}
	for _, path := range []string{"/", "/v1/streams", "/v1/dead_set?count=1&stream=orders", "/anything"} {
		if a := w.do("GET", path, ""); a.status != 503 || a.header.Get("Retry-After") == "" || a.json["error"] == nil {
			t.Errorf("%s: %d %v %s", path, a.status, a.header, a.text)
		}
	}
	w.open()
	if a := w.do("GET", "/readyz", ""); a.status != 200 {
		t.Errorf("/readyz when open: %d %s", a.status, a.text)
	}
}

func TestAtAStopRequestsUnderWayFinishAndNewOnesAreTurnedAway(t *testing.T) {
	inside, finish := make(chan struct{}), make(chan struct{})
	w := start(t, func(c *server.Config) {
		c.DrainTimeout = time.Minute
		c.User = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(inside)
			<-finish
			if r.Context().Err() == nil {
				w.WriteHeader(http.StatusTeapot)
			}
		})
	})
	status := make(chan int)
	go func() { status <- w.do("GET", "/slow", "").status }()
	<-inside
	w.close()
	eventually(t, "new requests are turned away", func() bool { return w.do("GET", "/openapi.json", "").status == 503 })
	if a := w.do("GET", "/readyz", ""); a.status != 503 || !strings.Contains(a.text, "stopping") {
		t.Errorf("/readyz: %d %s", a.status, a.text)
	}
	if a := w.do("GET", "/livez", ""); a.status != 200 {
		t.Errorf("/livez: %d", a.status)
	}
	select {
	case err := <-w.opened:
		t.Fatalf("Open ended with a request inside: %v", err)
	default:
	}
	close(finish)
	if got := <-status; got != http.StatusTeapot {
		t.Errorf("the request under way got %d", got)
	}
	if err := <-w.opened; err != nil {
		t.Error(err)
	}
	w.opened <- nil // the clean-up waits for it too
}

func TestAWalkIsStoppedWhenTheTimeForDrainingIsOverAndSaysHowFarItCame(t *testing.T) {
	w := start(t, func(c *server.Config) { c.DrainTimeout = time.Millisecond })
	inside := make(chan struct{})
	w.orders.fail(func(ctx context.Context) (server.Result, error) {
		close(inside)
		<-ctx.Done()
		return server.Result{Requested: 9, Done: 5, Left: 4, Stopped: context.Cause(ctx).Error()}, ctx.Err()
	})
	got := make(chan answer)
	go func() { got <- w.do("POST", "/v1/dead_set/replay?count=9&stream=orders", "") }()
	<-inside
	w.close()
	if a := <-got; a.status != 503 || a.json["done"] != 5.0 || !strings.Contains(a.text, "the actor stops") {
		t.Errorf("%d %s", a.status, a.text)
	}
	if err := <-w.opened; err != nil {
		t.Errorf("Open: %v", err)
	}
	w.opened <- nil
}

func TestRequestsThatDoNotEndAreCountedAndDoNotHoldTheStop(t *testing.T) {
	finish := make(chan struct{})
	inside := make(chan struct{})
	w := start(t, func(c *server.Config) {
		c.DrainTimeout = time.Millisecond
		c.User = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			close(inside)
			<-finish
		})
	})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		w.do("GET", "/stuck", "")
	}()
	<-inside
	w.close()
	if err := <-w.opened; err == nil || !strings.Contains(err.Error(), "1 HTTP request") {
		t.Errorf("Open: %v", err)
	}
	close(finish)
	<-gone
	w.opened <- nil
}

func TestAddressOffHasNoListenerAndWaitsForTheStop(t *testing.T) {
	s, err := server.New(server.Config{Address: server.Off})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	select {
	case err := <-ended:
		t.Fatalf("Run ended: %v", err)
	default:
	}
	if s.Addr() != "" {
		t.Errorf("listens on %s", s.Addr())
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAnAddressThatIsTakenOrNoneIsAnErrorThatNamesTheSetting(t *testing.T) {
	w := start(t, nil)
	s, err := server.New(server.Config{Address: w.server.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "server.address") {
		t.Errorf("Run on a taken address: %v", err)
	}
	if _, err := server.New(server.Config{Address: "localhost"}); err == nil || !strings.Contains(err.Error(), "server.address") {
		t.Errorf("New without a port: %v", err)
	}
}
