package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/twmb/franz-go/pkg/kgo"
)

// longNight is a night whose larger cause has so many messages that a few are proposed to be
// replayed first. It is not mended yet.
func longNight(t testing.TB) *world {
	t.Helper()
	w := start(t)
	var all []*kgo.Record
	for i := range 120 {
		all = append(all, record(fmt.Sprintf("bank:%d", i), `{"total":1}`))
	}
	for i := range 3 {
		all = append(all, record(fmt.Sprintf("refused:%d", i), `{"total":2}`))
	}
	w.die(123, all...)
	return w
}

// held is what the page of a replay shows whose first ten failed: the rest stays where it is.
func held() chromedp.Action {
	return chromedp.Tasks{shows("10 of 120"), shows("paused"), shows("of the 10 messages of the canary"), shows("0 handled, 10 failed a try, 10 died")}
}

func TestACanaryHoldsBackItsCauseUntilThatIsMendedAndADeleteIsUndoneByMouse(t *testing.T) {
	t.Parallel()
	w := longNight(t)
	ctx := tab(t)
	run(t, ctx,
		chromedp.Navigate(w.base+"/console/"),
		chromedp.Click(link("orders")), shows("123 dead, by cause"),
		chromedp.Click(`//tr[contains(., "status 503")]//a[.="Replay…"]`), shows("Replay 120 messages?"),
		chromedp.Click(button("Replay 120")), held(),
	)
	w.over(123, 0)
	w.mended.Store(true)
	run(t, ctx, chromedp.Click(button("Resume")), shows("120 of 120"), shows("done"), shows("110 handled, 10 failed a try, 10 died"))
	w.over(13, 110)
	run(t, ctx,
		chromedp.Click(link("What is dead now")), shows("13 dead, by cause"),
		chromedp.Click(`//tr[contains(., "card was refused")]//a[.="Delete…"]`), shows("Delete 3 messages?"),
		chromedp.Click(button("Delete 3")), shows("3 of 3"), shows("done"),
	)
	w.over(10, 110)
	run(t, ctx, chromedp.Click(link("Undo…")), shows("Restore 3 messages?"), chromedp.Click(button("Restore 3")), shows("3 of 3"), shows("done"))
	w.over(13, 110)
}

func TestACanaryHoldsBackItsCauseUntilThatIsMendedAndADeleteIsUndoneByKeysAlone(t *testing.T) {
	t.Parallel()
	w := longNight(t)
	ctx := tab(t)
	run(t, ctx,
		chromedp.Navigate(w.base+"/console/"), ready(),
		press("j"), chromedp.KeyEvent(kb.Enter), shows("123 dead, by cause"), ready(),
		press("/"), chromedp.KeyEvent("status 503"), chromedp.KeyEvent(kb.Enter), chromedp.WaitNotPresent(`//main//td[contains(., "card was refused")]`), ready(),
		press("j"), press("r"), shows("Replay 120 messages?"), ready(),
		focusOn(button("Replay 120")), chromedp.KeyEvent(kb.Enter), held(),
	)
	w.over(123, 0)
	w.mended.Store(true)
	run(t, ctx, focusOn(button("Resume")), chromedp.KeyEvent(kb.Enter), shows("120 of 120"), shows("done"), shows("110 handled, 10 failed a try, 10 died"))
	w.over(13, 110)
	run(t, ctx,
		chromedp.Navigate(w.base+"/console/groups?stream=orders"), shows("13 dead, by cause"), ready(),
		press("/"), chromedp.KeyEvent("card was refused"), chromedp.KeyEvent(kb.Enter), chromedp.WaitNotPresent(`//main//td[contains(., "status 503")]`), ready(),
		press("j"), press("d"), shows("Delete 3 messages?"), ready(),
		focusOn(button("Delete 3")), chromedp.KeyEvent(kb.Enter), shows("3 of 3"), shows("done"), ready(),
	)
	w.over(10, 110)
	run(t, ctx,
		press("u"), shows("Restore 3 messages?"), ready(),
		focusOn(button("Restore 3")), chromedp.KeyEvent(kb.Enter), shows("3 of 3"), shows("done"),
	)
	w.over(13, 110)
}
