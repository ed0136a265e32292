package console_test

import (
	"net/http"
	"strings"
	"testing"
)

// deletes has a person delete what a URL chooses, and returns the page of the operation once all of
// it is done.
func (w *world) deletes(chosen, done string) (operation string) {
	w.t.Helper()
	p := w.visit("/console/confirm?stream=orders&action=delete&" + chosen)
	p.press("Delete", nil)
	operation = p.path
	eventually(w.t, "it is deleted", func() bool { p.open("GET", operation, nil); return strings.Contains(p.text, done) })
	return operation
}

// What was deleted under another DEAD_SET_TRASH lies in a trash of its own.
func TestWhatIsTickedInTheTrashOfAnOperationIsRestoredFromThere(t *testing.T) {
	t.Parallel()
	w := start(t, "DEAD_SET_TRASH=48h")
	w.die(3, records(3, "no")...)
	operation := w.deletes("all=true", "done 3 of 3")
	p := w.other("DEAD_SET_TRASH=24h").visit(operation)
	p.follow("In the trash")
	p.has(t, "3 of 3 in the trash match")
	p.press("Restore…", map[string]string{"pick": "orders.v1:0:1"})
	p.has(t, "Restore 1 message?", `the message "orders.v1:0:1", of what was deleted by op_`)
	p.press("Restore 1", nil)
	restore := p.path
	eventually(t, "it is back", func() bool { p.open("GET", restore, nil); return strings.Contains(p.text, "done 1 of 1") })
	p.has(t, `the message "orders.v1:0:1", of what was deleted by op_`)
	eventually(t, "one is dead", func() bool { return w.dead() == 1 })
	w.visit(operation).has(t, "Undo…") // the rest of it

	// Another delete puts it back into the same trash: the first has nothing to do with that.
	w.deletes("pick=orders.v1:0:1", "done 1 of 1")
	p.open("GET", operation, nil)
	p.follow("In the trash")
	trash := p.path
	eventually(t, "of three that are there now two are its", func() bool {
		p.open("GET", trash, nil)
		return strings.Contains(p.text, "2 of 3 in the trash match")
	})
	form := p.picks()
	if status := p.ask("GET", "/console/confirm?action=restore&"+form.Encode(), nil); status != http.StatusBadRequest || !strings.Contains(p.text, "Tick some") {
		t.Errorf("with nothing ticked: %d %s", status, p.text)
	}
	form.Add("pick", "orders.v1:0:1")
	p.open("GET", "/console/confirm?action=restore&"+form.Encode(), nil)
	p.has(t, "Restore 0 messages?", "it was restored before")
	// Nothing else knows who deleted.
	if status := p.ask("GET", strings.Replace(p.path, "action=restore", "action=delete", 1), nil); status != http.StatusBadRequest || !strings.Contains(p.text, "select.operation is for restore") {
		t.Errorf("%d %s", status, p.text)
	}
}
