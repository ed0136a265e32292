package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// Without TLS, and by a name that is not the loopback's, browsers say less of where a form comes
// from.
func TestAPersonLogsInAndPausesAStreamFromAnotherHostWithoutTLS(t *testing.T) {
	w := start(t, "SERVER_ADDRESS=0.0.0.0", "SERVER_TOKEN=secret")
	base := strings.Replace(w.base, "127.0.0.1", "console.test", 1)
	ctx := tab(t)
	run(t, ctx,
		chromedp.Navigate(base+"/console/groups?stream=orders"),
		chromedp.SendKeys("input[name=token]", "wrong\n"),
		chromedp.WaitVisible("#wrong"),
		chromedp.SendKeys("input[name=token]", "secret\n"),
		shows("0 dead, by cause"),
		chromedp.Navigate(base+"/console/"),
		chromedp.Click("button[value=pause]"),
		chromedp.WaitVisible("button[value=resume]"),
		chromedp.Click("//button[.='Log out']"),
		chromedp.WaitVisible("input[name=token]"),
		chromedp.Navigate(base+"/console/"),
		chromedp.WaitVisible("input[name=token]"),
	)
}
