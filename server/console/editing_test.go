package console

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

// editable is a console whose users may edit a message that has a text wherever it has one; doing
// is what /v1 answers to an edit of something.
func editable(t *testing.T, text string, doing http.HandlerFunc) *Console {
	t.Helper()
	api := answers(text)
	c, err := New(Config{App: "shipping", Everybody: User{Acts: true, Reads: true}, EditLimit: 1 << 20, Work: t.Context(), Logger: slog.New(slog.DiscardHandler), API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/edit") {
			if r.URL.Query().Has("part") {
				api.ServeHTTP(w, r)
				return
			}
			a := httptest.NewRecorder()
			api.ServeHTTP(a, r)
			_, _ = w.Write([]byte(strings.ReplaceAll(a.Body.String(), `"truncated":true`, `"truncated":false`)))
			return
		}
		var wish map[string]any
		if err := json.NewDecoder(r.Body).Decode(&wish); err != nil {
			t.Error(err)
		}
		if len(wish) == 1 { // who may, is asked: stream alone
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		doing(w, r)
	})})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// post sends a form of an edit.
func (c *Console) post(ctx context.Context, form url.Values) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/console/edit", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "http://localhost")
	_ = r.ParseForm()
	c.ServeHTTP(w, r)
	return w
}

// toldOf is the form of the page that asks, with the button that edits.
func toldOf(t *testing.T, w *httptest.ResponseRecorder) url.Values {
	t.Helper()
	page, err := html.Parse(strings.NewReader(w.Body.String()))
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %v %s", w.Code, err, w.Body)
	}
	form := url.Values{"do": {"edit"}}
	for n := range page.Descendants() {
		at := map[string]string{}
		for _, a := range n.Attr {
			at[a.Key] = a.Val
		}
		if n.Data == "input" && at["type"] == "hidden" {
			form.Set(at["name"], at["value"])
		}
	}
	return form
}

// What a message has, and what somebody types into a form, is text on each page of an edit: of the
// form, of the difference, and of the form once more.
func TestNoTextOfAnEditBecomesAnythingElse(t *testing.T) {
	for _, text := range hostile {
		c := editable(t, text, refusing(http.StatusConflict, text).ServeHTTP)
		encoded, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		typed := strings.ReplaceAll(text, "\x00", "")
		form := url.Values{"stream": {text}, "id": {text}, "value": {typed + "!" + typed}, "key": {"!" + typed}, "headers": {fmt.Sprintf(`[{"key":%s,"value":%s}]`, encoded, encoded)}, "note": {text}}
		if strings.Contains(text, "\x00") {
			form.Del("value") // it is no text there
			form.Del("key")
		}
		asks := c.post(t.Context(), form)
		pages := map[string]*httptest.ResponseRecorder{"difference": asks, "refused": c.post(t.Context(), toldOf(t, asks))}
		back := toldOf(t, asks)
		back.Set("do", "type")
		pages["form again"] = c.post(t.Context(), back)
		form.Set("headers", text)
		pages["mistake"] = c.post(t.Context(), form)
		for name, w := range pages {
			if want := map[string]int{"difference": 200, "form again": 200, "refused": 409, "mistake": 422}[name]; w.Code != want {
				t.Errorf("%s of %q: %d %s", name, text, w.Code, w.Body)
			}
			page, err := html.Parse(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			fields := 0
			for n := range page.Descendants() {
				harmless(t, name, n)
				if n.Data == "textarea" {
					fields++
				}
			}
			if fields > 3 {
				t.Errorf("%s of %q: %d fields", name, text, fields)
			}
		}
	}
}

func TestWhatWasEditedOrDeletedCanBeUndoneAndWhatWasRefusedMovedNothing(t *testing.T) {
	for _, test := range []struct {
		action, phase string
		done          int
		is            bool
	}{
		{"edit", "done", 1, true}, {"edit", "failed", 0, true}, {"edit", "refused", 0, false}, // one that failed may have moved it
		{"delete", "done", 1, true}, {"delete", "failed", 1, true}, {"delete", "cancelled", 1, true}, {"delete", "refused", 0, false},
		{"delete", "done", 0, false}, {"delete", "cancelled", 0, false}, {"delete", "running", 0, true}, // there will be
		{"replay", "done", 1, false},
	} {
		o := operation{ID: "op_1", Action: test.action, Stream: "orders", Phase: test.phase, Done: test.done, Trash: "72h", CreatedAt: time.Now()}
		if to := o.Undo(); (to != "") != test.is {
			t.Errorf("%s %s of %d: an undo leads to %q", test.action, test.phase, test.done, to)
		}
	}
	if o := (operation{ID: "op_1", Action: "delete", Stream: "orders", Phase: "cancelled", Why: "what its last turn did is not counted", Trash: "72h", CreatedAt: time.Now()}); o.Undo() == "" {
		t.Error("what may have been moved, and is not counted, cannot be undone")
	}
}

// A difference that nobody sees is said to be one.
func TestADifferenceShowsWhatIsNotTheSame(t *testing.T) {
	long := strings.Repeat("ж", 500)
	for _, test := range []struct{ was, now, before, after string }{
		{`{"total":"12"}`, `{"total":12}`, `{"total":["12"]}`, `{"total":[12]}`},
		{"a\n", "a", "a[↵\n]", "a[]"},
		{"a", "a \n", "a[]", "a[ ↵\n]"},
		{"aa", "aaa", "aa[]", "aa[a]"},
		{"жа", "же", "ж[а]", "ж[е]"},
		{long + "a" + long, long + "b" + long, "…" + long[:200] + "[a]" + long[:200] + "…", "…" + long[:200] + "[b]" + long[:200] + "…"},
		{"a", strings.Repeat("x", maxOwn+1), "[a]", "[" + strings.Repeat("x", maxOwn) + "…]"},
	} {
		p := partOf("value", []byte(test.was), len(test.was), formLimit{bytes: 1 << 20})
		if err := p.take(test.now, false); err != nil {
			t.Fatal(err)
		}
		of := p.change()
		for want, s := range map[string]side{test.before: of.Before, test.after: of.After} {
			if got := s.Lead + "[" + s.Own + "]" + s.Tail; got != want {
				t.Errorf("%.40q to %.40q is shown as %q, want %q", test.was, test.now, got, want)
			}
		}
		if of.Before.Size != len(test.was) || of.After.Size != len(test.now) {
			t.Errorf("%.40q to %.40q: %d and %d bytes", test.was, test.now, of.Before.Size, of.After.Size)
		}
	}
}

// Of what may have been done half nobody says that it was not, and no form asks to do it again.
func TestAnEditThatFailsSaysWhatToDo(t *testing.T) {
	for _, test := range []struct {
		name, answer, retryAfter string
		status                   int
		says                     string
		form                     bool
	}{
		{"half done", `{"detail":"the edited copy may have been sent: look there","operation":"op_1"}`, "", 503, `the edited copy may have been sent: look there`, false},
		{"away", `{"detail":"the queues are not available","operation":"op_1"}`, "5", 503, "Nothing was done: the queues are not available", true},
		{"busy", `{"detail":"another replay is under way"}`, "1", 409, "Nothing was done: another replay is under way", true},
		{"two of them", `{"detail":"2 messages have this id"}`, "", 409, "Nothing was done: 2 messages have this id", true},
		{"too large", `{"detail":"the message is larger than the queues take"}`, "", 413, "Nothing was done: the message is larger than the queues take", true},
		{"gone", `{"detail":"no dead message has this id"}`, "", 404, "It may have been edited, replayed or deleted meanwhile", false},
		{"ours", `{"detail":"the log says what"}`, "", 500, "the log says what", false},
	} {
		c := editable(t, "k", func(w http.ResponseWriter, _ *http.Request) {
			if test.retryAfter != "" {
				w.Header().Set("Retry-After", test.retryAfter)
			}
			w.WriteHeader(test.status)
			fmt.Fprint(w, test.answer)
		})
		asks := c.post(t.Context(), url.Values{"stream": {"orders"}, "id": {"k"}, "value": {"typed by a person"}})
		w := c.post(t.Context(), toldOf(t, asks))
		page := w.Body.String()
		if w.Code != test.status || !strings.Contains(page, test.says) || w.Header().Get("Retry-After") != test.retryAfter {
			t.Errorf("%s: %d %v %s", test.name, w.Code, w.Header(), page)
		}
		if test.form != strings.Contains(page, ">\ntyped by a person</textarea>") {
			t.Errorf("%s: a form is there: %t, %s", test.name, !test.form, page)
		}
		if half := test.name == "half done"; half != strings.Contains(page, `href="/console/operation?id=op_1"`) || half && (strings.Contains(page, "Nothing") || strings.Contains(page, "tried again")) {
			t.Errorf("%s: %s", test.name, page)
		}
	}
}

// Who presses a button twice leaves the first page: its request ends, and the edit must not end
// half way. It ends when the actor does.
func TestAnEditGoesOnForWhoHasLeftAndEndsWithTheActor(t *testing.T) {
	page, leave := context.WithCancel(t.Context())
	work, stop := context.WithCancel(t.Context())
	c := editable(t, "k", func(w http.ResponseWriter, r *http.Request) {
		leave()
		if err := r.Context().Err(); err != nil {
			t.Errorf("the edit ends with the page: %v", err)
		}
		stop()
		select {
		case <-r.Context().Done():
		case <-time.After(10 * time.Second):
			t.Error("the edit does not end with the actor")
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	c.cfg.Work = work
	asks := c.post(page, url.Values{"stream": {"orders"}, "id": {"k"}, "value": {"x"}})
	c.post(page, toldOf(t, asks))
	if page.Err() == nil || work.Err() == nil {
		t.Error("it was not asked for")
	}
}

// Whatever bytes a part has: it is not in the form, or a browser's way with text changes nothing of
// it.
func FuzzAPartComesBackFromAFormAsItWas(f *testing.F) {
	for _, text := range append(hostile, "", "\n", "\r\n", "a\r\nb\n", "\r", "\xff", "\ufeff\n\n", "a\r\n\r\n") {
		f.Add([]byte(text), "b\r\nc")
	}
	f.Fuzz(func(t *testing.T, b []byte, more string) {
		if b == nil {
			b = []byte{}
		}
		p := partOf("value", b, len(b), formLimit{bytes: 1 << 20})
		if p.Why != "" {
			return
		}
		page, err := html.Parse(strings.NewReader("<textarea>\n" + html.EscapeString(p.Text) + "</textarea>"))
		if err != nil {
			t.Fatal(err)
		}
		var field string
		for n := range page.Descendants() {
			if n.Type == html.TextNode {
				field += n.Data
			}
		}
		sent := strings.ReplaceAll(field, "\n", "\r\n")
		if err := p.take(lines(sent), false); err != nil || p.changed() || string(p.bytes()) != string(b) {
			t.Fatalf("%q came back as %q, %q: %v", b, p.Text, p.bytes(), err)
		}
		if err := p.take(lines(sent+more), false); err == nil && !strings.HasPrefix(string(p.bytes()), string(b)) {
			t.Fatalf("%q with %q became %q", b, more, p.bytes())
		}
		of := p.change()
		for _, s := range []*side{&of.Before, &of.After} {
			if seen := strings.ReplaceAll(s.Own, "↵\n", "\n"); strings.TrimSpace(seen) == "" {
				s.Own = seen
			}
		}
		if len(p.was) < around && len(p.Text) < around && (of.Before.Lead+of.Before.Own+of.Before.Tail != p.was || of.After.Lead+of.After.Own+of.After.Tail != p.Text) {
			t.Fatalf("%q and %q are shown as %+v", p.was, p.Text, of)
		}
	})
}
