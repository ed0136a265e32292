package console_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/embedded/memory"
)

// The way of a night: the stream, the cause, a replay of it, a look at how far it is, a delete of
// what can never work; nothing else is touched.
func TestAPersonFindsACauseReplaysItAndDeletesAnotherWithoutAnyScript(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(8, append(records(5, "bank: status 503"), records(3, "the card was refused")...)...)
	p := w.visit("/console")
	p.has(t, "orders", "running")
	if text := w.get("/console/").text; !strings.Contains(text, `data-live="stream orders  dead" data-state="8"`) {
		t.Errorf("nothing tells the stylesheet that some are dead: %s", text)
	}
	p.follow("orders")
	p.has(t, "8 dead, by cause", "bank: status 503", "the card was refused")

	p.press("Filter", map[string]string{"error": "status 503"})
	if p.path != "/console/groups?error=status+503&stream=orders" {
		t.Errorf("the filter led to %s", p.path)
	}
	p.follow("dead_letter") // the cause
	p.has(t, "5 of 8 dead match", "Of one cause: bank: status 503")
	p.follow("Causes")
	w.mended.Store(true)
	p.follow("Replay…")
	p.has(t, "Replay 5 messages?", "of the cause", "cannot be undone")
	p.press("Replay 5", map[string]string{"note": "the bank is back"})
	id := strings.TrimPrefix(p.path, "/console/operation?id=")
	eventually(t, "the replay is done", func() bool {
		p.open("GET", "/console/operation?id="+id, nil)
		return strings.Contains(p.text, "done 5 of 5")
	})
	p.has(t, "the bank is back")
	eventually(t, "five are handled", func() bool { return w.handled.Load() == 5 && w.dead() == 3 })

	p.follow("What is dead now")
	p.follow("Delete…")
	p.has(t, "Delete 3 messages?", "goes to the trash")
	p.press("Delete 3", nil)
	deletion := p.path
	// A depth of 0 may be that of a look, which holds them all.
	eventually(t, "the three are deleted", func() bool { p.open("GET", deletion, nil); return strings.Contains(p.text, "done 3 of 3") })
	p.follow("In the trash")
	p.has(t, "3 of 3 in the trash match", "the card was refused", "Restore all of it…")
	p.follow("op_")
	p.follow("Undo…")
	p.has(t, "Restore 3 messages?", "what was deleted by op_")
	undo := p.path
	p.press("Restore 3", nil)
	restore := p.path
	eventually(t, "the three are back", func() bool { return w.dead() == 3 })
	eventually(t, "it is undone", func() bool { p.open("GET", deletion, nil); return strings.Contains(p.text, "Undone by op_") })
	if to := p.linkTo("op_"); to != restore || strings.Contains(p.text, "Undo…") {
		t.Errorf("it is undone by %s: %s", to, p.text)
	}
	p.open("GET", undo, nil)
	p.has(t, "Restore 0 messages?", "it was restored before")
	p.follow("What is dead now")
	p.open("GET", "/console/groups?stream=orders", nil)
	p.follow("Delete…")
	p.follow("For good instead")
	p.has(t, "Delete 3 messages for good?", "gone for good")
	p.follow("To the trash instead")
	p.has(t, "Delete 3 messages?", "goes to the trash")
	p.follow("For good instead")
	p.press("Delete 3 for good", map[string]string{"typed": "3"})
	eventually(t, "the three are deleted for good", func() bool { return w.dead() == 0 })
	p.open("GET", "/console/trash?stream=orders", nil)
	p.has(t, "The trash is empty.")
	p.open("GET", "/console/operations", nil)
	p.has(t, "delete of orders", "replay of orders")
	if w.handled.Load() != 5 {
		t.Errorf("%d were handled: what was deleted was replayed, too", w.handled.Load())
	}
}

// The page asks for it by itself; a script that sends the form must not get around it.
func TestADeleteForGoodWantsItsNumberTyped(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(2, records(2, "no")...)
	p := w.visit("/console/confirm?stream=orders&all=true&action=delete&forever=true")
	form := p.asks()
	for _, typed := range []string{"", "1", "two", "2 "} {
		form.Set("typed", typed)
		if a := w.try("POST", "/console/operations", form, "Origin", w.base); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.text, "Nothing was done") {
			t.Errorf("typed %q: %d %s", typed, a.status, a.text)
		}
	}
	if got := w.get("/v1/dead_set/operations").text; strings.Contains(got, "op_") {
		t.Errorf("operations: %s", got)
	}
	eventually(t, "both are still there", func() bool { return w.dead() == 2 })
}

// What is confirmed a while later is what was shown, also where the filter says so long ago.
func TestAConfirmationHasTheTimesOfItsLook(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(1, records(1, "no")...)
	p := w.visit("/console/confirm?stream=orders&action=replay&died_from=2h")
	from, err := time.Parse(time.RFC3339, p.asks().Get("died_from"))
	if ago := time.Since(from); err != nil || ago < 2*time.Hour || ago > 2*time.Hour+time.Minute {
		t.Errorf("died_from is %v ago: %v", ago, err)
	}
}

// Two presses of one button are one wish, and what was shown is what is done.
func TestAButtonThatIsPressedTwiceBeginsOneOperationAndNotMoreThanWasShown(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(2, records(2, "no")...)
	p := w.visit("/console/confirm?stream=orders&error=no&action=replay")
	form := p.asks()
	w.die(3, records(1, "no, and later")...)
	w.mended.Store(true)
	first := w.post("/console/operations", form)
	if again := w.post("/console/operations", form); again != first {
		t.Errorf("pressed again it led to %s, and not to %s", again, first)
	}
	eventually(t, "it is over", func() bool { return strings.Contains(w.visit(first).text, "done 2 of 2") })
	w.visit(first).has(t, "At most 2 messages, as was confirmed")
	// A look holds messages for a moment, which do not count then.
	eventually(t, "what died after the look is still there", func() bool { return w.dead() == 1 && w.handled.Load() == 2 })
}

// Ids that are ticked on a filtered list do not bring the filter along.
func TestWhatIsTickedIsReplayedAndNothingElse(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(3, records(3, "no")...)
	w.mended.Store(true)
	p := w.visit("/console/messages?stream=orders&error=no")
	p.press("Replay…", map[string]string{"pick": "orders.v1:0:1"})
	p.has(t, "Replay 1 message?", `the message "orders.v1:0:1"`)
	p.press("Replay 1", nil)
	eventually(t, "one is handled", func() bool { return w.handled.Load() == 1 && w.dead() == 2 })
	p.open("GET", "/console/messages?stream=orders", nil)
	p.has(t, "orders.v1:0:0", "orders.v1:0:2")
}

// A slip in a URL, or a field that was left empty, must not become a delete of all; and two ways to
// choose at once are not the wider one.
func TestNothingChosenIsNotEverything(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(1, records(1, "no")...)
	for _, query := range []string{"", "&pick=", "&error=", "&all=false", "&all=true&error=no", "&pick=a&all=true", "&pick=a&error=no", "&error=no&error=yes"} {
		a := w.try("GET", "/console/confirm?stream=orders&action=delete"+query, nil)
		for a.status == http.StatusSeeOther {
			a = w.try("GET", a.header.Get("Location"), nil)
		}
		if a.status != http.StatusBadRequest {
			t.Errorf("%q: %d %s", query, a.status, a.text)
		}
		form := url.Values{"stream": {"orders"}, "action": {"replay"}, "before": {"2100-01-01T00:00:00Z"}, "expect": {"9"}, "once": {query + "k"}}
		more, _ := url.ParseQuery(query)
		for name, texts := range more {
			form[name] = texts
		}
		if a := w.try("POST", "/console/operations", form, "Origin", w.base); a.status != http.StatusBadRequest {
			t.Errorf("posted %q: %d %s", query, a.status, a.text)
		}
	}
	eventually(t, "it is still there", func() bool { return w.dead() == 1 })
}

func TestAStreamIsPausedAndGoesOn(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := w.visit("/console/")
	p.press("Pause", nil)
	p.has(t, "paused")
	if !strings.Contains(w.get("/v1/streams").text, `"paused":true`) {
		t.Error("the stream is not paused")
	}
	p.press("Resume", nil)
	if p.has(t, "running"); !strings.Contains(w.get("/v1/streams").text, `"paused":false`) {
		t.Error("the stream is not resumed")
	}
}

func TestAStreamIsPausedInAllProcessesAndThePageSaysWhichPauseItIs(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := w.visit("/console/")
	p.follow("Pause in all processes…")
	p.has(t, "Pause orders in all processes?", "nothing is lost: the lag grows", "Other streams go on")
	if !strings.Contains(w.get("/v1/streams").text, `"paused":false`) {
		t.Error("the stream is paused before anybody said yes")
	}
	p.press("Pause in all processes", nil)
	p.has(t, "paused", "in all processes of the app, by loopback, since 20"+time.Now().UTC().Format("06-01-02 "))
	if !strings.Contains(w.get("/v1/streams").text, `"paused":true,"pauses":[{"scope":"app","by":"loopback"`) {
		t.Error("the stream is not paused")
	}
	p.press("Pause", nil)
	p.has(t, "in all processes of the app", "here alone, by loopback")
	p.press("Resume in all processes", nil)
	p.has(t, "paused", "here alone, by loopback")
	p.press("Resume", nil)
	if p.has(t, "running"); !strings.Contains(w.get("/v1/streams").text, `"paused":false`) {
		t.Error("the stream is not resumed")
	}
	if a := w.try("POST", "/console/streams", url.Values{"stream": {"orders"}, "do": {"pause"}, "scope": {"all"}}, "Origin", w.base); a.status != http.StatusBadRequest {
		t.Errorf("a scope that there is not: %d %s", a.status, a.text)
	}
	if a := w.try("GET", "/console/hold?stream=none", nil); a.status != http.StatusNotFound || !strings.Contains(a.text, "no stream") {
		t.Errorf("a stream that there is not: %d %s", a.status, a.text)
	}
}

// Each button of the page of an operation, and that none of them works when it is over.
func TestAnOperationIsPausedSlowedResumedAndCancelled(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(120, records(120, "no")...)
	p := w.visit("/console/confirm?stream=orders&all=true&action=replay")
	if !strings.Contains(w.get(p.path).text, `value="200/s"`) {
		t.Error("above 100 no rate is preset")
	}
	p.press("Replay 120", map[string]string{"rate": "1/m"})
	id := p.path
	eventually(t, "it says what they died of", func() bool { p.open("GET", id, nil); return strings.Contains(p.text, "120 of no") })
	if list := w.get("/console/operations").text; !strings.Contains(list, `<code dir="auto">no</code>`) {
		t.Errorf("the list does not say what they died of: %s", list)
	}
	state := func(is string) {
		t.Helper()
		eventually(t, "it is "+is, func() bool { p.open("GET", id, nil); return strings.Contains(p.text, is+" ") })
	}
	state("running")
	p.press("Pause", nil)
	state("paused")
	p.press("Change", map[string]string{"rate": "2/m"})
	p.has(t, "now 2/m")
	p.press("Resume", nil)
	state("running")
	p.press("Cancel", nil)
	state("cancelled")
	if a := w.try("POST", "/console/operation", url.Values{"id": {strings.TrimPrefix(id, "/console/operation?id=")}, "state": {"running"}}, "Origin", w.base); a.status != http.StatusConflict {
		t.Errorf("what is over is resumed: %d", a.status)
	}
}

// Links and forms carry the channel with them: else they would act on the dead set of the stream.
func TestAChannelHasADeadSetOfItsOwn(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(1, append(records(1, "no"), &kgo.Record{Key: []byte("slow"), Value: []byte("x")})...)
	eventually(t, "the channel's is dead", func() bool {
		return strings.Contains(w.visit("/console/groups?stream=orders&channel=slow").text, "the archive is full")
	})
	p := w.visit("/console/groups?stream=orders&channel=slow")
	p.has(t, "1 dead, by cause", "channel slow")
	p.follow("Delete…")
	p.has(t, "of orders channel slow")
	p.press("Delete 1", nil)
	eventually(t, "it is deleted", func() bool {
		return strings.Contains(w.visit("/console/groups?stream=orders&channel=slow").text, "Nothing is dead here")
	})
	eventually(t, "that of the stream is still there", func() bool { return w.dead() == 1 })
}

// Large numbers stay as they are, bytes that are no text are shown as such, and what is saved is
// the record to the byte, which no browser takes for a page.
func TestAMessageIsShownInEveryWayAndSaved(t *testing.T) {
	t.Parallel()
	w := start(t)
	binary := &kgo.Record{Key: []byte{0xff, 0}, Value: []byte{0, 1, 2, 0xfe}, Headers: []kgo.RecordHeader{{Key: "tenant", Value: []byte("acme")}, {Key: "none"}}}
	w.die(4, &kgo.Record{Key: []byte("a"), Value: []byte(`{"id":12345678901234567890,"of":[1,2]}`)}, binary, &kgo.Record{Value: []byte(strings.Repeat("x", 100_000))}, &kgo.Record{Key: []byte("null")})
	for _, test := range []struct{ at, view, shows string }{
		{"0", "", `"id": 12345678901234567890`},
		{"0", "raw", `{"id":12345678901234567890,"of":[1,2]}`},
		{"0", "hex", "00000000 7b 22 69 64"},
		{"1", "", "00 01 02 fe"},
		{"1", "", "tenant acme none null"},
		{"2", "", "100,000 bytes, of which the first 65,536 are shown"},
		{"2", "hex", "of which the first 8,192 are shown"},
		{"3", "", "null: the record has no value"},
	} {
		w.visit("/console/message?stream=orders&id=orders.v1:0:"+test.at+"&view="+test.view).has(t, test.shows)
	}
	p := w.visit("/console/messages?stream=orders")
	p.follow("orders.v1:0:0")
	p.has(t, "Why it died")
	p.follow("hex")
	p.has(t, "00000000 7b")
	p.follow("raw")
	if to := p.linkTo("save"); w.get(to).text != `{"id":12345678901234567890,"of":[1,2]}` {
		t.Errorf("%s saves %q", to, w.get(to).text)
	}
	p.follow("Others of this cause")
	saved := w.get("/console/save?stream=orders&part=value&id=orders.v1:0:1")
	if saved.text != "\x00\x01\x02\xfe" || !strings.HasPrefix(saved.header.Get("Content-Disposition"), "attachment") || saved.header.Get("X-Content-Type-Options") != "nosniff" || saved.header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("saved: %q %v", saved.text, saved.header)
	}
	if key := w.get("/console/save?stream=orders&part=key&id=orders.v1:0:1"); key.text != "\xff\x00" {
		t.Errorf("the key is %q", key.text)
	}
	whole := w.get("/console/export?stream=orders&key=a")
	if strings.Count(whole.text, "\n") != 1 || !strings.HasPrefix(whole.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("export: %q %v", whole.text, whole.header)
	}
}

// A look sees the oldest 2,000. What lies behind is said wherever a number is shown, and is touched
// only where that is asked for.
func TestNoneOneAndTwoThousandDeadAreShown(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, page := range []string{"groups", "messages"} {
		w.visit("/console/"+page+"?stream=orders").has(t, "Nothing is dead here")
	}
	w.die(1, records(1, "no")...)
	// Those who ask within a second share a look.
	later := func(path, text string) *plain {
		t.Helper()
		p := w.visit(path)
		eventually(t, path+" shows "+text, func() bool { p.open("GET", path, nil); return strings.Contains(p.text, text) })
		return p
	}
	later("/console/groups?stream=orders", "1 dead, by cause")
	w.die(2005, records(2004, "many")...)
	p := later("/console/messages?stream=orders", "2,000 dead")
	p.has(t, "What is below is of the oldest 2,000 of 2,005 dead messages: 5 lie behind them and were not looked at.")
	w.visit("/console/groups?stream=orders").has(t, "1,999 or more")
	first := picks(p)
	p.follow("Next 50")
	p.has(t, "To the oldest")
	if next := picks(p); len(first) != 50 || len(next) != 50 || slices.ContainsFunc(next, func(id string) bool { return slices.Contains(first, id) }) {
		t.Errorf("behind %v come %v", first, next)
	}
	p.open("GET", "/console/confirm?stream=orders&all=true&action=delete", nil)
	p.has(t, "Delete 2,000 messages?", "They are not touched")
	p.follow("Include those that match")
	p.has(t, "Delete up to 2,005 messages?", "goes to the trash")
	p.follow("For good instead")
	p.has(t, "Delete up to 2,005 messages for good?", "Type 2005")
	p.press("Delete up to 2,005 for good", map[string]string{"typed": "2005"})
	eventually(t, "all are deleted", func() bool { return w.dead() == 0 })
}

// picks are the ids that can be ticked on a page.
func picks(p *plain) (ids []string) {
	for n := range p.page.Descendants() {
		if attr(n, "name") == "pick" {
			ids = append(ids, attr(n, "value"))
		}
	}
	return ids
}

func TestAnErrorOfAMegabyteAndNamesInOtherScriptsAreShown(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(2, &kgo.Record{Key: []byte("ключ/キー\u202e"), Value: []byte("الخطأ: لم يتم العثور على الطلب")}, &kgo.Record{Key: []byte("big"), Value: []byte(strings.Repeat("error ", 900<<10/6))})
	for _, path := range []string{"groups?stream=orders", "messages?stream=orders", "message?stream=orders&id=orders.v1:0:1", "confirm?stream=orders&action=replay&all=true"} {
		if a := w.get("/console/" + path); len(a.text) > 400<<10 {
			t.Errorf("%s has %d bytes", path, len(a.text))
		}
	}
	w.visit("/console/messages?stream=orders&key="+url.QueryEscape("ключ/キー\u202e")).has(t, "1 of 2 dead match", "الخطأ")
}

// Each field of a filter is known to /v1, and each of its reasons.
func TestEveryFieldOfTheFilterIsUnderstood(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := w.visit("/console/groups?stream=orders")
	given := map[string]string{
		"partition": "0", "offset_from": "0", "offset_to": "1", "attempts_min": "1", "replays_max": "1", "died_from": "2h", "died_to": "1s",
		"group": "7f3a91c2b04d", "is-header": "x", "is-path": "x",
	}
	for n := range p.page.Descendants() {
		name := attr(n, "name")
		switch {
		case name == "" || name == "stream":
		case n.Data == "select":
			for o := range n.Descendants() {
				if o.Data == "option" && textOf(o) != "any" {
					w.visit("/console/groups?stream=orders&" + name + "=" + textOf(o))
				}
			}
		case n.Data == "input" && given[name] == "":
			given[name] = "x"
		}
	}
	p.press("Filter", given)
	for _, want := range []string{"header.x=x", "value.x=x", "trace_id=x"} {
		if !strings.Contains(p.path, want) {
			t.Errorf("%s has no %s", p.path, want)
		}
	}
	p.press("Filter", nil)
	if a := w.try("GET", "/console/groups?stream=orders&eror=x", nil); a.status != http.StatusBadRequest || !strings.Contains(a.text, "did you mean error?") {
		t.Errorf("an unknown name: %d %s", a.status, a.text)
	}
	for _, path := range []string{"groups?stream=no", "messages?stream=orders&channel=no", "message?stream=orders&id=no", "operation?id=no", "operations?state=no", "groups"} {
		if a := w.try("GET", "/console/"+path, nil); a.status != http.StatusNotFound && a.status != http.StatusBadRequest || !strings.Contains(a.text, "<main") {
			t.Errorf("%s: %d %s", path, a.status, a.text)
		}
	}
}

// Then its paths are the program's own, as any other.
func TestTheConsoleCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	w := start(t, "SERVER_CONSOLE=false")
	for _, path := range []string{"/console", "/console/", "/console/console.css", "/console/login"} {
		if a := w.try("GET", path, nil); a.status != http.StatusNotFound || strings.Contains(a.text, "<") {
			t.Errorf("%s: %d %s", path, a.status, a.text)
		}
	}
	if w.get("/v1/streams").text == "" {
		t.Error("/v1 went with it")
	}
}

// It should be read whole in an hour, and loaded by a phone at night: what is served beside the
// pages, and the pages' templates.
func TestTheFilesOfThePagesAreSmall(t *testing.T) {
	t.Parallel()
	w := start(t)
	served, templates := 0, 0
	for _, path := range []string{"/console/console.css", "/console/console.js", "/console/icon.svg"} {
		served += len(w.get(path).text)
	}
	pages, err := filepath.Glob("pages/*.html")
	if err != nil || pages == nil {
		t.Fatalf("templates: %q, %v", pages, err)
	}
	for _, path := range pages {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		templates += len(text)
	}
	if script, all := len(w.get("/console/console.js").text), served+templates; script > 15<<10 || all > 60<<10 {
		t.Errorf("the script has %d bytes, all have %d", script, all)
	}
	t.Log(served, "bytes are served beside the pages, whose templates have", templates)
}

// The page of streams keeps what it can: whoever is paged sees at once that the queues are why.
func TestWithTheQueuesAwayThePagesSayWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(1, records(1, "no")...)
	_, lines := w.listen(t.Context())
	queues, is := w.brokers.Queues().(*memory.Broker)
	if !is {
		t.Fatal("the queues are not those in memory")
	}
	queues.SetUp(false)
	eventually(t, "the streams are in trouble", func() bool { return strings.Contains(w.visit("/console/").text, "trouble") })
	p := w.visit("/console/")
	p.has(t, "not known")
	// What is not known is not told: open pages keep the last number, and show that it is old.
	for lines.Scan() && !strings.Contains(lines.Text(), `"stream orders  known":"stale"`) {
		continue
	}
	if strings.Contains(lines.Text(), `"stream orders  dead"`) || !strings.Contains(lines.Text(), `"stream orders  lag"`) {
		t.Errorf("told: %s", lines.Text())
	}
	queues.SetUp(true)
	eventually(t, "all is well again", func() bool {
		return strings.Contains(w.try("GET", "/console/groups?stream=orders", nil).text, "1 dead, by cause")
	})
}
