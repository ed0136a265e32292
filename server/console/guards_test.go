package console_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestManyAreReplayedSlowlyAndAFewOfThemFirstUnlessSomebodyWantsItOtherwise(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(101, append(records(100, "no"), records(1, "out of stock")...)...)
	const at = "/console/confirm?stream=orders&action="
	for query, want := range map[string]string{"replay&all=true": "200/s 10 ", "replay&error=no": "  ", "replay&pick=orders.v1:0:1": "  ", "delete&all=true": "  "} {
		form := w.visit(at + query).asks()
		if got := form.Get("rate") + " " + form.Get("canary") + " " + form.Get("stop_at"); got != want {
			t.Errorf("%s: %q is preset", query, got)
		}
		if strings.HasPrefix(query, "delete") && (form.Has("canary") || form.Has("stop_at")) {
			t.Errorf("a delete asks for what becomes of the messages: %v", form)
		}
	}
	w.mended.Store(true)
	p := w.visit(at + "replay&all=true")
	p.press("Replay 101", map[string]string{"stop_at": "5%"})
	p.has(t, "10 messages first, all to be handled", "once a try of 5% of the messages failed")
	id := p.path
	eventually(t, "all are handled, and told", func() bool {
		p.open("GET", id, nil)
		return strings.Contains(p.text, "done 101 of 101") && strings.Contains(p.text, "101 handled, 0 failed a try, 0 died, 0 not known yet")
	})
}

func TestACanaryOfWhichSomeFailSaysSoOnThePageOfItsOperation(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(30, records(30, "no")...)
	p := w.visit("/console/confirm?stream=orders&all=true&action=replay")
	p.press("Replay 30", map[string]string{"canary": "3"})
	id := p.path
	eventually(t, "it pauses", func() bool {
		p.open("GET", id, nil)
		return strings.Contains(p.text, "paused 3 of 30") && strings.Contains(p.text, "0 handled, 3 failed a try, 3 died, 0 not known yet")
	})
	p.has(t, "of the 3 messages of the canary", "look at why, mend that, then resume this operation")
	for _, list := range []string{"/console/", "/console/operations"} {
		w.visit(list).has(t, "paused", "3 of 30", "of the 3 messages of the canary")
	}
	w.mended.Store(true)
	p.press("Resume", nil)
	eventually(t, "the rest is handled", func() bool {
		p.open("GET", id, nil)
		return strings.Contains(p.text, "27 handled, 3 failed a try, 3 died")
	})
}

// What a person typed and /v1 does not take is refused in its words, and nothing is replayed
// without it.
func TestAGuardThatIsNotUnderstoodReplaysNothing(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(1, records(1, "no")...)
	for field, texts := range map[string][]string{
		"canary":  {"0", "-1", "ten", "1001", "99999999999999999999", "5%", " "},
		"stop_at": {"0", "half", "101%", "-5", "9999999999", " "},
	} {
		for _, text := range texts {
			form := w.visit("/console/confirm?stream=orders&all=true&action=replay").asks()
			form.Set(field, text)
			if a := w.try("POST", "/console/operations", form, "Origin", w.base); a.status != http.StatusBadRequest || !strings.Contains(a.text, field+" must be") {
				t.Errorf("%s %q: %d %s", field, text, a.status, a.text)
			}
		}
	}
	if got := w.get("/v1/dead_set/operations").text; strings.Contains(got, "op_") {
		t.Errorf("operations: %s", got)
	}
}

// A canary is only handled where its stream goes on.
func TestWhoReplaysFromAPausedStreamIsToldByWhomItIsPaused(t *testing.T) {
	t.Parallel()
	w := start(t, staff)
	w.die(3, records(3, "no")...)
	w.mended.Store(true)
	alice := []string{"Authorization", "Bearer " + alices}
	session := []string{"Cookie", w.login(alices)}
	pause := func(do, scope string) {
		t.Helper()
		if a := w.send("POST", "/v1/streams/orders/"+do, "application/json", `{"scope":"`+scope+`"}`, alice...); a.status != http.StatusOK {
			t.Fatalf("%s: %d %s", do, a.status, a.text)
		}
	}
	const confirm = "/console/confirm?stream=orders&all=true&action="
	const everywhere, here = "orders is paused by alice: nothing is handled until it is resumed", "orders is paused in this process by alice: nothing is handled here until it is resumed"
	pause("pause", "instance")
	if page := w.get(confirm+"replay", session...).text; !strings.Contains(page, here) {
		t.Errorf("paused here: %s", page)
	}
	pause("pause", "app")
	if page := w.get(confirm+"replay", session...).text; !strings.Contains(page, everywhere) || strings.Contains(page, here) {
		t.Errorf("paused everywhere: %s", page)
	}
	if page := w.get(confirm+"delete", session...).text; strings.Contains(page, "is paused") {
		t.Errorf("a delete waits for nobody: %s", page)
	}
	p := &plain{world: w, page: parsed(t, w.get(confirm+"replay", session...).text)}
	form := p.asks()
	form.Set("canary", "1")
	form.Set("rate", "1/s")
	id := w.post("/console/operations", form, session...)
	eventually(t, "it waits for its canary", func() bool { return strings.Contains(w.get(id, session...).text, "it waits for the canary") })
	if page := w.get(id, session...).text; !strings.Contains(page, ">"+everywhere+"</p>") {
		t.Errorf("its page: %s", page)
	}
	pause("resume", "app")
	pause("resume", "instance")
	eventually(t, "it is done", func() bool { return strings.Contains(w.get(id, session...).text, ">3 of 3<") })
	if page := w.get(id, session...).text; strings.Contains(page, "is paused") {
		t.Errorf("the stream goes on: %s", page)
	}
}
