package server_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/server"
)

// FuzzACursorReachesTheListAsItCameOrIsRefused sends any cursor in any query, to the list and to
// that of the trash: the list gets what was sent, one that is gone is 410 and says what to do, and
// nothing is 500.
func FuzzACursorReachesTheListAsItCameOrIsRefused(f *testing.F) {
	for _, seed := range []string{"0123456789abcdef01234567-0", "", "gone", "\x00\xff", "a&limit=9", "a+b c%2", strings.Repeat("x", 5000)} {
		f.Add(url.QueryEscape(seed))
		f.Add(seed)
	}
	f.Add("a&cursor=b")
	f.Add("a&cursor=a") // the same twice is one
	w := start(f, keeping)
	f.Fuzz(func(t *testing.T, cursor string) {
		for _, path := range []string{"/v1/dead_set", "/v1/dead_set/trash"} {
			w.orders.query = server.Query{}
			r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
			r.Host = "localhost"
			r.URL.RawQuery = "stream=orders&cursor=" + cursor
			rec := httptest.NewRecorder()
			w.server.Handler().ServeHTTP(rec, r)
			given, err := url.ParseQuery(r.URL.RawQuery)
			asked := w.orders.query
			switch rec.Code {
			case http.StatusOK, http.StatusGone:
				if err != nil || len(slices.Compact(given["cursor"])) != 1 || asked.After != given.Get("cursor") {
					t.Fatalf("%s %q: %d, asked for %q, %v", path, cursor, rec.Code, asked.After, err)
				}
				if gone := asked.After == "gone"; gone != (rec.Code == http.StatusGone) || gone && !strings.Contains(rec.Body.String(), "Begin without a cursor") {
					t.Fatalf("%s %q: %d %s", path, cursor, rec.Code, rec.Body)
				}
			case http.StatusBadRequest, http.StatusNotFound:
				if asked.Limit != 0 {
					t.Fatalf("%s %q: %d, and looked for %q", path, cursor, rec.Code, asked.After)
				}
			default:
				t.Fatalf("%s %q: %d %s", path, cursor, rec.Code, rec.Body)
			}
		}
	})
}
