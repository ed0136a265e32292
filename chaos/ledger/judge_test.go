package ledger

import (
	"path/filepath"
	"strings"
	"testing"
)

// story is a book with three records of one key, at offsets 0 to 2, and a budget of two tries.
func story(entries ...Entry) (*Book, []Entry) {
	b := NewBook(Rules{Tries: 2})
	for i := range 3 {
		b.Produced(Position{0, int64(i)}, Record{Key: 7, Sequence: i})
	}
	for _, e := range entries {
		b.Note(e)
	}
	return b, entries
}

// at is an entry about the record at that offset.
func at(offset int64, attempt int, kind Kind) Entry {
	return Entry{Position: Position{0, offset}, Key: 7, Sequence: int(offset), Attempt: attempt, Kind: kind}
}

func call(offset int64, attempt int, kind Kind) []Entry {
	return []Entry{at(offset, attempt, Began), at(offset, attempt, kind)}
}

func join(parts ...[]Entry) []Entry {
	var all []Entry
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func replay(entries []Entry) []Entry {
	for i := range entries {
		entries[i].Replays = 1
	}
	return entries
}

func channel(entries []Entry) []Entry {
	for i := range entries {
		entries[i].Channel = true
	}
	return entries
}

var everything = map[int32]int64{0: 3}

func TestTheJudgeFindsWhatIsLostAndWhatIsWrong(t *testing.T) {
	good := join(call(0, 1, Done), call(1, 1, Failed), call(2, 1, Skipped), call(1, 2, Done))
	dead := map[string][]Position{"a.b.dead_set": {{0, 1}}}
	for _, c := range []struct {
		name    string
		entries []Entry
		end     End
		lost    int
		wrong   string // a part of one complaint; empty: there is none
	}{
		{"all is done", good, End{Committed: everything}, 0, ""},
		{"a record was never handled, and committed", good[:4], End{Committed: everything}, 2, ""},
		{"a record was never handled, and is not committed", good[:2], End{Committed: map[int32]int64{0: 1}}, 0, "2 records are not committed"},
		{"a failed record is nowhere", good[:6], End{Committed: everything}, 1, ""},
		{"a failed record waits in a queue", good[:6], End{Committed: everything, Queues: map[string][]Position{"a.b.delay.1": {{0, 1}}}}, 0, ""},
		{"an operator's delete took as many", good[:6], End{Committed: everything, Held: 1}, 0, ""},
		{"an operator's delete took fewer", good[:4], End{Committed: everything, Held: 1}, 2, ""},
		{"a message in a queue was never produced", good, End{Committed: everything, Queues: map[string][]Position{"q": {{0, 9}}}}, 0, "never produced"},
		{"a message is dead without a reason", good, End{Committed: everything, Queues: dead}, 0, "without a reason"},
		{"a message is dead at the end of its budget", join(good[:6], call(1, 2, Failed)), End{Committed: everything, Queues: dead}, 0, ""},
		{"a message is tried too often", join(good[:6], call(1, 2, Failed), call(1, 3, Done)), End{Committed: everything}, 0, "attempt 3 of 2"},
		{"a try follows one that did not fail", join(good, call(2, 2, Done)), End{Committed: everything}, 0, "did not fail"},
		{"a try follows one that was cancelled", join(call(0, 1, Cancelled), call(0, 2, Done)), End{}, 0, "did not fail"},
		{"a message is replayed that was not dead", join(good, replay(call(0, 1, Done))), End{Committed: everything}, 0, "not dead"},
		{"a key's second record begins before its first has ended", join(good[:1], call(1, 1, Done), good[1:2], call(2, 1, Done)), End{Committed: everything}, 0, "of the same key"},
		{"a key's second record begins after its first was only cancelled", join(call(0, 1, Cancelled), call(1, 1, Done), call(0, 1, Done), call(2, 1, Done)), End{Committed: everything}, 0, "of the same key"},
		{"a key's first record runs again after a crash", join(call(0, 1, Done), call(1, 1, Done), call(0, 1, Done), call(2, 1, Done)), End{Committed: everything}, 0, ""},
		{"a record is handed over, fails there and is done", join(call(0, 1, HandedOver), channel(join(call(0, 1, Failed), call(0, 2, Done))), call(1, 1, Done), call(2, 1, Done)), End{Committed: everything}, 0, ""},
		{"a record that was handed over is nowhere", join(call(0, 1, HandedOver), call(1, 1, Done), call(2, 1, Done)), End{Committed: everything}, 1, ""},
		{"it waits in the channel's queue", join(call(0, 1, HandedOver), call(1, 1, Done), call(2, 1, Done)), End{Committed: everything, Queues: map[string][]Position{"a.b.channel.c.instant": {{0, 0}}}}, 0, ""},
		{"it is in the channel's dead set without a reason", join(call(0, 1, HandedOver), call(1, 1, Done), call(2, 1, Done)), End{Committed: everything, Queues: map[string][]Position{"a.b.channel.c.dead_set": {{0, 0}}}}, 0, "without a reason"},
		{"nothing handed it over", join(good, channel(call(0, 1, Done))), End{Committed: everything}, 0, "nothing handed it over"},
		{"its budget in the channel does not begin anew", join(call(0, 1, Failed), call(0, 2, HandedOver), channel(call(0, 2, Done)), call(1, 1, Done), call(2, 1, Done)), End{Committed: everything}, 0, "did not fail"},
		{"a snoozed record is done later, in the same try", join(call(0, 1, Snoozed), call(1, 1, Done), call(2, 1, Done), call(0, 1, Snoozed), call(0, 1, Done)), End{Committed: everything}, 0, ""},
		{"a snoozed record is nowhere", join(call(0, 1, Snoozed), call(1, 1, Done), call(2, 1, Done)), End{Committed: everything}, 1, ""},
		{"a snooze counts as a try", join(call(0, 1, Snoozed), call(1, 1, Done), call(2, 1, Done), call(0, 2, Done)), End{Committed: everything}, 0, "did not fail"},
		{"a snoozed record is dead without a reason", join(call(0, 1, Done), call(1, 1, Snoozed), call(2, 1, Done)), End{Committed: everything, Queues: dead}, 0, "without a reason"},
		{"the handler saw another record", join(good, []Entry{{Position: Position{0, 0}, Key: 8, Attempt: 1, Kind: Done}}), End{Committed: everything}, 0, "saw key 8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, entries := story(c.entries...)
			r := b.Judge(c.end, entries)
			if len(r.Lost) != c.lost {
				t.Errorf("lost: %v, want %d", r.Lost, c.lost)
			}
			if said := strings.Join(r.Wrong, "; "); (c.wrong == "") != (said == "") || !strings.Contains(said, c.wrong) {
				t.Errorf("wrong: %q, want %q", said, c.wrong)
			}
		})
	}
}

func TestWhatIsDoomedMustRestInTheDeadSetWithItsReasonAndNothingElseMay(t *testing.T) {
	dead := map[string][]Position{"a.b.dead_set": {{0, 1}}}
	for _, c := range []struct {
		name    string
		entries []Entry
		end     End
		wrong   string
	}{
		{"it rests there", join(call(0, 1, Done), call(1, 1, Began), call(2, 1, Done)), End{Queues: dead, Reasons: map[Position]string{{0, 1}: "crash_loop"}}, ""},
		{"it has another reason", join(call(0, 1, Done), call(2, 1, Done)), End{Queues: dead, Reasons: map[Position]string{{0, 1}: "exhausted"}}, "should be"},
		{"it is not there", join(call(0, 1, Done), call(1, 1, Done), call(2, 1, Done)), End{}, "should be"},
		{
			"a healthy one is there too", join(call(0, 1, Done), call(2, 1, Dead)),
			End{Queues: map[string][]Position{"a.b.dead_set": {{0, 1}, {0, 2}}}, Reasons: map[Position]string{{0, 1}: "crash_loop", {0, 2}: "crash_loop"}}, "with the reason",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, entries := story(c.entries...)
			b.Doom(Position{0, 1}, "crash_loop")
			b.Committed(0, 0, 3)
			c.end.Committed = everything
			r := b.Judge(c.end, entries)
			if len(r.Lost) > 0 {
				t.Errorf("lost: %v", r.Lost)
			}
			if said := strings.Join(r.Wrong, "; "); (c.wrong == "") != (said == "") || !strings.Contains(said, c.wrong) {
				t.Errorf("wrong: %q, want %q", said, c.wrong)
			}
		})
	}
}

func TestACommitPastARecordWithoutAVerdictIsSeen(t *testing.T) {
	b, _ := story(join(call(0, 1, Done), call(1, 1, Cancelled))...)
	b.Committed(0, 0, 1)
	if b.wrongs != 0 {
		t.Fatalf("a good commit: %q", b.wrong)
	}
	b.Committed(0, 1, 2)
	if b.wrongs != 1 {
		t.Error("a commit past a record whose call was cancelled is not seen")
	}
}

func TestACommitThatGoesBackIsSeen(t *testing.T) {
	for _, c := range []struct {
		name       string
		from, next int64
		wrong      string
	}{
		{"it goes on", 1, 3, ""},
		{"it stays", 2, 2, ""},
		{"there is none yet", 0, -1, ""},
		{"it is the first", -1, 2, ""},
		{"it goes back", 3, 2, "partition 0: the commit went back from 3 to 2"},
		{"it goes back to the beginning", 3, 0, "partition 0: the commit went back from 3 to 0"},
		{"it is gone", 3, -1, "partition 0: the commit went back from 3 to -1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, _ := story(join(call(0, 1, Done), call(1, 1, Done), call(2, 1, Done))...)
			b.Committed(0, c.from, c.next)
			if said := strings.Join(b.wrong, "; "); said != c.wrong {
				t.Errorf("wrong: %q, want %q", said, c.wrong)
			}
		})
	}
}

func TestWhatIsTriedTwiceIsCounted(t *testing.T) {
	b, entries := story(join(call(0, 1, Done), call(0, 1, Done), call(1, 1, Done), call(2, 1, Failed), call(2, 1, Failed))...)
	if r := b.Judge(End{}, entries); r.Repeats != 2 || r.Calls != 5 {
		t.Errorf("%d repeats in %d calls", r.Repeats, r.Calls)
	}
}

func TestALedgerIsReadAsItWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w, err := Append(path)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		e := Entry{Position: Position{3, 1 << 40}, Key: 5, Sequence: 1 << 33, Attempt: 2, Replays: 1, Kind: Failed, Edit: EditBy("op_1")}
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
		got, err := r.Next()
		if err != nil || len(got) != 1 {
			t.Fatalf("round %d: %v %v", round, got, err)
		}
		if got[0].Time.IsZero() || got[0].Process == 0 {
			t.Errorf("no time or process: %+v", got[0])
		}
		got[0].Time, got[0].Process = e.Time, e.Process
		if got[0] != e {
			t.Errorf("read %+v, written %+v", got[0], e)
		}
	}
}

func TestAnEditedCopyIsToldByItsIDAlsoInAChannel(t *testing.T) {
	for id, want := range map[string]Edit{"t:0:1": 0, "t:0:1@slow": 0, "t:0:1~op_1": EditBy("op_1"), "t:0:1~op_1@slow": EditBy("op_1")} {
		if got := EditOf(id); got != want {
			t.Errorf("%s: %x, want %x", id, got, want)
		}
	}
	if EditBy("op_1") == EditBy("op_2") {
		t.Error("two edits are one")
	}
}
