package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/operations"
	"github.com/stepwell/stepwell/server"
)

// dial opens a connection and writes what a client would; the test ends if the server does not
// answer or cut it in time.
func (w *world) dial(text string) net.Conn {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.server.Addr())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		w.t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		w.t.Fatal(err)
	}
	return conn
}

func TestASlowHeadIsCut(t *testing.T) {
	w := start(t, func(c *server.Config) { c.HeaderTimeout = 50 * time.Millisecond })
	conn := w.dial("GET /ping HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Errorf("not cut: %v", err)
	}
}

func TestASlowBodyIs408(t *testing.T) {
	w := start(t, func(c *server.Config) { c.ReadTimeout = 50 * time.Millisecond })
	conn := w.dial("DELETE /v1/dead_set HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"count\":1")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("status %s", resp.Status)
	}
	if acts := w.orders.acts(); len(acts) != 0 {
		t.Errorf("acted: %v", acts)
	}
}

func TestABodyThatNobodyWantsAndThatNeverComesIsCut(t *testing.T) {
	w := start(t, func(c *server.Config) { c.ReadTimeout, c.BodyLimit = 50*time.Millisecond, 10 })
	for _, request := range []string{"GET /ping", "POST /nowhere", "POST /v1/streams/orders/pause", "DELETE /v1/dead_set"} {
		conn := w.dial(request + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Errorf("%s: not cut: %v", request, err)
		}
	}
}

func TestATooLargeBodyIs413(t *testing.T) {
	w := start(t, func(c *server.Config) { c.BodyLimit = 100 })
	body := `{"count":1,"stream":"orders","comment":"` + strings.Repeat("x", 100) + `"}`
	if a := w.do("DELETE", "/v1/dead_set", body); a.status != 413 || !strings.Contains(a.text, "100 bytes") {
		t.Errorf("with its length: %d %s", a.status, a.text)
	}
	conn := w.dial(fmt.Sprintf("DELETE /v1/dead_set HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 413 { //nolint:usestdlibvars // as on the wire
		t.Errorf("in chunks: %s", resp.Status)
	}
	if acts := w.orders.acts(); len(acts) != 0 {
		t.Errorf("acted: %v", acts)
	}
}

// The ids of messages have 200 bytes at most.
func TestWhoAsksForAnOperationMayNameAsManyIDsAsItTakesWhateverTheLimitOfBodies(t *testing.T) {
	w, p := operating(t)
	var ids []string
	for i := range operations.MaxIDs {
		ids = append(ids, fmt.Sprintf("%q", fmt.Sprintf("%0200d", i)))
	}
	body := fmt.Sprintf(`{"action":"replay","stream":"orders","note":%q,"select":{"ids":[%s]}}`, strings.Repeat("n", 500), strings.Join(ids, ",\n      "))
	a := w.do("POST", "/v1/dead_set/operations", body)
	if a.status != 202 {
		t.Fatalf("%d %.300s", a.status, a.text)
	}
	if r := <-p.asked; len(r.Select.IDs) != operations.MaxIDs {
		t.Errorf("%d ids", len(r.Select.IDs))
	}
	large := fmt.Sprintf(`{"action":"replay","stream":"orders","select":{"all":true},%s"dry_run":true}`, strings.Repeat(" ", operations.MaxRequest))
	if a := w.do("POST", "/v1/dead_set/operations", large); a.status != 413 || !strings.Contains(a.text, fmt.Sprint(operations.MaxRequest, " bytes")) {
		t.Errorf("a larger one: %d %s", a.status, a.text)
	}
	if a := w.do("PATCH", "/v1/dead_set/operations/op_x", body); a.status != 413 || !strings.Contains(a.text, "65536 bytes") {
		t.Errorf("a change, which names none: %d %s", a.status, a.text)
	}
	w, _ = operating(t, func(c *server.Config) { c.BodyLimit = 2 * operations.MaxRequest })
	if a := w.do("POST", "/v1/dead_set/operations", large); a.status != 200 {
		t.Errorf("where all bodies may be so large: %d %s", a.status, a.text)
	}
}

func TestALongReplayOutlivesTheTimeoutsForReadingAndWriting(t *testing.T) {
	const short = 30 * time.Millisecond
	w := start(t, func(c *server.Config) { c.ReadTimeout, c.WriteTimeout = short, short })
	w.orders.fail(func(ctx context.Context) (server.Result, error) {
		select {
		case <-ctx.Done():
			return server.Result{Done: 1, Stopped: "cancelled"}, ctx.Err()
		case <-time.After(10 * short):
			return server.Result{}, nil
		}
	})
	w.do("GET", "/ping", "") // leaves its deadline for writing on the connection
	for _, request := range []string{"POST /v1/dead_set/replay", "DELETE /v1/dead_set"} {
		method, path, _ := strings.Cut(request, " ")
		if a := w.do(method, path, `{"count":1,"stream":"orders"}`); a.status != 200 {
			t.Errorf("%s: %d %s", request, a.status, a.text)
		}
	}
}

// net/http ends what reads a connection at its deadline, and with that the contexts of this request
// and of all that come later on the connection.
func TestALongLookOutlivesTheTimeoutForReadingAndSpoilsNoLaterRequest(t *testing.T) {
	const short = 200 * time.Millisecond // a busy machine reads a request within it
	w := start(t, func(c *server.Config) { c.ReadTimeout = short })
	slow := false
	w.orders.fail(func(ctx context.Context) (server.Result, error) {
		if slow {
			select {
			case <-ctx.Done():
			case <-time.After(2 * short):
			}
		}
		return server.Result{}, ctx.Err()
	})
	for _, path := range []string{"/v1/dead_set?count=1&stream=orders", "/v1/dead_set/groups?stream=orders", "/v1/dead_set/export?stream=orders"} {
		slow = true
		if a := w.do("GET", path, ""); a.status != 200 {
			t.Errorf("%s: a long look: %d %s", path, a.status, a.text)
		}
		slow = false
		for range 2 {
			if a := w.do("GET", path, ""); a.status != 200 {
				t.Errorf("%s: on the same connection: %d %s", path, a.status, a.text)
			}
		}
	}
}

func TestAClientThatGoesAwayStopsItsWalk(t *testing.T) {
	w := start(t, nil)
	inside, stopped := make(chan struct{}), make(chan struct{})
	w.orders.fail(func(ctx context.Context) (server.Result, error) {
		close(inside)
		<-ctx.Done()
		close(stopped)
		return server.Result{}, ctx.Err()
	})
	conn := w.dial("POST /v1/dead_set/replay?count=1&stream=orders HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
	<-inside
	conn.Close()
	<-stopped
	eventually(t, "the audit line is there", func() bool { return strings.Contains(w.log.String(), "action=replay") })
}
