package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/server"
)

func TestAListHasWhatAPeekHasAndHowItGoesOn(t *testing.T) {
	w := start(t, nil)
	a := w.do("GET", "/v1/dead_set?stream=orders&reason=exhausted&partition=3&limit=2&cursor=before", "")
	if a.status != 200 || len(a.json["messages"].([]any)) != 2 || a.json["depth"] != 3.0 || a.json["cut"] != true || a.json["matched"] != 3.0 ||
		a.json["next"] != "n" || a.json["complete"] != false || a.json["unsorted"] != 5.0 || a.json["as_of"] == nil {
		t.Errorf("%d %s", a.status, a.text)
	}
	if q := w.orders.query; q.Limit != 2 || q.After != "before" || q.Filter.String() != `partition="3" reason="exhausted"` {
		t.Errorf("asked for %+v", q)
	}
	if w.do("GET", "/v1/dead_set?stream=orders&error=away", ""); w.orders.query.Limit != 50 {
		t.Errorf("limit %d where none is said", w.orders.query.Limit)
	}
	a = w.do("GET", "/v1/dead_set", `{"stream":"orders","partition":3,"limit":1,"value.paid":true,"header.tenant":"acme"}`)
	if q := w.orders.query; a.status != 200 || q.Filter.String() != `header.tenant="acme" partition="3" value.paid="true"` {
		t.Errorf("of a body: %d %s, %s", a.status, a.text, q.Filter)
	}
	if a := w.do("GET", "/v1/dead_set?stream=orders&count=2", ""); a.json["matched"] != nil || a.json["as_of"] != nil {
		t.Errorf("a peek at the oldest has become another: %s", a.text)
	}
	if a := w.do("GET", "/v1/dead_set?stream=orders&cursor=gone", ""); a.status != 410 || !strings.Contains(a.text, "Begin without a cursor") {
		t.Errorf("%d %s", a.status, a.text)
	}
}

func TestCausesAreAskedForWithAFilterOrWithout(t *testing.T) {
	w := start(t, nil)
	if a := w.do("GET", "/v1/dead_set/groups?topic-entity=orders", ""); a.status != 200 || a.json["groups"] == nil || !w.orders.query.Filter.IsZero() {
		t.Errorf("%d %s", a.status, a.text)
	}
	if a := w.do("GET", "/v1/dead_set/groups?stream=orders&died_from=2h", ""); a.status != 200 || w.orders.query.Filter.String() != `died_from="2h"` {
		t.Errorf("%d %s", a.status, a.text)
	}
}

func TestAnExportIsALineForEachMessageAndSaysWhatItDidNotSee(t *testing.T) {
	w := start(t, nil)
	a := w.do("GET", "/v1/dead_set/export?stream=orders&error=away", "")
	if a.status != 200 || a.text != "{\"id\":\"a\"}\n{\"id\":\"b\"}\n{\"id\":\"c\"}\n" || a.header.Get("Stepwell-Depth") != "9" || a.header.Get("Stepwell-Unsorted") != "5" || a.header.Get("Stepwell-Matched") != "3" ||
		a.header.Get("Content-Type") != "application/x-ndjson" || !strings.HasPrefix(a.header.Get("Content-Disposition"), "attachment") || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v %q", a.status, a.header, a.text)
	}
	if got := w.orders.query.Filter.String(); got != `error="away"` {
		t.Errorf("asked for %s", got)
	}
	if a := w.do("GET", "/v1/dead_set/export?stream=orders&error=", ""); a.status != 400 || !strings.Contains(a.text, "error is empty") {
		t.Errorf("%d %s", a.status, a.text)
	}
}

func TestAnExportThatIsCutOffDoesNotLookWhole(t *testing.T) {
	w := start(t, nil)
	w.orders.all = []any{"a", "breaks", "c"}
	resp, err := http.Get("http://" + w.server.Addr() + "/v1/dead_set/export?stream=orders")
	if err == nil {
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
	}
	if err == nil || !strings.Contains(w.log.String(), "an export was cut off") {
		t.Errorf("%v, %s", err, w.log)
	}
}

func TestAMistakeInAFilterIsNamedAndNothingIsLookedAt(t *testing.T) {
	for path, says := range map[string][]string{
		"?stream=orders&resaon=x":                            {"unknown parameter resaon", "did you mean reason?", "header.<name>"},
		"?stream=ordres&reason=&limit=0&partition=x&count=1": {"count is for a peek", "limit must be", "reason is empty", "partition must be", `unknown stream "ordres"`},
		"?stream=orders&limit=501":                           {"from 1 to 500"},
		"?stream=orders&reason=a&reason=b":                   {"reason is given twice"},
		"/groups?stream=orders&limit=5":                      {"unknown parameter limit"},
		"/groups?stream=orders&error_re=(":                   {"no RE2 expression"},
		"/groups":                                            {"stream (or topic-entity) is missing"},
		"/messages/x?stream=orders&part=body":                {"part must be key or value"},
		"/messages/x?stream=orders&reason=x":                 {"unknown parameter reason"},
		"/messages/x?stream=orders&channel=fast":             {`stream orders has no channel "fast"`},
	} {
		w := start(t, nil)
		a := w.do("GET", "/v1/dead_set"+path, "")
		for _, want := range says {
			if a.status != 400 || !strings.Contains(a.json["detail"].(string), want) {
				t.Errorf("%s: %d %s", path, a.status, a.text)
			}
		}
		if w.orders.asked > 0 {
			t.Errorf("%s: it was looked at", path)
		}
	}
}

func TestAFilterIsUnknownToWhatActsByCount(t *testing.T) {
	w := start(t, nil)
	for method, path := range map[string]string{"POST": "/v1/dead_set/replay", "DELETE": "/v1/dead_set"} {
		a := w.do(method, path, `{"stream":"orders","count":1,"id":"t:0:1","reason":"decode"}`)
		if a.status != 400 || !strings.Contains(a.text, "unknown parameter id; known: count, stream") || w.orders.asked > 0 {
			t.Errorf("%s: %d %s", method, a.status, a.text)
		}
	}
}

func TestOneMessageIsShownByAnyIDAndItsBytesOnlyToBeSaved(t *testing.T) {
	w := start(t, nil)
	for path, id := range map[string]string{"a:0:7": "a:0:7", "a%3A0%3A7": "a:0:7", "a%2Fb%20c": "a/b c"} {
		if a := w.do("GET", "/v1/dead_set/messages/"+path+"?stream=orders", ""); a.status != 200 || a.text != `"`+id+`"`+"\n" {
			t.Errorf("%s: %d %s", path, a.status, a.text)
		}
	}
	if a := w.do("GET", "/v1/dead_set/messages/other?stream=orders", ""); a.status != 404 || !strings.Contains(a.text, "among the oldest 3") {
		t.Errorf("%d %s", a.status, a.text)
	}
	a := w.do("GET", "/v1/dead_set/messages/a:0:7?stream=orders&part=value", "")
	if a.status != 200 || a.text != "<script>" || a.header.Get("Content-Type") != "application/octet-stream" || a.header.Get("X-Content-Type-Options") != "nosniff" ||
		a.header.Get("Content-Disposition") != `attachment; filename="a_0_7.value.bin"` || !strings.HasPrefix(a.header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("%d %s %v", a.status, a.text, a.header)
	}
	if a := w.do("GET", "/v1/dead_set/messages/a:0:7?stream=orders&part=key", ""); a.status != 404 || !strings.Contains(a.text, "key is null") {
		t.Errorf("%d %s", a.status, a.text)
	}
	if a := w.do("GET", "/v1/dead_set/messages/pointer?stream=orders&part=value", ""); a.status != 404 || !strings.Contains(a.text, "no longer has the record") {
		t.Errorf("%d %s", a.status, a.text)
	}
	if a := w.do("GET", "/v1/dead_set/messages/a?stream=plain", ""); a.status != 404 || !strings.Contains(a.text, "retries are off") {
		t.Errorf("%d %s", a.status, a.text)
	}
}

// A name of a file comes from an id, and that from anybody: it leads into no folder, and ends no
// header.
func TestAFileIsNamedByTheIDOfItsMessageWhateverThatIs(t *testing.T) {
	for id, name := range map[string]string{
		"orders.v1:0:7": "orders.v1_0_7", "../../b\"\r\n c\\": "_.._b____c_", "...": "message", "dк~op_1": "d_~op_1", strings.Repeat("x", 300) + ":7": strings.Repeat("x", 98) + "_7",
	} {
		if got := server.FileName(id); got != name {
			t.Errorf("%q is %q", id, got)
		}
	}
}
