package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/operations"
	"github.com/stepwell/stepwell/server"
)

// mayEdit has messages edited.
func mayEdit(c *server.Config) { c.Trash, c.EditLimit = 72*time.Hour, 1<<20 }

const editing = "/v1/dead_set/messages/a:0:7/edit"

// edited are the edits that were asked for so far.
func (s *set) edited() []edit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]edit{}, s.edits...)
}

func TestAnEditIsDoneAtOnceAndLeavesARecordAndALineWithoutWhatIsInTheMessage(t *testing.T) {
	w, _ := operating(t, mayEdit)
	a := w.do("POST", editing, `{"stream":"orders","value":"{\"secret\":1}","key":"AP8=","key_encoding":"base64","headers":[{"key":"h","value":null},{"key":"","value":""}],"note":"mended"}`)
	id, _ := a.json["id"].(string)
	if a.status != 200 || !strings.HasPrefix(id, "op_") || a.json["edited_id"] != "a:0:7~"+id || a.json["state"] != "done" || a.json["done"] != 1.0 || a.json["action"] != "edit" || a.json["by"] != "loopback" ||
		!strings.HasSuffix(fmt.Sprint(a.json["message"]), "stepwell dead-set undo "+id+" -s orders brings it back, and not the copy") {
		t.Fatalf("%d %s", a.status, a.text)
	}
	all := w.orders.edited()
	if len(all) != 1 {
		t.Fatalf("%d edits", len(all))
	}
	by := all[0].by
	if all[0].keep != 72*time.Hour || all[0].operation != id || all[0].id != "a:0:7" || string(*by.Value) != `{"secret":1}` || string(*by.Key) != "\x00\xff" ||
		len(*by.Headers) != 2 || (*by.Headers)[0].Key != "h" || (*by.Headers)[0].Value != nil || (*by.Headers)[1].Value == nil {
		t.Errorf("%+v", all[0])
	}
	found := w.do("GET", "/v1/dead_set/operations/"+id, "")
	if found.json["state"] != "done" || found.json["note"] != "mended" || fmt.Sprint(found.json["select"]) != "map[ids:[a:0:7]]" {
		t.Errorf("%d %s", found.status, found.text)
	}
	if list := w.do("GET", "/v1/dead_set/operations?state=done", ""); !strings.Contains(list.text, id) {
		t.Errorf("not listed: %s", list.text)
	}
	if log := w.log.String(); !strings.Contains(log, `"audit: message edited" by=loopback role=operator right=loopback address=127.0.0.1 action=edit stream=orders id=a:0:7 operation=`+id) || strings.Contains(log+found.text, "secret") {
		t.Errorf("log %s, record %s", log, found.text)
	}
	undone := w.do("POST", "/v1/dead_set/operations", `{"action":"restore","stream":"orders","select":{"operation":"`+id+`"}}`)
	if undone.status != 202 || !strings.Contains(undone.text, "it does not take back the edited copy") {
		t.Errorf("%d %s", undone.status, undone.text)
	}
}

func TestWhatIsNotGivenStaysAndNullIsNotEmpty(t *testing.T) {
	w, _ := operating(t, mayEdit)
	for body, want := range map[string]string{
		`{"stream":"orders","value":null}`: "null - -", `{"stream":"orders","value":""}`: `"" - -`, `{"stream":"orders","key":null}`: "- null -",
		`{"stream":"orders","headers":[]}`: "- - 0", `{"stream":"orders","channel":"slow","value":"x"}`: `"x" - -`,
	} {
		of := w.orders
		if strings.Contains(body, "slow") {
			of = w.slow
		}
		before := len(of.edited())
		if a := w.do("POST", editing, body); a.status != 200 {
			t.Fatalf("%s: %d %s", body, a.status, a.text)
		}
		by := of.edited()[before].by
		part := func(b *[]byte) string {
			switch {
			case b == nil:
				return "-"
			case *b == nil:
				return "null"
			}
			return fmt.Sprintf("%q", *b)
		}
		headers := "-"
		if by.Headers != nil {
			headers = fmt.Sprint(len(*by.Headers))
		}
		if got := fmt.Sprint(part(by.Value), " ", part(by.Key), " ", headers); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

func TestAnEditThatIsNotUnderstoodOrNotAllowedChangesNothing(t *testing.T) {
	const good = `{"stream":"orders","value":"x"}`
	for name, test := range map[string]struct {
		change func(*server.Config)
		body   string
		status int
		says   string
	}{
		"editing is off":             {func(c *server.Config) { c.EditLimit = 0 }, good, 409, "dead_set.edit=true allows it"},
		"there is no trash":          {func(c *server.Config) { c.Trash = 0 }, good, 409, "dead_set.trash=0"},
		"nobody sees values":         {func(c *server.Config) { c.Values = server.Nobody }, good, 403, "which nobody sees (dead_set.values=none)"},
		"nothing is given":           {nil, `{"stream":"orders"}`, 400, "value, key or headers is missing"},
		"no stream":                  {nil, `{"value":"x"}`, 400, "stream is missing; streams are: orders, plain"},
		"a name of queries":          {nil, `{"topic-entity":"orders","value":"x"}`, 400, "stream is missing; streams are: orders, plain; unknown member topic-entity"},
		"an unknown member":          {nil, `{"stream":"orders","valeu":"x"}`, 400, "did you mean value"},
		"a value that is no text":    {nil, `{"stream":"orders","value":{"a":1}}`, 400, "value must be a text"},
		"a broken base64":            {nil, `{"stream":"orders","value":"%","encoding":"base64"}`, 400, "value is not base64"},
		"an unknown encoding":        {nil, `{"stream":"orders","value":"%","encoding":"json"}`, 400, "encoding must be text or base64"},
		"an encoding alone":          {nil, `{"stream":"orders","encoding":"text","key":"k"}`, 400, "encoding is given, and no value"},
		"null in base64":             {nil, `{"stream":"orders","value":null,"encoding":"base64"}`, 400, "null without encoding"},
		"bytes that are no text":     {nil, "{\"stream\":\"orders\",\"value\":\"\xff\"}", 400, "give it as base64"},
		"half a surrogate":           {nil, `{"stream":"orders","value":"\ud800"}`, 400, "give it as base64"},
		"a header without a value":   {nil, `{"stream":"orders","headers":[{"key":"h"}]}`, 400, "headers[0].key and value must be there"},
		"a header whose key is null": {nil, `{"stream":"orders","headers":[{"key":null,"value":"v"}]}`, 400, "headers[0].key and value must be there"},
		"headers that are no list":   {nil, `{"stream":"orders","headers":{"h":"v"}}`, 400, "headers must be a list"},
		"a note that is too long":    {nil, `{"stream":"orders","value":"x","note":"` + strings.Repeat("n", 501) + `"}`, 400, "501 bytes"},
		"two of one":                 {nil, `{"stream":"orders","value":"x","value":"y"}`, 400, "given twice"},
		"more than may be sent":      {func(c *server.Config) { c.EditLimit = 100 }, `{"stream":"orders","value":"` + strings.Repeat("x", 100) + `"}`, 413, "larger than 100 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := operating(t, mayEdit, func(c *server.Config) {
				if test.change != nil {
					test.change(c)
				}
			})
			a := w.do("POST", editing, test.body)
			if a.status != test.status || !strings.Contains(fmt.Sprint(a.json["detail"]), test.says) {
				t.Errorf("%d %s", a.status, a.text)
			}
			if len(w.orders.edited()) > 0 || strings.Contains(w.log.String(), "audit") {
				t.Errorf("edited: %v, log %s", w.orders.edited(), w.log)
			}
		})
	}
}

func TestAPathWithoutAnIDNamesNoMessage(t *testing.T) {
	w, _ := operating(t, mayEdit)
	a := w.do("POST", "/v1/dead_set/messages//edit", `{"stream":"orders","value":"x"}`)
	if a.status != 400 || !strings.Contains(fmt.Sprint(a.json["detail"]), "its id is empty") {
		t.Errorf("%d %s", a.status, a.text)
	}
	if all := w.orders.edited(); len(all) > 0 || strings.Contains(w.log.String(), "audit") {
		t.Errorf("edited: %v, log %s", all, w.log)
	}
}

// Who may change things and may not see values edits nothing either: the edit would be of what they
// do not know.
func TestWhoSeesNoValuesEditsNone(t *testing.T) {
	w, _ := operating(t, mayEdit, func(c *server.Config) { c.Tokens, c.Values = staff(), server.Operator })
	for token, status := range map[string]int{"bob's own": 403, "alice's own": 200} {
		if a := w.do("POST", editing, `{"stream":"orders","value":"x"}`, "Authorization", "Bearer "+token); a.status != status {
			t.Errorf("%s: %d %s", token, a.status, a.text)
		}
	}
}

func TestAnEditTakesNoKeyThatItWouldNotKeep(t *testing.T) {
	w, _ := operating(t, mayEdit)
	a := w.do("POST", editing, `{"stream":"orders","value":"x"}`, "Idempotency-Key", "k")
	if a.status != http.StatusBadRequest || !strings.Contains(a.text, "Idempotency-Key") || len(w.orders.edited()) > 0 {
		t.Errorf("%d %s", a.status, a.text)
	}
}

func TestAnEditThatFailsSaysWhetherAnythingWasDone(t *testing.T) {
	for of, want := range map[error]struct {
		status int
		state  string
	}{
		server.ErrNotFound: {404, "refused"}, server.ErrNoEdit: {409, "refused"}, server.ErrTooLarge: {413, "refused"}, server.ErrUnavailable: {503, "refused"}, server.ErrBusy: {409, "refused"},
		server.ErrHalfEdited: {503, "failed"}, errors.New("broken"): {500, "refused"},
	} {
		w, _ := operating(t, mayEdit)
		w.orders.fail(func(context.Context) (server.Result, error) { return server.Result{}, fmt.Errorf("edit: %w", of) })
		a := w.do("POST", editing, `{"stream":"orders","value":"x"}`)
		id, _ := a.json["operation"].(string)
		if a.status != want.status || id == "" || of == server.ErrHalfEdited && a.header.Get("Retry-After") != "" {
			t.Errorf("%v: %d %s", of, a.status, a.text)
		}
		if o := w.do("GET", "/v1/dead_set/operations/"+id, ""); o.json["state"] != want.state || o.json["done"] != 0.0 {
			t.Errorf("%v: %s", of, o.text)
		}
	}
}

func TestAnEditWithMoreMistakesThanAnybodyReadsIsToldOfSome(t *testing.T) {
	w, _ := operating(t, mayEdit)
	a := w.do("POST", editing, `{"stream":"orders","headers":[`+strings.Repeat(`{"key":1,"value":2,"x":3},`, 9999)+`{}]}`)
	if a.status != http.StatusBadRequest || len(a.text) > 8<<10 || !strings.Contains(a.text, "headers[0].key must be a text") || !strings.Contains(a.text, "mistakes more") {
		t.Errorf("%d, %d bytes: %.2000s", a.status, len(a.text), a.text)
	}
}

// Who edits while the broker stalls waits long, and has to be told that somebody must look.
func TestAnEditThatTakesAllItsTimeIsAnsweredAllTheSame(t *testing.T) {
	w, _ := operating(t, mayEdit, func(c *server.Config) { c.WriteTimeout = 100 * time.Millisecond })
	w.orders.fail(func(ctx context.Context) (server.Result, error) {
		<-ctx.Done()
		return server.Result{}, fmt.Errorf("edit: %w", server.ErrHalfEdited)
	})
	if a := w.do("POST", editing, `{"stream":"orders","value":"x"}`); a.status != http.StatusServiceUnavailable || a.json["operation"] == nil {
		t.Errorf("%d %s", a.status, a.text)
	}
}

func TestAnEditWaitsForNoOperationAndIsRefusedBesideOne(t *testing.T) {
	w, p := operating(t, mayEdit)
	w.do("POST", "/v1/dead_set/operations", `{"action":"replay","stream":"orders","select":{"all":true}}`)
	<-p.asked
	a := w.do("POST", editing, `{"stream":"orders","value":"x"}`)
	if id, _ := a.json["operation"].(string); a.status != http.StatusConflict || id == "" || len(w.orders.edited()) > 0 {
		t.Errorf("%d %s", a.status, a.text)
	}
}

func FuzzAnEditIsUnderstoodWholeOrRefused(f *testing.F) {
	f.Add(`{"stream":"orders","value":"x","key":null,"headers":[{"key":"h","value":"v"}]}`)
	f.Add(`{"stream":"orders","value":"AA==","encoding":"base64","VALUE":"y"}`)
	f.Add("{\"stream\":\"orders\",\"value\":\"\xc3\\ud83d\"}")
	w := start(f, func(c *server.Config) {
		mayEdit(c)
		c.Operations = operations.New(operations.Config{Store: operations.NewMemory()})
	})
	f.Fuzz(func(t *testing.T, body string) {
		before, slow := len(w.orders.edited()), len(w.slow.edited())
		req := httptest.NewRequest(http.MethodPost, editing, strings.NewReader(body))
		req.Host = "localhost"
		req.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		w.server.Handler().ServeHTTP(rec, req)
		all := append(w.orders.edited()[before:], w.slow.edited()[slow:]...)
		if rec.Code >= 500 || (rec.Code == http.StatusOK) != (len(all) > 0) {
			t.Fatalf("%s: %d %s", body, rec.Code, rec.Body)
		}
		if rec.Code != http.StatusOK {
			return
		}
		var sent struct {
			Value    *string
			Encoding string
		}
		if err := json.Unmarshal([]byte(body), &sent); err != nil {
			t.Fatalf("%s: taken, and %v", body, err)
		}
		by := all[len(all)-1].by
		if sent.Encoding != "base64" && sent.Value != nil && (by.Value == nil || string(*by.Value) != *sent.Value || !strings.Contains(body, "value")) {
			t.Fatalf("%q: %+v", body, by)
		}
	})
}
