package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// tab opens a tab of a Chromium of its own.
func tab(t testing.TB) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("no chromium is installed: make browser installs it")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
		chromedp.NoSandbox, // tests run as root in containers, and look at nothing but their own pages
		chromedp.Flag("disable-background-networking", true),
		// A name that is no loopback, for a console that is reached from elsewhere.
		chromedp.Flag("host-resolver-rules", "MAP console.test 127.0.0.1"))
	all, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	ctx, closeTab := chromedp.NewContext(all)
	t.Cleanup(closeTab)
	if err := chromedp.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// look is a window's width, and whether its pages are dark.
func look(width int64, dark bool) chromedp.Action {
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	return chromedp.Tasks{
		emulation.SetDeviceMetricsOverride(width, 900, 1, false),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
	}
}

// shoot keeps a picture of the page.
func shoot(t testing.TB, ctx context.Context, file string) {
	t.Helper()
	var picture []byte
	if err := chromedp.Run(ctx, chromedp.FullScreenshot(&picture, 100)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, picture, 0o600); err != nil {
		t.Fatal(err)
	}
}

// patience is how long a page may take, on a machine that is busy.
const patience = 30 * time.Second

// run does what a person does, and ends the test where that is not possible.
func run(t testing.TB, ctx context.Context, actions ...chromedp.Action) {
	t.Helper()
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i, action := range actions {
		err := chromedp.Run(limited, action)
		for limited.Err() == nil && err != nil && strings.Contains(err.Error(), "Could not find node with given id") {
			// The page was left between finding an element and asking for it: that of the next
			// counts.
			err = chromedp.Run(limited, action)
		}
		if err != nil {
			var at, page string
			look, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			_ = chromedp.Run(look, chromedp.Location(&at), chromedp.Text("body", &page))
			t.Fatalf("step %d: %v, on %s: %s", i+1, err, at, strings.Join(strings.Fields(page), " "))
		}
	}
}

// shows waits until the page has a text in it that can be seen. It asks the page itself: what
// chromedp knows of elements may be of the page before.
func shows(text string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		for {
			var is bool
			err := chromedp.Evaluate(fmt.Sprintf(`(document.querySelector("main")?.innerText ?? "").replace(/\s+/g, " ").includes(%q)`, text), &is).Do(ctx)
			if is && err == nil {
				return nil
			}
			select {
			case <-time.After(20 * time.Millisecond): // an error is that of a page that was left
			case <-ctx.Done():
				return fmt.Errorf("%q is not shown: %w", text, ctx.Err())
			}
		}
	})
}

// link and button are the first with that text.
func link(text string) string { return fmt.Sprintf("(//a[normalize-space(.)=%q])[1]", text) }
func button(text string) string {
	return fmt.Sprintf("(//main//button[starts-with(normalize-space(.), %q)])[1]", text)
}

// ready waits until the page's script runs: keys before that go nowhere.
func ready() chromedp.Action { return chromedp.WaitVisible("#keys") }

// focusOn presses the tab key until an element has the focus, as who has no mouse does.
func focusOn(selector string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		var id string
		if err := chromedp.JavascriptAttribute(selector, "outerHTML", &id).Do(ctx); err != nil {
			return err
		}
		for range 100 {
			if err := chromedp.KeyEvent(kb.Tab).Do(ctx); err != nil {
				return err
			}
			var focused string
			if err := chromedp.Evaluate("document.activeElement.outerHTML", &focused).Do(ctx); err != nil {
				return err
			}
			if focused == id {
				return nil
			}
		}
		return fmt.Errorf("no tab key leads to %s", selector)
	})
}

// where is the URL of the page.
func where(t testing.TB, ctx context.Context) string {
	t.Helper()
	var at string
	run(t, ctx, chromedp.Location(&at))
	return at
}

// press presses one key. It is one event, as that of a keyboard is: what the page takes from it
// is not written into a field, too.
func press(key string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		if err := input.DispatchKeyEvent(input.KeyDown).WithKey(key).WithText(key).Do(ctx); err != nil {
			return err
		}
		return input.DispatchKeyEvent(input.KeyUp).WithKey(key).Do(ctx)
	})
}
