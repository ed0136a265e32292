package server_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/server"
)

// The time for a request's body must not end a page that is kept up to date: net/http cancels what
// runs when it passes.
func TestAPageIsKeptUpToDateBeyondTheTimeForBodies(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *server.Config) {
		c.Console, c.ReadTimeout, c.WriteTimeout = true, 100*time.Millisecond, 100*time.Millisecond
	})
	resp, err := http.Get("http://" + w.server.Addr() + "/console/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines, told := bufio.NewScanner(resp.Body), 0
	for told < 2 && lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data: ") {
			told++
		}
	}
	if told < 2 {
		t.Errorf("told %d times: %v", told, lines.Err())
	}
}

func TestAFormThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *server.Config) { c.Console, c.BodyLimit = true, 1000 })
	base := "http://" + w.server.Addr()
	form := "do=pause&stream=orders&x=" + strings.Repeat("x", 2000)
	a := w.do("POST", "/console/streams", form, "Content-Type", "application/x-www-form-urlencoded", "Origin", base)
	if a.status != http.StatusRequestEntityTooLarge || !strings.Contains(a.text, "it may have 1000 bytes (server.body_limit)") {
		t.Errorf("%d %s", a.status, a.text)
	}
	if small := w.do("POST", "/console/streams", "do=pause&stream=orders", "Content-Type", "application/x-www-form-urlencoded", "Origin", base); small.status != http.StatusOK {
		t.Errorf("a small one: %d %s", small.status, small.text)
	}
}

// While the actor starts nobody is let in, as into /v1.
func TestTheConsoleWaitsForTheActor(t *testing.T) {
	t.Parallel()
	w := startClosed(t, func(c *server.Config) { c.Console = true })
	if a := w.do("GET", "/console/", ""); a.status != http.StatusServiceUnavailable || !strings.Contains(a.text, "starting") {
		t.Errorf("%d %s", a.status, a.text)
	}
}
