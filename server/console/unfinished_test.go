package console_test

import (
	"strings"
	"testing"
)

// slowly begins a replay of what a URL chooses, a message a minute, and returns its page once it
// runs.
func (w *world) slowly(chosen string) (operation string) {
	w.t.Helper()
	p := w.visit("/console/confirm?stream=orders&action=replay&" + chosen)
	p.press("Replay", map[string]string{"rate": "1/m", "canary": ""})
	operation = p.path
	eventually(w.t, "one is replayed", func() bool { p.open("GET", operation, nil); return strings.Contains(p.text, "running 1 of") })
	return operation
}

// Whoever asks for more sees what is under way, on each page of that dead set, and on no other's.
func TestThePagesOfADeadSetListWhatIsNotOverAndAQueuedOperationSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(7, append(records(5, "status 503"), records(2, "no")...)...)
	w.mended.Store(true)
	replay := w.slowly("error=503")
	name := operationIn(replay)
	pages := []string{"groups?stream=orders", "messages?stream=orders", "trash?stream=orders", "confirm?stream=orders&action=delete&error=503"}
	for _, page := range pages {
		p := w.visit("/console/" + page)
		p.has(t, "Operations here that are not over", "replay of orders", "running 1 of 5", "One runs at a time")
		if to := p.linkTo("replay of orders"); to != replay {
			t.Errorf("%s leads to %s", page, to)
		}
	}
	if other := w.visit("/console/groups?stream=orders&channel=slow"); strings.Contains(other.text, "not over") {
		t.Errorf("a channel has the operation of another dead set: %s", other.text)
	}

	p := w.visit("/console/" + pages[3])
	p.press("Delete 4", nil)
	remove := p.path
	waits := "waits for: replay " + name
	for _, page := range append(pages, "", "operations", strings.TrimPrefix(remove, "/console/")) {
		p := w.visit("/console/" + page)
		p.has(t, "queued", "0 of at most 4", waits)
		if to := p.linkTo("replay " + name); to != replay {
			t.Errorf("%s leads to %s for what is waited for", page, to)
		}
	}

	// What is paused is not over, and nobody waits for it.
	p.open("GET", replay, nil)
	p.press("Pause", nil)
	eventually(t, "the delete takes the rest", func() bool { p.open("GET", remove, nil); return strings.Contains(p.text, "done 4 of 4") })
	for _, page := range append(pages, "") {
		p := w.visit("/console/" + page)
		p.has(t, "not over", "paused 1 of 5")
		if strings.Contains(p.text, "waits for") {
			t.Errorf("%s: %s", page, p.text)
		}
	}
}

// While nothing is deleted there is nothing to undo, and the button comes with the first that is.
func TestADeleteOfWhatAnotherHasTakenSaysSoAndIsNeitherASuccessNorUndone(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(3, append(records(2, "status 503"), records(1, "no")...)...)
	w.mended.Store(true)
	replay := w.slowly("error=503")
	p := w.visit("/console/confirm?stream=orders&action=delete&all=true")
	p.press("Delete 2", nil)
	some := p.path
	p.open("GET", "/console/confirm?stream=orders&action=delete&pick=orders.v1:0:1", nil)
	p.press("Delete 1", nil)
	none := p.path
	for _, path := range []string{some, none} {
		if page := w.get(path).text; !strings.Contains(page, ` undoes" data-state="none"`) {
			t.Errorf("something is to be undone of what waits: %s", page)
		}
	}
	p.open("GET", replay, nil)
	p.press("Change", map[string]string{"rate": "unlimited"})
	eventually(t, "the second is over", func() bool { p.open("GET", none, nil); return strings.Contains(p.text, "nothing done 0 of 0") })
	p.has(t, "Nothing matched any more. 1 of the 1 that were confirmed were no longer there: another operation or another person had taken them.")
	if strings.Contains(p.text, "Undo…") || strings.Contains(w.get(none).text, `data-state="done"`) || strings.Contains(p.text, "some may never have matched") {
		t.Errorf("a success, or to be undone: %s", p.text)
	}
	p.open("GET", some, nil)
	p.has(t, "done 1 of 1", "1 of the 2 that were confirmed were no longer there")
	if page := w.get(some).text; !strings.Contains(page, ` undoes" data-state="some"`) {
		t.Errorf("nothing is to be undone: %s", page)
	}
	if page := w.get(replay).text; !strings.Contains(page, ` died" data-state="none"`) || strings.Contains(page, "were confirmed were") {
		t.Errorf("it found all, and none died: %s", page)
	}
}
