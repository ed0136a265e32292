package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/twmb/franz-go/pkg/kgo"
)

// outage is what somebody is paged for after one: so many died of it that their replay is
// proposed to be slow, and with a canary. Some died of two other causes.
func outage(t testing.TB) *world {
	t.Helper()
	w := start(t)
	var all []*kgo.Record
	for i := range 120 {
		all = append(all, record(fmt.Sprintf("bank:%d", i), `{"total":1}`))
	}
	for i := range 6 {
		all = append(all, record(fmt.Sprintf("refused:%d", i), `{"total":2}`))
	}
	for i := range 4 {
		all = append(all, record(fmt.Sprintf("text:%d", i), "the warehouse is unknown"))
	}
	w.die(len(all), all...)
	return w
}

// cause is the row of a cause of which so many are dead.
func cause(why string, dead int) string {
	return fmt.Sprintf(`//main//tr[contains(., %q)][.//td[@data-label="Messages"]/strong[.="%d"]]`, why, dead)
}

// others waits until the causes that are not replayed have all their messages, and are all that
// the page has.
func others() chromedp.Action {
	return chromedp.Tasks{
		shows("10 dead, by cause"), chromedp.WaitVisible(cause("card was refused", 6)), chromedp.WaitVisible(cause("warehouse is unknown", 4)),
		chromedp.WaitNotPresent(`//main//tr[contains(., "status 503")]`), ready(),
	}
}

// One message of the canary is held back: until it is handled no other follows.
func TestACauseIsReplayedBehindACanaryAndADeleteUndoneByMouse(t *testing.T) {
	t.Parallel()
	w := outage(t)
	goOn := w.mend(9)
	ctx := tab(t)
	run(t, ctx,
		chromedp.Navigate(w.base+"/console/"),
		chromedp.Click(link("orders")), shows("130 dead, by cause"), chromedp.WaitVisible(cause("card was refused", 6)),
		chromedp.Click(cause("status 503", 120)+`//a[.="Replay…"]`), shows("Replay 120 messages?"),
		chromedp.WaitVisible(`input[name=rate][value="200/s"]`), chromedp.WaitVisible(`input[name=canary][value="10"]`),
		chromedp.Click(button("Replay 120")),
		shows("it waits for the canary: of 10 messages 9 are handled"), shows("running 10 of 120"), shows("now 200/s"), shows("Canary 10 messages first, all to be handled"),
	)
	w.over(120, 9)
	goOn()
	run(t, ctx, shows("done 120 of 120"), shows("120 handled, 0 failed a try, 0 died, 0 not known yet"))
	w.over(10, 120)
	run(t, ctx,
		chromedp.Click(link("What is dead now")), others(),
		chromedp.Click(cause("card was refused", 6)+`//a[.="Delete…"]`), shows("Delete 6 messages?"),
		chromedp.Click(button("Delete 6")), shows("done 6 of 6"),
	)
	w.over(4, 120)
	run(t, ctx,
		chromedp.Click(link("Undo…")), shows("Restore 6 messages?"),
		chromedp.Click(button("Restore 6")), shows("done 6 of 6"),
		chromedp.Click(link("What is dead now")), others(),
	)
	w.over(10, 120)
}

// The ten that go first fail: the rest stays where it is until somebody has mended the cause.
func TestACanaryThatFailsHoldsBackTheRestUntilSomebodyResumes(t *testing.T) {
	t.Parallel()
	w := outage(t)
	ctx := tab(t)
	run(t, ctx,
		chromedp.Navigate(w.base+"/console/groups?stream=orders"), shows("130 dead, by cause"),
		chromedp.Click(cause("status 503", 120)+`//a[.="Replay…"]`), shows("Replay 120 messages?"), chromedp.Click(button("Replay 120")),
		shows("paused 10 of 120"), shows("of the 10 messages of the canary"), shows("0 handled, 10 failed a try, 10 died"),
		chromedp.WaitVisible(link("What of it died once more")),
	)
	w.over(130, 0)
	w.mended.Store(true)
	run(t, ctx, chromedp.Click(button("Resume")), shows("done 120 of 120"), shows("110 handled, 10 failed a try, 10 died"))
	w.over(20, 110)
}

// by presses the tab key until an element has the focus, and then the enter key.
func by(selector string) chromedp.Action {
	return chromedp.Tasks{focusOn(selector), chromedp.KeyEvent(kb.Enter)}
}

func TestACauseIsReplayedBehindACanaryAndDeletesUndoneByKeysAlone(t *testing.T) {
	t.Parallel()
	w := outage(t)
	goOn := w.mend(2)
	ctx := tab(t)
	run(t, ctx,
		chromedp.Navigate(w.base+"/console/"), ready(),
		press("j"), chromedp.KeyEvent(kb.Enter), shows("130 dead, by cause"), ready(),
		press("j"), press("r"), shows("Replay 120 messages?"), ready(),
		// Letters are no keys of the console while somebody writes.
		focusOn("input[name=canary]"), chromedp.KeyEvent("3"), // instead of what is there, as a tab key selects it
		focusOn("input[name=note]"), chromedp.KeyEvent("jkxrdu"),
		by(button("Replay 120")),
		shows("it waits for the canary: of 3 messages 2 are handled"), shows("running 3 of 120"), shows("Canary 3 messages first"), shows("Note jkxrdu"),
	)
	w.over(127, 2)
	goOn()
	run(t, ctx, shows("done 120 of 120"), shows("120 handled, 0 failed a try, 0 died, 0 not known yet"))
	w.over(10, 120)
	// A cause by its row, the one above the last.
	run(t, ctx,
		by(link("What is dead now")), others(),
		press("j"), press("j"), press("k"), press("d"), shows("Delete 6 messages?"), shows("card was refused"), ready(),
		by(button("Delete 6")), shows("done 6 of 6"), ready(),
	)
	w.over(4, 120)
	run(t, ctx,
		press("u"), shows("Restore 6 messages?"), ready(),
		by(button("Restore 6")), shows("done 6 of 6"), ready(),
		by(link("What is dead now")), others(),
	)
	w.over(10, 120)
	// Two messages of the other cause by ticks.
	run(t, ctx,
		press("j"), press("j"), chromedp.KeyEvent(kb.Enter), shows("4 of 10 dead match"), ready(),
		press("j"), press("x"), press("j"), press("x"), press("d"), shows("Delete 2 messages?"), shows("warehouse is unknown"), ready(),
		by(button("Delete 2")), shows("done 2 of 2"), ready(),
	)
	w.over(8, 120)
	run(t, ctx,
		press("u"), shows("Restore 2 messages?"), ready(),
		by(button("Restore 2")), shows("done 2 of 2"), ready(),
		by(link("What is dead now")), others(),
	)
	w.over(10, 120)
}
