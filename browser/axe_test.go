package browser

import (
	"os"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// awaited has a script answer with what its promise becomes.
func awaited(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// axe-core knows most of WCAG that a program can look for. It is no part of this repository, and
// so not of each run: make browser says where it is left out.
func TestAxeFindsNothingOnAnyPageLightOrDark(t *testing.T) {
	file := os.Getenv("AXE")
	if file == "" {
		t.Skip("NOT RUN: AXE names no axe.min.js")
	}
	axe, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w := start(t, mayEdit)
	w.die(3, record("text:1", "no"), record("text:2", "注文"), record("text:3", "no"))
	runs, done := w.operation("no"), w.operation("none")
	ctx := tab(t)
	inspect := func(page string, width int64, dark bool) {
		t.Helper()
		var found []string
		var passes int
		run(t, ctx, chromedp.Evaluate(string(axe)+";0", nil),
			chromedp.Evaluate(`axe.run().then(r => { window.passed = r.passes.length; return r.violations.flatMap(v => v.nodes.map(n => v.id + " " + n.target + ": " + n.failureSummary)) })`, &found, awaited),
			chromedp.Evaluate(`window.passed`, &passes))
		if len(found) > 0 || passes < 20 {
			t.Errorf("%s at %d, dark %v: %d passes, and %q", page, width, dark, passes, found)
		}
	}
	for _, dark := range []bool{false, true} {
		for _, width := range []int64{320, 1600} {
			for _, path := range append(pages("orders.v1:0:1", runs), "/console/operation?id="+done, "/console/groups?stream=orders&header.x=y") {
				run(t, ctx, look(width, dark), chromedp.Navigate(w.base+path), ready())
				inspect(path, width, dark)
			}
			// Pages that are posted.
			run(t, ctx, chromedp.Navigate(w.base+editing("orders.v1:0:1")), ready(), chromedp.Click(button("Show the difference")), shows("nothing was changed"), ready())
			inspect("a mistake in an edit", width, dark)
			run(t, ctx, chromedp.SendKeys("textarea[name=value]", "more"), chromedp.Click(button("Show the difference")), shows("All else stays as it is"), ready())
			inspect("a difference", width, dark)
		}
	}
}
