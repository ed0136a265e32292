package console

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/filter"
)

// It did once: the key of a form hid the filter by key, and all messages matched.
func TestNoNameOfTheConsoleHidesAParameterOfAFilter(t *testing.T) {
	for _, name := range filter.Names() {
		if own(name) {
			t.Errorf("%s is a parameter of filters, and a name of the console's own", name)
		}
		if words := phrase(name, "x"); !strings.Contains(words, "x") || strings.HasPrefix(words, "whose "+name+" is") {
			t.Errorf("%s in words: %s", name, words)
		}
	}
	for _, reason := range reasons() {
		if _, err := filter.Parse(map[string]string{"reason": reason}, time.Now()); err != nil {
			t.Error(err)
		}
	}
}

// /v1 refuses two ways to choose as well: this page must not come to depend on it.
func TestExactlyOneWayToChooseIsOne(t *testing.T) {
	filter, picked := map[string]string{"error": "no"}, []string{"a"}
	for _, test := range []struct {
		of   choice
		good bool
	}{
		{choice{}, false}, {choice{All: true}, true}, {choice{Filter: filter}, true}, {choice{Picked: picked}, true},
		{choice{Operation: "op_1"}, true}, {choice{Operation: "op_1", All: true}, false}, {choice{Operation: "op_1", Filter: filter}, false}, {choice{Operation: "op_1", Ticked: true}, false},
		{choice{Operation: "op_1", Picked: picked, Ticked: true}, true}, {choice{Operation: "op_1", Picked: picked, All: true}, false},
		{choice{All: true, Filter: filter}, false}, {choice{All: true, Picked: picked}, false}, {choice{Filter: filter, Picked: picked}, false},
	} {
		if got, err := test.of.selected(); (err == nil) != test.good {
			t.Errorf("%+v is %+v, %v", test.of, got, err)
		}
	}
}

// What a URL says comes back from it, whatever it is.
func FuzzAChoiceComesBackFromItsURL(f *testing.F) {
	f.Add("orders", "slow", "error", "status 503&x=<y>", "a/b", false)
	f.Add("ключ", "", "header.a b", "\x00\xff;+%", "", true)
	f.Fuzz(func(t *testing.T, stream, channel, name, text, id string, all bool) {
		c := choice{Stream: stream, Channel: channel, Filter: map[string]string{}, All: all}
		if name != "" && !own(name) {
			c.Filter[name] = text
		}
		if id != "" {
			c.Picked = []string{id}
		}
		u, err := url.Parse(c.To("confirm"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := choose(u.Query())
		if err != nil {
			t.Fatal(err)
		}
		if got.Stream != stream || got.Channel != channel || got.All != all || len(got.Filter) != len(c.Filter) || len(got.Picked) != len(c.Picked) {
			t.Fatalf("%+v became %+v by %s", c, got, u)
		}
		for name, text := range c.Filter {
			if got.Filter[name] != text {
				t.Fatalf("%s: %q became %q", name, text, got.Filter[name])
			}
		}
		if _, err := got.selected(); err == nil && len(got.Picked)+len(got.Filter) == 0 && !got.All {
			t.Fatal("nothing is something")
		}
	})
}

// Two hours ago moves on while somebody reads the page that asks; confirmed is what it showed.
func TestTimesInAFilterAreThoseOfTheLook(t *testing.T) {
	now := time.Date(2026, 11, 23, 16, 0, 0, 0, time.UTC)
	c := choice{Filter: map[string]string{"died_from": "2h", "died_to": "2026-01-01T00:00:00Z", "error": "2h"}}
	got := c.fixed(now)
	if got.Filter["died_from"] != "2026-11-23T14:00:00Z" || got.Filter["died_to"] != "2026-01-01T00:00:00Z" || got.Filter["error"] != "2h" || c.Filter["died_from"] != "2h" {
		t.Errorf("%v of %v", got.Filter, c.Filter)
	}
}

// What a person reads at night, in one place.
func TestNumbersAndTimesAreForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 94120: "94,120", -1234567: "-1,234,567", -100: "-100"} {
		if got := number(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	for d, want := range map[time.Duration]string{-time.Second: "0 s", 90 * time.Second: "90 s", 3 * time.Minute: "3 min", 26 * time.Hour: "26 h", 72 * time.Hour: "3 days"} {
		if got := lasting(d); got != want {
			t.Errorf("%v: %s", d, got)
		}
	}
	for n, want := range map[int64]string{0: "0 bytes", 1: "1 byte", 2: "2 bytes", 1023: "1,023 bytes", 2048: "2.0 KiB"} {
		if got := size(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	minutes := make([]int, 60)
	minutes[0], minutes[59] = 1, 70
	if got := spark(minutes); got != "▂▁▁▁▁▁▁▁▁▁▁█" {
		t.Errorf("spark: %s", got)
	}
	for at, want := range map[int]string{59: "grows: 70 in the last 5 minutes", 58: "grows: 70 in the last 5 minutes", 57: "70 in the last 5 minutes", 55: "70 in the last 5 minutes", 54: "70 in the last hour"} {
		minutes := make([]int, 60)
		minutes[at] = 70
		if got := recent(minutes, true); got != want {
			t.Errorf("some died in minute %d of 60: %s", at, got)
		}
	}
}

func TestAPersonReadsHowMuchThereIsToDoBeforeItIsCounted(t *testing.T) {
	many := 31500
	for want, o := range map[string]operation{
		"0 of at most 31,500": {Phase: "queued", Expect: &many},
		"410 of 31,500":       {Phase: "running", Expect: &many, Matched: many, Done: 410},
		"586 of 31,500":       {Phase: "running", Expect: &many, Matched: many, Done: 410, Outcome: &outcome{Handled: 586}},
		"0 of 0":              {Phase: "done", Expect: &many},
		"31,500 of 31,500":    {Phase: "done", Matched: many, Done: many, Outcome: &outcome{Handled: 3}},
	} {
		if got := o.Progress(); got != want {
			t.Errorf("%+v: %s, want %s", o, got, want)
		}
	}
	if took := (question{Expect: many, Rate: slowRate}).Takes(); took != "2 min" {
		t.Errorf("%d at %s take %s", many, slowRate, took)
	}
	if took := (question{Expect: many}).Takes(); took != "" {
		t.Errorf("as fast as it can takes %s", took)
	}
}

func TestWhatMatchesAndStaysIsSaidInWords(t *testing.T) {
	l := leftOut{CrashLoop: 2, Undated: 1}
	const want = "2 that killed the process before; 1 of which nobody knows when they died: choose them by their ids"
	if l.Words() != want || (operation{LeftOut: l}).LeftOutText() != "Matches, and stays: "+want || (operation{}).LeftOutText() != "" {
		t.Errorf("%q, %q", l.Words(), operation{LeftOut: l}.LeftOutText())
	}
}
