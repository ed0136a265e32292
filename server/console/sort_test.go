package console_test

import (
	"net/url"
	"strings"
	"testing"
)

func TestADeadSetOfMoreThanALookSeesIsSortedFromItsPageAndThenSeenWhole(t *testing.T) {
	t.Parallel()
	w := start(t, "DEAD_SET_WALK_BYTES=4000")
	w.die(60, records(60, "no")...)
	p := w.visit("/console/groups?stream=orders&error=no")
	p.has(t, "of 60 dead messages: ", "lie behind them")
	p.follow("Sort all 60…")
	p.has(t, "Sort all 60 of orders into pages?", "the order stays", "other processes handle this stream")
	if got := w.get("/v1/dead_set/operations").text; strings.Contains(got, "op_") {
		t.Errorf("it is sorted before anybody said yes: %s", got)
	}
	p.press("Sort all 60", nil)
	p.has(t, "sort of orders")
	id := p.path
	eventually(t, "the sort is done", func() bool { return strings.Contains(w.visit(id).text, "done 60 of 60") })
	p = w.visit("/console/groups?stream=orders")
	p.has(t, "60 dead, by cause")
	if strings.Contains(p.text, "lie behind") || strings.Contains(p.text, "Sort all") {
		t.Errorf("it is not seen whole: %s", p.text)
	}
	if w.dead() != 0 {
		t.Errorf("%d are where they arrived", w.dead())
	}
	if got := w.try("POST", "/console/operations", url.Values{"action": {"sort"}, "stream": {"orders"}}, "Origin", w.base); got.status != 400 {
		t.Errorf("a form of nobody's: %d", got.status)
	}
}
