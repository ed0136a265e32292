package actor_test

import (
	"context"
	"errors"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
)

// hidden are the fields of a form that a page has filled in.
var hidden = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)

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

// submit sends the form of a confirmation as a browser does, and returns the page it leads to.
func (r *running) submit(page string, fill map[string]string) string {
	r.t.Helper()
	form := url.Values{}
	_, page, _ = strings.Cut(page, `action="/console/operations"`)
	for _, of := range hidden.FindAllStringSubmatch(page, -1) {
		form.Add(html.UnescapeString(of[1]), html.UnescapeString(of[2]))
	}
	for name, text := range fill {
		form.Set(name, text)
	}
	base := "http://" + r.actor.Address()
	req, err := http.NewRequest(http.MethodPost, base+"/console/operations", strings.NewReader(form.Encode()))
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
	if resp.StatusCode != http.StatusSeeOther {
		r.t.Fatalf("the form %v: %d", form, resp.StatusCode)
	}
	return resp.Header.Get("Location")
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
		operation := r.submit(replay, map[string]string{"rate": "100/s"})
		eventually(t, "the replay is done", func() bool { return strings.Contains(r.page(operation), "3 of 3") && handled.Load() == 3 })

		remove := r.page("/console/confirm?stream=orders&action=delete&group="+groups[1][1], "Delete 2 messages?")
		operation = r.submit(remove, nil)
		eventually(t, "the delete is done", func() bool { return strings.Contains(r.page(operation), "2 of 2") })
		if left := valuesOf(r.deadCount(1)); left != "who knows" || handled.Load() != 3 {
			t.Errorf("left is %s, handled were %d", left, handled.Load())
		}
	})
}
