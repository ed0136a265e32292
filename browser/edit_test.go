package browser

import (
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const mayEdit = "DEAD_SET_EDIT=true"

// editing is the page of a form for one message.
func editing(id string) string {
	return "/console/edit?" + url.Values{"stream": {"orders"}, "id": {id}}.Encode()
}

func TestAMessageIsEditedAndTheEditUndoneByKeysAlone(t *testing.T) {
	t.Parallel()
	w := start(t, mayEdit)
	w.die(1, record("bank:1", "{\n  \"total\": 1\n}\n"))
	w.mended.Store(true)
	ctx := tab(t)
	run(t, ctx,
		chromedp.Navigate(w.base+"/console/messages?stream=orders"), shows("1 dead"), ready(),
		press("j"), chromedp.KeyEvent(kb.Enter), shows("Why it died"), ready(),
		press("e"), shows("Edit orders.v1:0:0"), ready(),
		focusOn("textarea[name=value]"), chromedp.KeyEvent(kb.End, chromedp.KeyModifiers(input.ModifierCtrl)), chromedp.KeyEvent("more\r"),
		focusOn("input[name=note]"), chromedp.KeyEvent("by keys"), chromedp.KeyEvent(kb.Enter),
		shows("Edit orders.v1:0:0?"), shows("Note: by keys"), ready(),
		focusOn(button("Edit")), chromedp.KeyEvent(kb.Enter), shows("1 of 1"), ready(),
	)
	w.over(0, 1)
	if m := w.last.Load(); string(m.Value) != "{\n  \"total\": 1\n}\nmore\n" || string(m.Key) != "bank:1" {
		t.Errorf("handled %q with the key %q", m.Value, m.Key)
	}
	run(t, ctx, press("u"), shows("Restore 1 message?"), ready(), focusOn(button("Restore 1")), chromedp.KeyEvent(kb.Enter), shows("1 of 1"))
	w.over(1, 1)
}

// What Chromium makes of text in a form, and no other browser is asked: line ends, line feeds at
// the beginning, and characters that nobody types.
func TestAFormKeepsAMessageInChromiumByteForByte(t *testing.T) {
	t.Parallel()
	w := start(t, mayEdit)
	var odd strings.Builder
	for _, span := range [][2]rune{{1, 9}, {0x0b, 0x0c}, {0x0e, 0x7f}, {0x80, 0xff}, {0x200b, 0x206f}, {0xfdd0, 0xfdef}, {0xfe00, 0xfffc}, {0xfffe, 0x10001}, {0x1f600, 0x1f610}, {0x10fffe, 0x10ffff}} {
		for r := span[0]; r <= span[1]; r++ {
			odd.WriteRune(r)
		}
	}
	values := []string{"", "\n", "\n\na\n\n", "\r\n\r\na\r\nb\r\n", "  a\t\n b  ", odd.String(), "</textarea>&lt;&amp;&#10;&NotEqualTilde;"}
	for i, value := range values {
		w.die(i+1, record("text:\n"+strconv.Itoa(i), value))
	}
	ctx := tab(t)
	for i, value := range values {
		for _, scripts := range []bool{true, false} {
			run(t, ctx, emulation.SetScriptExecutionDisabled(!scripts), chromedp.Navigate(w.base+editing("orders.v1:0:"+strconv.Itoa(i))), chromedp.WaitVisible("textarea[name=value]"),
				chromedp.Click(button("Show the difference")), shows("Nothing was done"))
			var said string
			if run(t, ctx, chromedp.Text("[role=alert]", &said)); !strings.Contains(said, "nothing was changed") {
				t.Errorf("%.100q: %s", value, said)
			}
			// What comes back from the page of the mistake, too.
			run(t, ctx, chromedp.SendKeys("input[name=note]", "again"), chromedp.Click(button("Show the difference")), chromedp.WaitVisible("input[name=note][value=again]"), shows("nothing was changed"))
		}
	}
}
