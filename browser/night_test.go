package browser

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/twmb/franz-go/pkg/kgo"
)

// night is what somebody is paged for: two causes, of which one is mended and the other never
// will be.
func night(t testing.TB) *world {
	t.Helper()
	w := start(t)
	var all []*kgo.Record
	for i := range 6 {
		all = append(all, record(fmt.Sprintf("bank:%d", i), `{"total":1}`))
	}
	for i := range 3 {
		all = append(all, record(fmt.Sprintf("refused:%d", i), `{"total":2}`))
	}
	w.die(9, all...)
	w.mended.Store(true)
	return w
}

// over waits until only so many are dead, and so many are handled.
func (w *world) over(dead int, handled int64) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%d are dead and %d handled", dead, handled), func() bool { return w.dead("") == dead && w.handled.Load() == handled })
}

func TestACauseIsReplayedAndAnotherDeletedByMouse(t *testing.T) {
	t.Parallel()
	w := night(t)
	ctx := tab(t)
	run(t, ctx,
		chromedp.Navigate(w.base+"/console/"),
		chromedp.Click(link("orders")), shows("9 dead, by cause"),
		chromedp.Click(`//tr[contains(., "status 503")]//a[.="Replay…"]`), shows("Replay 6 messages?"),
		chromedp.Click(button("Replay 6")),
		// The page tells its progress by itself.
		shows("6 of 6"), shows("done"),
		chromedp.WaitNotVisible(button("Cancel")), shows("6 of charge order"),
		chromedp.WaitVisible(`//dt[.="Ended"]/following-sibling::dd[1][starts-with(., "20")]`),
		chromedp.WaitNotVisible(link("What of it died once more")), // none did
	)
	w.over(3, 6)
	run(t, ctx,
		chromedp.Click(link("What is dead now")), shows("3 dead, by cause"),
		chromedp.Click(`//tr[contains(., "card was refused")]//a[.="Delete…"]`), shows("goes to the trash"),
		chromedp.Click(button("Delete 3")), shows("3 of 3"), shows("done"),
		chromedp.Click(link("Undo…")), shows("Restore 3 messages?"), chromedp.Click(button("Restore 3")), shows("3 of 3"), shows("done"),
	)
	w.over(3, 6)
	run(t, ctx,
		chromedp.Click(link("What is dead now")), shows("3 dead, by cause"),
		chromedp.Click(`//tr[contains(., "card was refused")]//a[.="Delete…"]`), chromedp.Click(link("For good instead")), shows("gone for good"),
		// The browser itself refuses another number.
		chromedp.SendKeys("input[name=typed]", "9"), chromedp.Click(button("Delete 3")), chromedp.WaitVisible("input[name=typed]:invalid"),
		chromedp.SendKeys("input[name=typed]", kb.Backspace+"3"), chromedp.Click(button("Delete 3")),
		shows("3 of 3"), shows("done"),
	)
	w.over(0, 6)
}

func TestACauseIsReplayedAndAnotherDeletedByKeysAlone(t *testing.T) {
	t.Parallel()
	w := night(t)
	ctx := tab(t)
	run(t, ctx,
		chromedp.Navigate(w.base+"/console/"), ready(),
		press("j"), chromedp.KeyEvent(kb.Enter), shows("9 dead, by cause"), ready(),
		press("/"), chromedp.KeyEvent("status 503"), chromedp.KeyEvent(kb.Enter), chromedp.WaitNotPresent(`//main//td[contains(., "card was refused")]`), ready(),
		press("j"), press("r"), shows("Replay 6 messages?"), ready(),
		focusOn(button("Replay 6")), chromedp.KeyEvent(kb.Enter), shows("6 of 6"),
	)
	w.over(3, 6)
	// One of the others by its page, and two by ticks.
	run(t, ctx,
		chromedp.Navigate(w.base+"/console/messages?stream=orders"), shows("3 dead"), ready(),
		press("j"), press("j"), press("k"), chromedp.KeyEvent(kb.Enter), shows("Why it died"), ready(),
		press("d"), shows("Delete 1 message?"), ready(),
		focusOn(button("Delete 1")), chromedp.KeyEvent(kb.Enter), shows("1 of 1"),
	)
	w.over(2, 6)
	run(t, ctx,
		chromedp.Navigate(w.base+"/console/messages?stream=orders"), shows("2 dead"), ready(),
		press("j"), press("x"), press("j"), press("x"), press("r"), shows("Replay 2 messages?"), ready(),
		focusOn(button("Replay 2")), chromedp.KeyEvent(kb.Enter), shows("2 of 2"),
	)
	w.over(0, 8)
}

// Somebody who uses a screen reader, or speaks to the browser, needs letters for something else.
func TestKeysCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	w := night(t)
	ctx := tab(t)
	run(t, ctx,
		chromedp.Navigate(w.base+"/console/"), ready(),
		press("?"), chromedp.WaitVisible("dialog"), chromedp.Click("#keys-on"), chromedp.Click("//dialog//button"), chromedp.WaitNotVisible("dialog"),
		press("o"), press("?"), chromedp.WaitNotVisible("dialog"),
		chromedp.Navigate(w.base+"/console/groups?stream=orders"), ready(), press("?"), chromedp.WaitNotVisible("dialog"),
		chromedp.Click("#keys"), chromedp.WaitVisible("dialog"), chromedp.Click("#keys-on"), chromedp.Click("//dialog//button"), chromedp.WaitNotVisible("dialog"),
		press("o"), shows("Operations"),
	)
	if at := where(t, ctx); !strings.HasSuffix(at, "/console/operations") {
		t.Errorf("the key led to %s", at)
	}
}

func TestItAllWorksWithoutScripts(t *testing.T) {
	t.Parallel()
	w := night(t)
	ctx := tab(t)
	run(t, ctx,
		emulation.SetScriptExecutionDisabled(true),
		chromedp.Navigate(w.base+"/console/"),
		chromedp.WaitNotVisible("#keys"), // there are none
		chromedp.Click(button("Pause")), chromedp.WaitVisible(button("Resume")), chromedp.Click(button("Resume")), chromedp.WaitVisible(button("Pause")),
		chromedp.Click(link("orders")), shows("9 dead, by cause"),
		chromedp.SetValue("input[name=error]", "status 503"), chromedp.Click(button("Filter")), chromedp.WaitVisible(link("Show all")),
		chromedp.Click(link("Messages")), shows("6 of 9 dead match"),
		chromedp.Click(link("Replay all 6…")), shows("Replay 6 messages?"), chromedp.Click(button("Replay 6")),
	)
	w.over(3, 6)
	run(t, ctx,
		chromedp.Click(link("Look again")), shows("6 of 6"),
		chromedp.Click(link("What is dead now")), chromedp.Click(link("Delete all 3…")), shows("Delete 3 messages?"),
		chromedp.Click(button("Delete 3")),
	)
	w.over(0, 6)
	run(t, ctx,
		chromedp.Click(link("In the trash")), shows("3 of 3 in the trash match"), chromedp.Click(link("Restore all of it…")), chromedp.Click(button("Restore 3")),
	)
	w.over(3, 6)
}

// What was known last stays, grey, with a sentence.
func TestAPageSaysThatTheActorIsGone(t *testing.T) {
	t.Parallel()
	w := night(t)
	ctx := tab(t)
	run(t, ctx, chromedp.Navigate(w.base+"/console/"), shows("running"))
	w.stop()
	run(t, ctx, chromedp.WaitVisible(`//*[@id="offline"][contains(., "does not answer")]`), chromedp.WaitVisible("body.old"), shows("9"))
}

// Who is asked must not find out by the browser's own page, which has nothing of what was typed.
func TestAPageWithoutNumbersSaysThatTheActorIsGoneAndSendsNothingUntilItIsBack(t *testing.T) {
	t.Parallel()
	w := night(t)
	ctx := tab(t)
	var gone atomic.Bool
	actor, err := url.Parse(w.base)
	if err != nil {
		t.Fatal(err)
	}
	through := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(actor); r.Out.Host = r.In.Host }}
	front := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if gone.Load() {
			panic(http.ErrAbortHandler) // the connection is cut
		}
		through.ServeHTTP(out, r)
	}))
	defer front.Close()
	set := func(is bool) chromedp.Action {
		return chromedp.ActionFunc(func(context.Context) error { gone.Store(is); return nil })
	}
	const told = `//*[@id="offline"][contains(., "does not answer")]`
	for _, path := range []string{"/console/confirm?stream=orders&all=true&action=replay", "/console/groups?stream=orders", "/console/messages?stream=orders"} {
		run(t, ctx, chromedp.Navigate(front.URL+path), ready(), set(true), chromedp.WaitVisible(told), chromedp.WaitReady("main button:disabled"), chromedp.WaitNotPresent("main button:enabled"),
			set(false), chromedp.WaitNotVisible("#offline"), chromedp.WaitReady("main button:enabled"), chromedp.WaitNotPresent("main button:disabled"))
	}
}

func TestEscLeavesAFieldAndAQuestionAndTheQuestionHasTheFocus(t *testing.T) {
	t.Parallel()
	w := night(t)
	ctx := tab(t)
	var focused string
	run(t, ctx,
		chromedp.Navigate(w.base+"/console/messages?stream=orders"), shows("9 dead"), ready(),
		press("/"), chromedp.KeyEvent("jk"), chromedp.KeyEvent(kb.Escape), press("j"), chromedp.KeyEvent(kb.Enter), shows("Why it died"), ready(),
		press("r"), shows("Replay 1 message?"), ready(), chromedp.Evaluate("document.activeElement.innerText", &focused),
		chromedp.KeyEvent(kb.Escape), shows("9 dead"),
	)
	if focused != "Replay 1 message?" {
		t.Errorf("the focus is on %q", focused)
	}
	if w.over(9, 0); !strings.Contains(where(t, ctx), "/console/messages?") {
		t.Errorf("it led to %s", where(t, ctx))
	}
}

// What HTML says of a field is meant as a browser understands it.
func TestABrowserTakesRatesGuardsAndTimesThatTheActorTakes(t *testing.T) {
	t.Parallel()
	w := night(t)
	ctx := tab(t)
	for path, fields := range map[string]map[string]map[string]bool{
		"/console/confirm?stream=orders&all=true&action=replay": {
			"rate":    {"": true, "200/s": true, "50/m": true, "unlimited": true, "abc": false, "500": false, "0/s": false},
			"stop_at": {"20": true, "5%": true, "2.5%": true, "some": false, "0": false},
			"canary":  {"": true, "10": true, "0": false},
		},
		"/console/groups?stream=orders": {
			"died_from": {"": true, "2h": true, "1h30m": true, "1.5h": true, "2026-01-31T23:59:59Z": true, "2026-01-31T23:59:59.5+01:00": true, "yesterday": false, "2": false},
			"partition": {"0": true, "-1": false},
		},
	} {
		run(t, ctx, chromedp.Navigate(w.base+path), ready())
		for name, texts := range fields {
			for text, takes := range texts {
				var valid bool
				run(t, ctx, chromedp.Evaluate(fmt.Sprintf("(f => { f.value = %q; return f.checkValidity() })(document.querySelector('[name=%s]'))", text, name), &valid))
				if valid != takes {
					t.Errorf("%s %q: %t", name, text, valid)
				}
			}
		}
	}
}

// Who comes from a cause looks for its messages, also on a phone.
func TestTheFirstScreenOfACauseHasItsMessages(t *testing.T) {
	t.Parallel()
	w := night(t)
	ctx := tab(t)
	for width, want := range map[int64]int{375: 1, 1280: 6} {
		var rows int
		run(t, ctx, look(width, false), chromedp.Navigate(w.base+"/console/groups?stream=orders"), ready(), chromedp.Click(`//td//a[contains(., "status 503")]`), shows("Of one cause: charge order <n>"), ready(),
			chromedp.Evaluate("[...document.querySelectorAll('tbody tr')].filter(r => r.getBoundingClientRect().bottom < innerHeight).length", &rows))
		if rows < want {
			t.Errorf("at %d only %d are seen", width, rows)
		}
	}
}
