package webhook

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
)

// lines is a logger and what it has written, without times.
func lines() (*slog.Logger, *bytes.Buffer) {
	var text bytes.Buffer
	return slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})), &text
}

// Else nothing in the log says why calls wait, and for whom.
func TestAHostThatGoesDownAndComesBackIsToldOnceEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, text := lines()
		var away atomic.Bool
		away.Store(true)
		h := handler(t, &stored{}, func(c *Config) { c.Logger = logger })
		h.client.http.RegisterProtocol("http", roundTrip(func(*http.Request) (*http.Response, error) {
			if away.Load() {
				return nil, context.DeadlineExceeded
			}
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		}))
		value := []byte(`{"id":"a","request":{"url":"http://localhost/secret"},"waits":["1s"]}`)
		call := func() { _ = h.Call(t.Context(), &stepwell.Message{Stream: "calls", Value: value, Attempt: 1}) }
		for range 3 * tooMany {
			call()
			time.Sleep(longestShut)
		}
		away.Store(false)
		call()
		call()
		want := `level=WARN msg="a host is down: calls to it are put off, and no tries are used" host=http://localhost error="POST http://localhost: context deadline exceeded"
level=INFO msg="a host is back, and calls to it are made again" host=http://localhost after=11m0s
`
		if text.String() != want {
			t.Errorf("the log has\n%s\nwant\n%s", text, want)
		}
	})
}

func TestHostsThatGoDownAtOnceAreNoFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, text := lines()
		var all turns
		for range 1000 {
			all.log(logger, down, &answer{method: "POST", host: "https://a.example", status: 502, text: "of the host"}, 0)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		all.log(logger, down, &answer{method: "POST", host: "https://b.example", status: 502, text: "of the host"}, 0)
		if got := text.String(); strings.Count(got, "\n") != mostTurns+1 || !strings.Contains(got, "left_out=900") || strings.Contains(got, "of the host") {
			t.Errorf("the log has\n%s", got)
		}
	})
}

// roundTrip answers requests without a network, as if it had a connection.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	httptrace.ContextClientTrace(r.Context()).GetConn(r.URL.Host)
	return f(r)
}
