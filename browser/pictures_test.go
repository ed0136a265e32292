package browser

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// PICTURES=../docs/console keeps them where OPERATIONS shows them.
func TestPicturesOfWhatAPersonDoesAtNight(t *testing.T) {
	folder := cmp.Or(os.Getenv("PICTURES"), t.TempDir())
	w := start(t)
	var all []*kgo.Record
	for i := range 140 {
		all = append(all, record(fmt.Sprintf("bank:%d", i%17), `{"total":1}`))
	}
	for i := range 6 {
		all = append(all, record(fmt.Sprintf("refused:%d", i%17), `{"total":2}`))
	}
	w.die(len(all), all...)
	w.mended.Store(true)
	ctx := tab(t)
	keep := func(name string) {
		t.Helper()
		file := filepath.Join(folder, name+".png")
		shoot(t, ctx, file)
		if is, err := os.Stat(file); err != nil || is.Size() < 10_000 {
			t.Errorf("%s is no picture: %v", file, err)
		}
	}
	causes := w.base + "/console/groups?stream=orders"
	run(t, ctx, look(360, true), chromedp.Navigate(causes), shows("146 dead, by cause"), ready())
	keep("phone")
	run(t, ctx, look(1100, false), chromedp.Navigate(causes), shows("146 dead, by cause"), ready())
	keep("causes")
	run(t, ctx, look(800, false), chromedp.Click(`//tr[contains(., "status 503")]//a[.="Replay…"]`), shows("Replay 140 messages?"), ready())
	keep("confirm")
	run(t, ctx, chromedp.SetValue("input[name=rate]", "10/s"), chromedp.SendKeys("input[name=note]", "the bank is back"),
		chromedp.Click(button("Replay 140")), shows("running"), chromedp.Poll("document.querySelector('progress').value >= 70", nil))
	keep("operation")
	w.over(6, 140)
	run(t, ctx, look(1100, false), chromedp.Navigate(causes), shows("6 dead, by cause"), chromedp.Click(link("Delete…")), chromedp.Click(button("Delete 6")), shows("6 of 6"), shows("done"),
		chromedp.Click(link("In the trash")), shows("6 of 6 in the trash match"), ready())
	keep("trash")
}
