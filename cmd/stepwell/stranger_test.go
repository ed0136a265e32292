package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A page of another server is no file of dead messages.
func TestWhatIsNoActorExportsNothing(t *testing.T) {
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>hello</html>") }))
	defer stranger.Close()
	for _, args := range []string{"export", "groups"} {
		out, errs, code := command(t, stranger.URL, "dead-set", args, "-s", "orders")
		if code != exitFailed || out != "" || !strings.Contains(errs, "is there a stepwell actor at --address?") {
			t.Errorf("%s: exit %d, %q, %q", args, code, out, errs)
		}
	}
}
