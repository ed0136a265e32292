package ledger

import (
	"strings"
	"testing"
)

func TestTheJudgeOfOrderFindsWhatPassedWhatItHadToWaitFor(t *testing.T) {
	for _, c := range []struct {
		name    string
		entries []Entry
		wrong   string // a part of one complaint; empty: there is none
	}{
		{"in order", join(call(0, 1, Failed), call(0, 2, Done), call(1, 1, Dead), call(2, 1, Done)), ""},
		{"the last try failed", join(call(0, 1, Failed), call(0, 2, Failed), call(1, 1, Skipped), call(2, 1, Done)), ""},
		{"a record passes one that failed", join(call(0, 1, Failed), call(1, 1, Done), call(0, 2, Done), call(2, 1, Done)), "began before"},
		{"a record passes one that was snoozed", join(call(0, 1, Snoozed), call(1, 1, Done), call(0, 1, Done), call(2, 1, Done)), "began before"},
		{"one that was snoozed", join(call(0, 1, Snoozed), call(0, 1, Done), call(1, 1, Done), call(2, 1, Done)), ""},
		{"both again after a crash", join(call(0, 1, Done), call(1, 1, Done), call(0, 1, Done), call(1, 1, Done), call(2, 1, Done)), ""},
		{"the first again after the second was committed", join(call(0, 1, Dead), call(1, 1, Done), call(2, 1, Done), call(0, 1, Dead)), "called once more"},
		{"a replay", join(call(0, 1, Dead), call(1, 1, Done), call(2, 1, Done), replay(call(0, 1, Done))), ""},
		{"a hand-over", join(call(0, 1, HandedOver), call(1, 1, Done), call(2, 1, Done), channel(call(0, 1, Done))), ""},
		{"one that was cancelled", join(call(0, 1, Cancelled), call(1, 1, Done), call(0, 1, Done)), "began before"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, entries := story(c.entries...)
			b.heldBack(entries)
			if said := strings.Join(b.wrong, "; "); (c.wrong == "") != (said == "") || !strings.Contains(said, c.wrong) {
				t.Errorf("wrong: %q, want %q", said, c.wrong)
			}
		})
	}
}
