package console_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// causeOf is the fingerprint of the first cause on a page of them.
func (p *plain) causeOf() string {
	p.t.Helper()
	to, err := url.Parse(p.linkTo("dead_letter"))
	if err != nil {
		p.t.Fatal(err)
	}
	return to.Query().Get("group")
}

func TestACauseIsNamedByWhatItsErrorsShareWhereItIsAskedAboutAndWhereItIsDone(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(2, records(2, "bank: status 503")...)
	group := w.visit("/console/groups?stream=orders").causeOf()
	named := "those of the cause bank: status 503 " + group
	p := w.visit("/console/confirm?stream=orders&action=delete&group=" + group)
	p.has(t, named)
	p.press("Delete 2", nil)
	operation := p.path
	eventually(t, "it is deleted", func() bool { p.open("GET", operation, nil); return strings.Contains(p.text, "done 2 of 2") })
	p.has(t, named)
	w.visit("/console/operations").has(t, named)
}

// "All messages" and one of four causes beside it would be read as all messages of that cause.
func TestAnOperationSaysThatItIsAboutOtherCausesThanThoseItNames(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(14, slices.Concat(records(5, "bank: away"), records(4, "bank: closed"), records(3, "bank: full"), records(2, "bank: robbed"))...)
	p := w.visit("/console/confirm?stream=orders&action=delete&all=true")
	p.press("Delete 14", nil)
	operation := p.path
	eventually(t, "it is deleted", func() bool { p.open("GET", operation, nil); return strings.Contains(p.text, "done 14 of 14") })
	p.has(t, "all messages", "5 of bank: away", "3 of bank: full others")
	w.visit("/console/operations").has(t, "all messages bank: away and others")
}

func TestWhatIsAskedFitsWhatIsDone(t *testing.T) {
	t.Parallel()
	w := start(t, "DEAD_SET_TRASH=48h")
	w.die(3, append(records(2, "no"), records(1, "x")...)...)
	ask := func(what string) *plain { return w.visit("/console/confirm?stream=orders&" + what) }

	p := ask("action=delete&all=true")
	p.has(t, "and more may follow")
	_, until, _ := strings.Cut(p.text, "can be restored from there for 2 days, until ")
	kept, err := time.Parse(time.DateTime, until[:min(len(until), len(time.DateTime))])
	if in := time.Until(kept); err != nil || in > 48*time.Hour || in < 47*time.Hour {
		t.Errorf("it is kept until %q: %v", until, err)
	}
	ask("action=replay&all=true").has(t, "is the cause mended?")
	p = ask("action=delete&all=true&forever=true")
	p.has(t, "Delete 3 messages for good?")
	p.follow("To the trash instead")
	p.has(t, "Delete 3 messages?", "For good instead")
	p.press("Delete 3", nil)
	deletion := p.path
	eventually(t, "it is deleted", func() bool { p.open("GET", deletion, nil); return strings.Contains(p.text, "done 3 of 3") })
	p.follow("Undo…")
	if p.has(t, "Restore 3 messages?"); strings.Contains(p.text, "within the last five minutes") {
		t.Errorf("a restore replays nothing: %s", p.text)
	}
	if p = w.visit("/console/trash?stream=orders&error=x"); !strings.Contains(p.text, "The one that matches:") {
		t.Errorf("one matches: %s", p.text)
	}

	w = start(t, "DEAD_SET_TRASH=0")
	w.die(1, records(1, "no")...)
	p = w.visit("/console/confirm?stream=orders&action=delete&all=true")
	if p.has(t, "Delete 1 message for good?"); strings.Contains(p.text, "To the trash instead") {
		t.Errorf("there is no trash: %s", p.text)
	}
}

// Many die until the cause is mended; what a replay takes out is not growth, nor is one message.
func TestACauseGrowsUnlessItIsOneMessageOrAnOperationEmptiesIt(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(4, append(records(3, "no"), records(1, "x")...)...)
	p := w.visit("/console/groups?stream=orders")
	p.has(t, "grows: 3 in the last 5 minutes")
	if strings.Contains(p.text, "grows: 1 in") {
		t.Errorf("one message grows: %s", p.text)
	}
	w.mended.Store(true)
	w.slowly("error=no")
	if p = w.visit("/console/groups?stream=orders"); strings.Contains(p.text, "grows") {
		t.Errorf("what is replayed grows: %s", p.text)
	}
	p.has(t, "2 in the last 5 minutes")
}
