package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// pages are those of the console about a message whose id is this, and the operation.
func pages(id, operation string) []string {
	return []string{
		"/console/", "/console/groups?stream=orders", "/console/messages?stream=orders", "/console/trash?stream=orders", "/console/message?stream=orders&id=" + url.QueryEscape(id),
		"/console/message?stream=orders&view=hex&id=" + url.QueryEscape(id), "/console/confirm?stream=orders&all=true&action=replay", "/console/confirm?stream=orders&all=true&action=delete",
		"/console/confirm?stream=orders&action=sort", "/console/hold?stream=orders",
		"/console/edit?stream=orders&id=" + url.QueryEscape(id), "/console/edit?stream=orders&id=none",
		"/console/operations", "/console/operation?id=" + operation, "/console/groups?stream=orders&channel=slow", "/console/message?stream=orders&id=none", "/console/login",
	}
}

// operation begins one that takes long, with a note.
func (w *world) operation(note string) (id string) {
	w.t.Helper()
	body, err := json.Marshal(map[string]any{"action": "replay", "stream": "orders", "select": map[string]any{"filter": map[string]string{"error": note}}, "note": note, "rate": "1/m"})
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := http.Post(w.base+"/v1/dead_set/operations", "application/json", strings.NewReader(string(body)))
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	var o struct{ ID string }
	if err := json.NewDecoder(resp.Body).Decode(&o); err != nil || o.ID == "" {
		w.t.Fatalf("operation: %d %v", resp.StatusCode, err)
	}
	return o.ID
}

// heard is what a tab tells while it goes through pages.
type heard struct {
	mu    sync.Mutex
	asked []string // URLs
	said  []string // dialogs
}

func listen(ctx context.Context) *heard {
	h := &heard{}
	chromedp.ListenTarget(ctx, func(event any) {
		h.mu.Lock()
		defer h.mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			h.asked = append(h.asked, e.Request.URL)
		case *page.EventJavascriptDialogOpening:
			h.said = append(h.said, e.Message)
		}
	})
	return h
}

// What anybody can write into a topic runs in no browser, and has it ask nobody else for anything.
func TestNothingOfAMessageRunsAndNothingForeignIsAskedFor(t *testing.T) {
	t.Parallel()
	w := start(t, mayEdit)
	const evil = `"><img src=//evil.test/x onerror=alert(1)><script>alert(2)</script><svg/onload=alert(3)><a href=javascript:alert(4) autofocus onfocus=alert(5)>`
	w.die(1, &kgo.Record{Topic: "orders.v1", Key: []byte("text:" + evil), Value: []byte(evil), Headers: []kgo.RecordHeader{{Key: evil, Value: []byte(evil)}}})
	id := w.operation(evil)
	ctx := tab(t)
	h := listen(ctx)
	run(t, ctx, network.Enable())
	for _, path := range pages("orders.v1:0:0", id) {
		run(t, ctx, chromedp.Navigate(w.base+path), ready(), chromedp.WaitReady("main"))
	}
	run(t, ctx, chromedp.Navigate(w.base+editing("orders.v1:0:0")), chromedp.SetValue("textarea[name=value]", evil+evil), chromedp.SetValue("input[name=note]", evil),
		chromedp.Click(button("Show the difference")), shows("All else stays as it is"), chromedp.Click(button("Change it further")), chromedp.WaitVisible("textarea"))
	h.mu.Lock()
	defer h.mu.Unlock()
	if foreign := slices.DeleteFunc(slices.Clone(h.asked), func(u string) bool { return strings.HasPrefix(u, w.base+"/console/") }); len(foreign) > 0 || len(h.asked) == 0 || len(h.said) > 0 {
		t.Errorf("asked for %v, said %v", foreign, h.said)
	}
}

func TestNoPageIsShownWithinAnother(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(1, record("bank:1", "x"))
	evil := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(out, `<title>evil</title><iframe src="%s/console/confirm?stream=orders&all=true&action=delete"></iframe>`, w.base)
	}))
	defer evil.Close()
	ctx := tab(t)
	var frames int
	var seen string
	run(t, ctx, chromedp.Navigate(evil.URL), chromedp.WaitReady("iframe"), chromedp.Evaluate("frames.length", &frames), chromedp.ActionFunc(func(ctx context.Context) error {
		tree, err := page.GetFrameTree().Do(ctx)
		for _, child := range tree.ChildFrames {
			seen += child.Frame.URL + child.Frame.UnreachableURL
		}
		return err
	}))
	if frames != 1 || !strings.HasPrefix(seen, "chrome-error://") {
		t.Errorf("%d frames show %s", frames, seen)
	}
}

// A form of a foreign page is sent with the person's cookies only where the browser lets it; here
// it would not even need any.
func TestAFormOfAForeignPageDoesNothing(t *testing.T) {
	t.Parallel()
	w := start(t)
	evil := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(out, `<!doctype html><main><form method="post" action="%s/console/streams"><input name="stream" value="orders"><input name="do" value="pause"></form></main>`, w.base)
	}))
	defer evil.Close()
	run(t, tab(t), chromedp.Navigate(strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)), chromedp.Evaluate("document.forms[0].submit()", nil), shows("another origin"),
		chromedp.Navigate(w.base+"/console/"), chromedp.WaitVisible(button("Pause")))
}

// A phone at night: nothing has to be scrolled sideways to be read.
func TestPagesFitANarrowScreen(t *testing.T) {
	t.Parallel()
	w := start(t, mayEdit)
	long := strings.Repeat("aVeryLongWordWithoutAnyPlaceToBreakIt", 20)
	w.die(2, record("text:1", long), &kgo.Record{Topic: "orders.v1", Key: []byte("text:" + long), Value: []byte("注文が見つかりません"), Headers: []kgo.RecordHeader{{Key: long, Value: []byte(long)}}})
	id := w.operation(long[:400])
	ctx := tab(t)
	for _, width := range []int64{320, 700, 1600} {
		for _, path := range pages("orders.v1:0:1", id) {
			var wide int64
			run(t, ctx, look(width, width == 700), chromedp.Navigate(w.base+path), ready(), chromedp.Evaluate("document.documentElement.scrollWidth", &wide))
			if wide > width {
				t.Errorf("%s at %d is %d wide", path, width, wide)
			}
		}
		var wide int64
		run(t, ctx, chromedp.Navigate(w.base+editing("orders.v1:0:1")), chromedp.SetValue("textarea[name=value]", long), chromedp.Click(button("Show the difference")), shows("All else stays as it is"), ready(),
			chromedp.Evaluate("document.documentElement.scrollWidth", &wide))
		if wide > width {
			t.Errorf("a difference at %d is %d wide", width, wide)
		}
	}
}

// Names, ids and times that are short stay whole; so does the way to the main pages.
func TestWhatIsShortIsNotBrokenInTheMiddle(t *testing.T) {
	t.Parallel()
	w := start(t, "SERVER_TOKENS=alice-of-the-night-shift:operator:alice-has-a-token-of-her-own")
	w.die(1, record("text:1", strings.Repeat("some words ", 100)))
	ctx := tab(t)
	run(t, ctx, chromedp.Navigate(w.base+"/console/"), chromedp.SendKeys("input[name=token]", "alice-has-a-token-of-her-own\n"), shows("running"))
	for _, width := range []int64{320, 375, 980, 1280} {
		for _, path := range []string{"/console/", "/console/groups?stream=orders", "/console/messages?stream=orders"} {
			var broken []string
			run(t, ctx, look(width, false), chromedp.Navigate(w.base+path), ready(),
				chromedp.Evaluate(`[...document.querySelectorAll("tbody th bdi, tbody td > bdi, time, .soft.short, header nav, header nav a")]
					.filter(e => e.getClientRects().length > 1 || e.matches("nav") && new Set([...e.children].map(a => a.getBoundingClientRect().top)).size > 1).map(e => e.textContent)`, &broken))
			if len(broken) > 0 {
				t.Errorf("%s at %d breaks %q", path, width, broken)
			}
		}
	}
}
