package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
)

const (
	mayEdit    = "DEAD_SET_EDIT=true"
	difference = "Show the difference…"
)

func formOf(id string) string {
	return "/console/edit?" + url.Values{"stream": {"orders"}, "id": {id}}.Encode()
}

// handledAs waits until so many were handled, and returns the last.
func (w *world) handledAs(n int64) stepwell.Message {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("%d are handled", n), func() bool { return w.handled.Load() == n })
	return *w.last.Load()
}

func TestAPersonEditsAMessageSeesTheDifferenceAndUndoesItWithoutAnyScript(t *testing.T) {
	t.Parallel()
	w := start(t, mayEdit)
	w.die(1, &kgo.Record{Key: []byte("k"), Value: []byte(`{"total": "12", "note": "ß"}`), Headers: []kgo.RecordHeader{{Key: "tenant", Value: []byte("a")}, {Key: "none"}, {Key: "bytes", Value: []byte{0xff}}}})
	w.mended.Store(true)
	p := w.visit("/console/message?stream=orders&id=orders.v1:0:0")
	p.follow("Edit…")
	p.has(t, "Edit orders.v1:0:0", "the message itself goes to the trash")
	headers := p.edits(nil).Get("headers")
	p.press(difference, map[string]string{"value": `{"total": 12, "note": "ß"}`, "headers": strings.Replace(headers, `"value":"a"`, `"value":"b"`, 1), "note": "the total was a text"})
	p.has(t, "Edit orders.v1:0:0 ?", `"total": "12" , "note"`, `"total": 12 , "note"`, "Before, 29 bytes", "After, 27 bytes", "Note: the total was a text", "All else stays as it is")
	if w.handled.Load() > 0 || w.dead() != 1 {
		t.Fatalf("%d handled, %d dead before anybody said yes", w.handled.Load(), w.dead())
	}
	p.press("Change it further", nil)
	p.press(difference, map[string]string{"key": "k2"})
	p.press("Edit", nil)
	p.has(t, "edit of orders", "done 1 of 1", "the total was a text", "does not take back the edited copy")
	m := w.handledAs(1)
	if string(m.Value) != `{"total": 12, "note": "ß"}` || string(m.Key) != "k2" || len(m.Headers) != 3 || string(m.Headers[0].Value) != "b" || m.Headers[1].Value != nil || string(m.Headers[2].Value) != "\xff" {
		t.Errorf("handled %+v", m)
	}
	if id := operationIn(p.path); m.ID != "orders.v1:0:0~"+id {
		t.Errorf("the copy is %s, of %s", m.ID, id)
	}
	eventually(t, "the message is gone", func() bool { return w.dead() == 0 })
	p.follow("Undo…")
	p.press("Restore 1", nil)
	eventually(t, "it is back", func() bool { return w.dead() == 1 })
	p = w.visit("/console/message?stream=orders&id=orders.v1:0:0")
	p.has(t, `"total": "12"`)
}

func TestTheTrashLeadsToTheOperationThatPutSomethingThere(t *testing.T) {
	t.Parallel()
	w := start(t, mayEdit)
	w.die(1, records(1, "no")...)
	w.mended.Store(true)
	p := w.visit(formOf("orders.v1:0:0"))
	p.press(difference, map[string]string{"value": "mended"})
	p.press("Edit", nil)
	w.handledAs(1)
	operation := p.path
	p.open("GET", "/console/trash?stream=orders", nil)
	p.follow(operationIn(operation))
	p.has(t, "edit of orders", "done 1 of 1")
	if p.path != operation {
		t.Errorf("it leads to %s, not %s", p.path, operation)
	}
	// A delete by count leaves no operation behind.
	w.mended.Store(false)
	w.die(1, records(1, "no")...)
	a := w.send("DELETE", "/v1/dead_set?stream=orders&count=1", "", "")
	_, undo, _ := strings.Cut(a.text, `"undo":"`)
	undo, _, _ = strings.Cut(undo, `"`)
	p.open("GET", "/console/trash?stream=orders&operation="+undo, nil)
	p.has(t, "1 of 2 in the trash match", "Restore all of it…")
	if status := p.ask("GET", p.linkTo(undo), nil); status != http.StatusNotFound || !strings.Contains(p.text, "A delete by count leaves none") {
		t.Errorf("%d %s", status, p.text)
	}
}

// A browser sends CR LF for each end of a line, and leaves out a line feed at the beginning of a
// field. Neither may become a part of a message.
func TestAValueOfWhichAPersonChangedNothingStaysByteForByte(t *testing.T) {
	t.Parallel()
	w := start(t, mayEdit)
	values := []string{
		"", "a", "a\nb", "\n", "\na", "\n\n\na\n\n", "a\r\nb", "\r\na\r\n", " a \t ", "<b>&amp;\"'", "\ufeffa", "\x01\x1f\x7f\u0085\u2028", "注文\U0001F600", "{{.}}</textarea>\n", "+%2B %0A",
	}
	var all []*kgo.Record
	for i, value := range values {
		all = append(all, &kgo.Record{Key: fmt.Append(nil, "\nk", i), Value: []byte(value)})
	}
	w.die(len(values), all...)
	w.mended.Store(true)
	for i, value := range values {
		id := fmt.Sprintf("orders.v1:0:%d", i)
		p := w.visit(formOf(id))
		if status := p.ask("POST", "/console/edit", p.edits(nil)); status != http.StatusUnprocessableEntity || !strings.Contains(p.text, "nothing was changed") {
			t.Errorf("%q as it was: %d %s", value, status, p.text)
		}
		ends := "\n"
		if strings.Contains(value, "\r") {
			ends = "\r\n"
		}
		for n, change := range []struct{ field, text, value, key string }{
			{"key", "\n\nother\n", value, "\n\nother\n"},
			{"value", p.edits(nil).Get("value") + "\r\nmore", value + ends + "more", fmt.Sprint("\nk", i)},
		} {
			p := w.visit(formOf(id))
			p.open("POST", "/console/edit", p.edits(map[string]string{change.field: change.text}))
			p.press("Edit", nil)
			if m := w.handledAs(int64(2*i + n + 1)); string(m.Value) != change.value || string(m.Key) != change.key || m.Value == nil {
				t.Errorf("%q with another %s became %q, key %q", value, change.field, m.Value, m.Key)
			}
			p.follow("Undo…")
			p.press("Restore 1", nil)
			restore := p.path
			eventually(t, "it is back", func() bool {
				p.open("GET", restore, nil)
				return strings.Contains(p.text, "done 1 of 1")
			})
		}
	}
}

// What no form keeps is in none: it stays, whatever else is changed.
func TestWhatAFormWouldNotKeepIsNotInOneAndStays(t *testing.T) {
	t.Parallel()
	w := start(t, mayEdit, "DEAD_SET_EDIT_LIMIT=64KiB")
	values := map[string]string{
		"\xff\x00": "it is no text", "a\x00b": "it is no text", "\uFFFD": "it is no text", "a\r\nb\nc": "different ways", "a\rb": "different ways", strings.Repeat("x", 30000): "it has 30,000 bytes",
	}
	i := 0
	for value, why := range values {
		w.mended.Store(false)
		w.die(1, &kgo.Record{Key: []byte(value), Value: []byte(value)})
		w.mended.Store(true)
		p := w.visit(formOf(fmt.Sprintf("orders.v1:0:%d", i)))
		p.has(t, "Value: not edited here, since", "Key: not edited here, since", why)
		form := p.edits(map[string]string{"headers": `[{"key": "h", "value": "v"}]`})
		if form.Has("value") || form.Has("key") {
			t.Errorf("%.20q is in the form: %v", value, form)
		}
		form.Set("value", "forged")
		if status := p.ask("POST", "/console/edit", form); status != http.StatusUnprocessableEntity {
			t.Errorf("%.20q is replaced by what its page never had: %d %s", value, status, p.text)
		}
		form.Del("value")
		p.open("POST", "/console/edit", form)
		p.press("Edit", nil)
		i++
		if m := w.handledAs(int64(i)); string(m.Value) != value || string(m.Key) != value || len(m.Headers) != 1 {
			t.Errorf("%.20q became %.20q, key %.20q, headers %v", value, m.Value, m.Key, m.Headers)
		}
		eventually(t, "it is gone", func() bool { return w.dead() == 0 })
	}
}

func TestNullIsNotEmptyAndBothCanBeMadeOfTheOther(t *testing.T) {
	t.Parallel()
	w := start(t, mayEdit)
	w.die(2, &kgo.Record{Value: []byte("no")}, &kgo.Record{Key: []byte("k")})
	w.mended.Store(true)
	p := w.visit(formOf("orders.v1:0:0"))
	p.press(difference, map[string]string{"value": "", "value_null": "true"})
	p.has(t, "null")
	p.press("Change it further", nil)
	p.press(difference, nil)
	p.press("Edit", nil)
	if m := w.handledAs(1); m.Value != nil || m.Key != nil {
		t.Errorf("%+v", m)
	}
	p = w.visit(formOf("orders.v1:0:1"))
	p.press(difference, map[string]string{"value_null": ""})
	p.press("Edit", nil)
	if m := w.handledAs(2); m.Value == nil || len(m.Value) > 0 || string(m.Key) != "k" {
		t.Errorf("%+v", m)
	}
}

// What was typed is on the page that says what is wrong with it.
func TestAMistakeInAnEditIsToldAndNothingTypedIsLost(t *testing.T) {
	t.Parallel()
	w := start(t, mayEdit, "DEAD_SET_EDIT_LIMIT=16KiB")
	w.die(1, &kgo.Record{Key: []byte("k"), Value: []byte("no"), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("v")}}})
	typed := func(fill map[string]string) map[string]string {
		all := map[string]string{"value": "typed\nby a person", "note": "typed note"}
		for name, text := range fill {
			all[name] = text
		}
		return all
	}
	for _, test := range []struct {
		fill   map[string]string
		status int
		says   string
	}{
		{map[string]string{"value_null": "true"}, 422, "value is a text, and null"},
		{map[string]string{"key": "a\uFFFDb"}, 422, "key has U+FFFD or NUL in it"},
		{map[string]string{"headers": "h: v"}, 422, "headers are no list in JSON"},
		{map[string]string{"headers": ""}, 422, "headers are no list in JSON"},
		{map[string]string{"headers": `{"h":"v"}`}, 422, "headers are no list in JSON"},
		{map[string]string{"headers": `[{"key":"h"}]`}, 400, "headers[0].key and value must be there"},
		{map[string]string{"headers": `[{"key":"h","value":"%","encoding":"base64"}]`}, 400, "headers[0].value is not base64"},
		{map[string]string{"headers": `[{"key":"h","value":"x","valeu":"y"}]`}, 400, "unknown member"},
		{map[string]string{"note": strings.Repeat("n", 501)}, 400, "note is 501 bytes long"},
		{map[string]string{"key": strings.Repeat("k", 13000)}, 413, "DEAD_SET_EDIT_LIMIT"},
	} {
		fill := typed(test.fill)
		p := w.visit(formOf("orders.v1:0:0"))
		status := p.ask("POST", "/console/edit", p.edits(fill))
		if status == http.StatusOK { // what /v1 alone knows to be wrong
			form := p.edits(nil)
			form.Set("do", "edit")
			status = p.ask("POST", "/console/edit", form)
		}
		if status != test.status || !strings.Contains(p.text, test.says) {
			t.Errorf("%.60v: %d %s", test.fill, status, p.text)
		}
		again := p.edits(nil)
		for name, text := range fill {
			if got := again.Get(name); strings.Join(strings.Fields(got), "") != strings.Join(strings.Fields(text), "") {
				t.Errorf("%.60v: %s has %.80q now", test.fill, name, got)
			}
		}
	}
	if got := w.get("/v1/dead_set/operations").text; strings.Contains(got, "op_") || w.dead() != 1 {
		t.Errorf("operations: %s", got)
	}
	// Larger than is read at all.
	form := w.visit(formOf("orders.v1:0:0")).edits(map[string]string{"value": strings.Repeat("x", 17000)})
	if a := w.try("POST", "/console/edit", form, "Origin", w.base); a.status != http.StatusRequestEntityTooLarge || !strings.Contains(a.text, "16384 bytes (SHOP_DEAD_SET_EDIT_LIMIT)") {
		t.Errorf("%d %s", a.status, a.text)
	}
}

// The button of a page that is old, or was pressed before.
func TestAnEditOfWhatIsGoneOrAnotherSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := start(t, mayEdit)
	w.die(1, records(1, "no")...)
	w.mended.Store(true)
	p := w.visit(formOf("orders.v1:0:0"))
	p.press(difference, map[string]string{"value": "mended"})
	form := p.edits(nil)
	form.Set("do", "edit")
	other := url.Values{}
	for name := range form {
		other.Set(name, form.Get(name))
	}
	for _, was := range []string{"", "00"} {
		other.Set("was", was)
		if status := p.ask("POST", "/console/edit", other); status != http.StatusConflict || !strings.Contains(p.text, "look at the difference again") || p.edits(nil).Get("value") != "mended" {
			t.Errorf("of another: %d %s", status, p.text)
		}
	}
	if status := p.ask("POST", "/console/edit", form); status != http.StatusOK {
		t.Fatalf("%d %s", status, p.text)
	}
	w.handledAs(1)
	eventually(t, "it is gone", func() bool { return w.dead() == 0 })
	if status := p.ask("POST", "/console/edit", form); status != http.StatusNotFound || !strings.Contains(p.text, "It may have been edited, replayed or deleted meanwhile") {
		t.Errorf("pressed again: %d %s", status, p.text)
	}
	if w.handled.Load() != 1 {
		t.Errorf("%d were handled", w.handled.Load())
	}
}

// Where nobody may edit there is nothing of it, and a form that is sent all the same is refused.
func TestWithoutTheSettingNoPageOffersAnEditAndNoneIsTaken(t *testing.T) {
	t.Parallel()
	for setting, says := range map[string]string{"DEAD_SET_EDIT=false": "DEAD_SET_EDIT=true allows it", "DEAD_SET_EDIT_LIMIT=2MiB": "DEAD_SET_EDIT=true allows it"} {
		w := start(t, setting)
		w.die(1, records(1, "no")...)
		if p := w.visit("/console/message?stream=orders&id=orders.v1:0:0"); strings.Contains(p.text, "Edit…") {
			t.Errorf("%s: %s", setting, p.text)
		}
		form := url.Values{"stream": {"orders"}, "id": {"orders.v1:0:0"}, "value": {"x"}}
		for _, do := range []string{"", "type", "edit"} {
			form.Set("do", do)
			if a := w.try("POST", "/console/edit", form, "Origin", w.base); a.status != http.StatusConflict || !strings.Contains(a.text, says) {
				t.Errorf("%s: %d %s", setting, a.status, a.text)
			}
		}
		if a := w.try("GET", formOf("orders.v1:0:0"), nil); a.status != http.StatusConflict || !strings.Contains(a.text, says) {
			t.Errorf("%s: %d %s", setting, a.status, a.text)
		}
		form.Set("value", strings.Repeat("x", 65<<10))
		if a := w.try("POST", "/console/edit", form, "Origin", w.base); a.status != http.StatusRequestEntityTooLarge || !strings.Contains(a.text, "SERVER_BODY_LIMIT") {
			t.Errorf("%s: a large form: %d %s", setting, a.status, a.text)
		}
	}
}

// Who may edit sees the message and may act; all others get neither the form, nor the difference,
// which would show the message, nor the edit.
func TestWhoMayNotEditIsOfferedNothingAndRefusedWhateverTheySend(t *testing.T) {
	t.Parallel()
	for _, values := range []string{"viewer", "operator"} {
		w := start(t, staff, mayEdit, "DEAD_SET_VALUES="+values)
		id := w.secret()
		of := url.Values{"stream": {"orders"}, "channel": {"slow"}, "id": {id}}
		page := "/console/message?" + of.Encode()
		forms := []url.Values{}
		for _, do := range []string{"", "type", "edit"} {
			form := url.Values{"value": {"x"}, "do": {do}}
			for name := range of {
				form.Set(name, of.Get(name))
			}
			forms = append(forms, form)
		}
		bob, alice := []string{"Cookie", w.login(bobs), "Origin", w.base}, []string{"Cookie", w.login(alices), "Origin", w.base}
		if a := w.get(page, bob...); strings.Contains(a.text, "Edit…") {
			t.Errorf("values for %s: a viewer is offered an edit", values)
		}
		for _, form := range forms {
			if a := w.try("POST", "/console/edit", form, bob...); a.status != http.StatusForbidden || marked(a.text) {
				t.Errorf("values for %s: a viewer posts %v: %d %s", values, form, a.status, a.text)
			}
		}
		if a := w.try("GET", "/console/edit?"+of.Encode(), nil, bob...); a.status != http.StatusForbidden || marked(a.text) {
			t.Errorf("values for %s: a viewer: %d %s", values, a.status, a.text)
		}
		// A large form is for those who may edit.
		forms[0].Set("value", strings.Repeat("x", 65<<10))
		for who, test := range map[string]struct {
			headers []string
			status  int
		}{"viewer": {bob, 413}, "nobody": {[]string{"Origin", w.base}, 413}, "operator": {alice, 200}} {
			if a := w.try("POST", "/console/edit", forms[0], test.headers...); a.status != test.status {
				t.Errorf("values for %s: a large form of a %s: %d %.400s", values, who, a.status, a.text)
			}
		}
		if a := w.get(page, alice...); !strings.Contains(a.text, "Edit…") {
			t.Errorf("values for %s: an operator is offered none: %s", values, a.text)
		}
		if got := w.get("/v1/dead_set/operations", "Authorization", "Bearer "+alices).text; strings.Contains(got, "op_") {
			t.Errorf("operations: %s", got)
		}
	}
}
