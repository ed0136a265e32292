package records

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
)

// grow has so many MiB more be written by others.
func grow(f *fold, mib int) {
	for range mib {
		f.apply(f.next, 1<<20-perEntry, &entry{})
	}
}

// hold writes a record that takes a MiB of the log; until is when it is out of date.
func hold(t *testing.T, f *fold, name string, until int64) {
	t.Helper()
	if !f.apply(f.next, 1<<20-perEntry, &entry{Kind: "k", Name: name, Seen: f.next - 1, Until: until, Value: json.RawMessage("1")}) {
		t.Fatalf("%s does not count", name)
	}
}

// names are those of the records that have to be written again.
func (f *fold) names() (all []string) {
	for _, h := range f.old(now) {
		all = append(all, h.Name)
	}
	slices.Sort(all)
	return all
}

// A log keeps 256 MiB. What is written again has gone a quarter of the way, or half of that where
// others are written again anyway.
func TestARecordIsWrittenAgainOnceForEachQuarterOfALog(t *testing.T) {
	f := newFold()
	hold(t, f, "first", 0)
	grow(f, 30)
	hold(t, f, "halfway", 0)
	hold(t, f, "later", 0)
	for _, step := range []struct {
		mib  int
		want []string
	}{
		{30, nil}, // 63 MiB
		{1, []string{"first", "halfway"}},
		{31, []string{"later"}},
		{31, []string{"first", "halfway"}}, // 126 MiB, of which later has 31 behind it
		{1, nil},
		{1, []string{"later"}},
	} {
		grow(f, step.mib)
		got := f.names()
		if !slices.Equal(got, step.want) {
			t.Fatalf("with %d MiB written: %v, not %v", f.bytes>>20, got, step.want)
		}
		for _, name := range got {
			held := f.kinds["k"][name].Record
			f.apply(f.next, 0, newEntry(&held, f.next-1))
		}
	}
}

func TestEachRecordIsWrittenAgainAndNoneThatIsGoneOrOutOfDate(t *testing.T) {
	f := newFold()
	var want []string
	for i := range 60 {
		name, e := fmt.Sprintf("%02d", i), entry{Kind: "k", Seen: f.next - 1, Value: json.RawMessage("1")}
		switch e.Name = name; i % 3 {
		case 0:
			e.Value = nil
		case 1:
			e.Until = now.Unix()
		default:
			want = append(want, name)
		}
		f.apply(f.next, 10, &e)
	}
	grow(f, 64)
	if got := f.names(); !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}

// Beside its body an entry takes some room in the log: many small ones push out as much as few
// large ones.
func TestSmallEntriesPushOutWhatIsOldThoughTheirBodiesAreNextToNothing(t *testing.T) {
	f := newFold()
	hold(t, f, "kept", 0)
	for range 300_000 {
		f.apply(f.next, 0, &entry{})
	}
	if got := f.names(); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("%v is to be written again", got)
	}
}

// Whoever had not read that it is gone must not bring it back.
func TestWhatIsGoneIsRememberedForAsLongAsAnEntryMayCountWhoseWriterDidNotKnow(t *testing.T) {
	f := newFold()
	f.apply(0, 10, &entry{Kind: "k", Name: "a", Seen: -1, Value: json.RawMessage("1")})
	f.apply(1, 10, &entry{Kind: "k", Name: "a", Seen: 0})
	for f.next < mostBehind {
		f.apply(f.next, 10, &entry{})
	}
	if f.apply(f.next, 10, &entry{Kind: "k", Name: "a", Value: json.RawMessage("1")}) || len(f.values()) > 0 {
		t.Errorf("what was gone is back: %v", f.values())
	}
}

// A writer whose clock is behind, or who had not read it, decides by what was before: others, who
// have not looked at what is out of date, say that its entry does not count.
func TestWhatIsOutOfDateIsRememberedForAsLongAsAnEntryMayCountWhoseWriterDidNotKnow(t *testing.T) {
	looks, other := newFold(), newFold()
	for _, f := range []*fold{looks, other} {
		hold(t, f, "a", 0)
		hold(t, f, "a", now.Unix())
		for f.next < mostBehind {
			f.apply(f.next, 10, &entry{})
		}
	}
	looks.expire(now)
	late := entry{Kind: "k", Name: "a", Value: json.RawMessage("2")} // its writer had read the first
	if a, b := looks.apply(mostBehind, 10, &late), other.apply(mostBehind, 10, &late); a || b {
		t.Errorf("it counts: %v where somebody looked, %v where not", a, b)
	}
}

func TestWhatIsOutOfDateIsForgottenAndMakesRoomByAndBy(t *testing.T) {
	for what, look := range map[string]func(*fold){
		"who looks what is old": func(f *fold) { grow(f, 64); f.old(now) },
		"who asks for room": func(f *fold) {
			if !f.fits(&Record{Kind: "k", Name: "another", Value: json.RawMessage("1")}, now) {
				t.Error("what is out of date takes room for ever")
			}
		},
	} {
		f := newFold()
		for i := range 24 {
			hold(t, f, fmt.Sprint(i), now.Unix())
		}
		for f.next < 2*mostBehind {
			f.apply(f.next, 10, &entry{})
		}
		if look(f); f.size != 0 || len(f.kinds["k"]) != 0 {
			t.Errorf("%s: %d are held, of %d bytes", what, len(f.kinds["k"]), f.size)
		}
	}
}

// Who reads the log anew while its entry is on its way must not take it for stored: all others,
// who read more, left it out perhaps.
func TestAnEntryWhoseWriterReadNothingOfWhatIsLeftOfTheLogDoesNotCount(t *testing.T) {
	f := newFold()
	f.apply(10, 10, &entry{})
	for seen, want := range map[int64]bool{-1: false, 8: false, 9: true, 10: true} {
		name := fmt.Sprint(seen)
		if got := f.apply(f.next, 10, &entry{Kind: "k", Name: name, Seen: seen, Value: json.RawMessage("1")}); got != want {
			t.Errorf("one who had read up to %d: counts %v", seen, got)
		}
		if there := f.values()["k/"+name] != ""; there != want {
			t.Errorf("one who had read up to %d: there is %v", seen, there)
		}
	}
}
