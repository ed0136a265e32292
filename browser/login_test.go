package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/storage"
	"github.com/chromedp/chromedp"
)

// Without TLS, and by a name that is not the loopback's, browsers say less of where a form comes
// from.
const token = "the-token-that-stands-alone"

func TestAPersonLogsInAndPausesAStreamFromAnotherHostWithoutTLS(t *testing.T) {
	w := start(t, "SERVER_ADDRESS=0.0.0.0:0", "SERVER_TOKEN="+token)
	base := strings.Replace(w.base, "127.0.0.1", "console.test", 1)
	ctx := tab(t)
	run(t, ctx,
		chromedp.Navigate(base+"/console/groups?stream=orders"),
		chromedp.SendKeys("input[name=token]", "wrong\n"),
		chromedp.WaitVisible("#wrong"),
		chromedp.SendKeys("input[name=token]", token+"\n"),
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

// A session ends while somebody types: what was typed is sent once more after a login.
func TestAFormThatCameTooLateIsSentOnceMoreAfterALogin(t *testing.T) {
	w := start(t, "SERVER_TOKEN="+token)
	w.die(1, record("bank:1", "x"))
	ctx := tab(t)
	run(t, ctx,
		chromedp.Navigate(w.base+"/console/confirm?stream=orders&all=true&action=replay"), chromedp.SendKeys("input[name=token]", token+"\n"), shows("Replay 1 message?"),
		chromedp.SendKeys("input[name=note]", "the bank is back"), storage.ClearCookies(), chromedp.Click(button("Replay 1")), shows("log in first: nothing was done"),
	)
	var login string
	run(t, ctx, chromedp.JavascriptAttribute(link("Log in"), "href", &login))
	other, end := chromedp.NewContext(ctx)
	defer end()
	run(t, other, chromedp.Navigate(login), chromedp.SendKeys("input[name=token]", token+"\n"), shows("Replay 1 message?"))
	run(t, ctx, chromedp.Reload(), shows("the bank is back"), shows("Replay of orders"))
}
