package actor_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
)

// fields are those of a form that a page has filled in: hidden ones, and texts of several lines.
var fields = regexp.MustCompile(`(?s)<input type="hidden" name="([^"]*)" value="([^"]*)">|<textarea name="([^"]*)"[^>]*>\n(.*?)</textarea>`)

// page gets a page of the console; seen says what has to be on it.
func (r *running) page(path string, seen ...string) string {
	r.t.Helper()
	status, answer := r.do("GET", path, "")
	text, _ := answer["text"].(string)
	if status != http.StatusOK || !hasAll(text, seen...) {
		r.t.Fatalf("%s: %d %v", path, status, answer)
	}
	return text
}

// submit sends the page's form of that action as a browser does. It returns where that leads, or
// the page that comes back.
func (r *running) submit(page, action string, fill map[string]string) (location, text string) {
	r.t.Helper()
	form := url.Values{}
	_, page, _ = strings.Cut(page, `action="`+action+`"`)
	page, _, _ = strings.Cut(page, "</form>")
	for _, of := range fields.FindAllStringSubmatch(page, -1) {
		// A browser sends CR LF for each end of a line.
		form.Add(html.UnescapeString(of[1]+of[3]), strings.ReplaceAll(html.UnescapeString(of[2]+of[4]), "\n", "\r\n"))
	}
	for name, text := range fill {
		form.Set(name, text)
	}
	base := "http://" + r.actor.Address()
	req, err := http.NewRequest(http.MethodPost, base+action, strings.NewReader(form.Encode()))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", base)
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	came, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusSeeOther && resp.StatusCode != http.StatusOK {
		r.t.Fatalf("the form %v: %d %s, %v", form, resp.StatusCode, came, err)
	}
	return resp.Header.Get("Location"), string(came)
}

// operates sends the form of a confirmation, and returns the page of the operation.
func (r *running) operates(page string, fill map[string]string) string {
	r.t.Helper()
	location, text := r.submit(page, "/console/operations", fill)
	if location == "" {
		r.t.Fatalf("no operation was begun: %s", text)
	}
	return location
}

// What the pages do is what RabbitMQ has done: one cause replayed, the other deleted, the third
// still there.
func TestACauseIsReplayedAndAnotherDeletedThroughTheConsole(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var mended atomic.Bool
		var handled atomic.Int64
		r := w.start(orders(func(_ context.Context, m *stepwell.Message) error {
			if mended.Load() {
				handled.Add(1)
				return nil
			}
			return stepwell.DeadLetter(errors.New(string(m.Value)))
		}), nil)
		var records []*kgo.Record
		for _, why := range []string{"bank away", "bank away", "bank away", "card refused", "card refused", "who knows"} {
			records = append(records, &kgo.Record{Value: []byte(why)})
		}
		w.produce(records...)
		r.deadCount(6)
		causes := r.page("/console/groups?stream=orders", "6 dead, by cause", "bank away", "card refused", "who knows")
		groups := regexp.MustCompile(`/console/confirm\?action=replay&amp;group=([0-9a-f]{12})`).FindAllStringSubmatch(causes, -1)
		if len(groups) != 3 {
			t.Fatalf("groups on the page: %v", groups)
		}
		mended.Store(true)
		replay := r.page("/console/confirm?stream=orders&action=replay&group="+groups[0][1], "Replay 3 messages?")
		operation := r.operates(replay, map[string]string{"rate": "100/s"})
		eventually(t, "the replay is done", func() bool { return strings.Contains(r.page(operation), "3 of 3") && handled.Load() == 3 })

		remove := r.page("/console/confirm?stream=orders&action=delete&group="+groups[1][1], "Delete 2 messages?")
		operation = r.operates(remove, nil)
		eventually(t, "the delete is done", func() bool { return strings.Contains(r.page(operation), "2 of 2") })
		if left := valuesOf(r.deadCount(1)); left != "who knows" || handled.Load() != 3 {
			t.Errorf("left is %s, handled were %d", left, handled.Load())
		}
	})
}

// What no form of a browser keeps as it is, an end of a line and bytes that are no text, RabbitMQ
// has handled as it was; and what is changed is changed there, and undone there.
func TestAMessageIsEditedAndTheEditUndoneThroughTheConsole(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var handled calls
		r := w.start(orders(func(_ context.Context, m *stepwell.Message) error {
			if strings.Contains(string(m.Value), `"12"`) {
				return stepwell.DeadLetter(errors.New("the total is a text"))
			}
			handled.add(m)
			return nil
		}), settings{"DEAD_SET_EDIT": "true"})
		was := &kgo.Record{Key: []byte("\xff\x00k"), Value: []byte("\n{\"total\": \"12\",\n \"note\": \"<ß>\"}\n"), Headers: []kgo.RecordHeader{{Key: "tenant", Value: []byte("a")}, {Key: "none"}, {Key: "bytes", Value: []byte{0xff}}}}
		w.produce(was)
		id := fmt.Sprint(r.deadCount(1)[0]["id"])
		where := url.Values{"stream": {"orders"}, "id": {id}}.Encode()

		form := r.page("/console/edit?"+where, "Show the difference…")
		_, difference := r.submit(form, "/console/edit", map[string]string{"value": "\r\n{\"total\": 12,\r\n \"note\": \"<ß>\"}\r\n", "note": "the total was a text"})
		if !hasAll(difference, fmt.Sprintf("Before, %d bytes", len(was.Value)), fmt.Sprintf("After, %d bytes", len(was.Value)-2), "Note: <bdi>the total was a text</bdi>") || len(handled.all()) > 0 {
			t.Fatalf("%d are handled before anybody said yes; the difference: %s", len(handled.all()), difference)
		}
		operation, refused := r.submit(difference, "/console/edit", map[string]string{"do": "edit"})
		if operation == "" {
			t.Fatalf("not edited: %s", refused)
		}
		done := r.page(operation, "edit of <bdi>orders</bdi>", "1 of 1", "the total was a text", "Undo…")
		eventually(t, "the copy is handled", func() bool { return len(handled.all()) == 1 })
		_, name, _ := strings.Cut(operation, "id=")
		m := handled.all()[0].m
		if string(m.Value) != "\n{\"total\": 12,\n \"note\": \"<ß>\"}\n" || string(m.Key) != string(was.Key) || m.ID != id+"~"+name || len(m.Headers) != 3 || m.Headers[1].Value != nil || string(m.Headers[2].Value) != "\xff" {
			t.Errorf("handled %q, key %q, headers %v, as %s", m.Value, m.Key, m.Headers, m.ID)
		}
		r.deadCount(0)

		undo := regexp.MustCompile(`href="([^"]*)">Undo…`).FindStringSubmatch(done)
		if len(undo) != 2 {
			t.Fatalf("no undo on %s", done)
		}
		back := r.operates(r.page(html.UnescapeString(undo[1]), "Restore 1 message?"), nil)
		eventually(t, "it is back", func() bool { return strings.Contains(r.page(back), "1 of 1") })
		r.deadCount(1)
		for part, want := range map[string]string{"value": string(was.Value), "key": string(was.Key)} {
			resp, err := http.Get("http://" + r.actor.Address() + "/v1/dead_set/messages/" + id + "?stream=orders&part=" + part)
			if err != nil {
				t.Fatal(err)
			}
			is, err := io.ReadAll(resp.Body)
			if err := errors.Join(err, resp.Body.Close()); err != nil || string(is) != want {
				t.Errorf("its %s is %q, %v", part, is, err)
			}
		}
	})
}
