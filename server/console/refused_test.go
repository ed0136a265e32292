package console

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// refusing is an API that answers everything with a problem.
func refusing(status int, detail string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "5")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"status":%d,"detail":%q}`, status, detail)
	})
}

// Whatever /v1 says no to, a person reads in its words on a page, with its status for scripts.
func TestWhatTheAPIRefusesIsToldInItsWords(t *testing.T) {
	for status, hint := range map[int]string{
		http.StatusServiceUnavailable: "Nothing is lost meanwhile", http.StatusConflict: "Conflict", http.StatusBadRequest: "Bad Request", http.StatusGone: "Gone",
	} {
		c, err := New(Config{API: refusing(status, "the queues <are> not available"), App: "shipping", Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		form := url.Values{"stream": {"orders"}, "all": {"true"}, "action": {"replay"}, "before": {"x"}, "expect": {"1"}, "once": {"x"}}
		for _, of := range []struct{ method, path string }{
			{"GET", "/console/"}, {"GET", "/console/groups?stream=orders"}, {"GET", "/console/messages?stream=orders"}, {"GET", "/console/message?stream=orders&id=a"},
			{"GET", "/console/confirm?stream=orders&all=true&action=replay"}, {"GET", "/console/operations"}, {"GET", "/console/operation?id=a"},
			{"GET", "/console/edit?stream=orders&id=a"}, {"POST", "/console/edit"}, {"POST", "/console/operations"}, {"POST", "/console/operation"}, {"POST", "/console/streams"},
		} {
			body := form.Encode()
			if of.path == "/console/streams" {
				body = "do=pause"
			}
			if of.path == "/console/edit" {
				body = "do=edit&stream=orders&id=a&value=x"
			}
			r := httptest.NewRequest(of.method, of.path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Origin", "http://localhost")
			if err := r.ParseForm(); err != nil {
				t.Fatal(err)
			}
			w := httptest.NewRecorder()
			c.ServeHTTP(w, r)
			if page := w.Body.String(); w.Code != status || w.Header().Get("Retry-After") != "5" || !strings.Contains(page, "the queues &lt;are&gt; not available") || !strings.Contains(page, hint) {
				t.Errorf("%s %s: %d %v %s", of.method, of.path, w.Code, w.Header(), page)
			}
		}
	}
}

// What is our own fault may name hosts and queues: the log has it, and the page says so.
func TestAnAnswerThatCannotBeReadIsNotShown(t *testing.T) {
	var log strings.Builder
	broken := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "amqp://guest:guest@rabbit") })
	c, err := New(Config{API: broken, App: "shipping", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/console/", nil))
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "amqp") || !strings.Contains(w.Body.String(), "the log says what") || log.Len() == 0 {
		t.Errorf("%d %s, logged %s", w.Code, w.Body, log.String())
	}
}
