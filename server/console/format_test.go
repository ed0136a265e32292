package console

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A number that a person confirmed reads as it did where it was confirmed.
func TestThePageOfAnOperationWritesAllNumbersAlike(t *testing.T) {
	api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"id": "op_1", "action": "replay", "stream": "orders", "state": "running", "matched": 94120, "expect": 94120, "canary": 1000})
	})
	entered := func(r *http.Request, _ User) (*http.Request, error) { return r, nil }
	c, err := New(Config{API: api, App: "shipping", Enter: entered, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/console/operation?id=op_1", nil))
	page := w.Body.String()
	for _, want := range []string{"0 of 94,120", "94,120 messages, as was confirmed", "1,000 messages first"} {
		if !strings.Contains(page, want) {
			t.Errorf("%d: %q is not in %s", w.Code, want, page)
		}
	}
}
