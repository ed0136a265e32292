package records

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/queue"
)

// written is an entry as a log has it.
type written struct {
	entry
	offset int64
	size   int
}

// now is the time of these tests.
var now = time.Unix(1_000_000, 0)

// values are the records that count, by kind and name.
func (f *fold) values() map[string]string {
	all := map[string]string{}
	for kind, names := range f.kinds {
		for name, h := range names {
			if h.counts(now) {
				all[kind+"/"+name] = string(h.Value)
			}
		}
	}
	return all
}

// A log of several times its size, written by many who have each read up to somewhere: whoever
// reads what is left of it, from wherever that begins, comes to the records of who has read all.
func TestWhoReadsWhatIsLeftOfALogKnowsAllThatOneKnowsWhoReadAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 16 << 10 // of an entry, with what it needs beside its body
		entries := rapid.IntRange(1000, 3*queue.LogSize/size).Draw(t, "entries")
		names := rapid.IntRange(1, 40).Draw(t, "names")
		random := rapid.Uint64().Draw(t, "seed")
		next := func(n int) int { // rapid's own draws would be too many
			random = random*6364136223846793005 + 1442695040888963407
			return int(random>>33) % n
		}
		var log []written
		all := newFold()
		write := func(e entry) bool {
			w := written{entry: e, offset: int64(len(log)), size: size - perEntry}
			log = append(log, w)
			return all.apply(w.offset, w.size, &w.entry)
		}
		seen := func() int64 { return all.next - 1 }
		quiet := next(2) == 0 // most names are written once, and live by being written again
		for len(log) < entries {
			for _, h := range all.old(now) {
				if !write(*newEntry(&h.Record, seen())) {
					t.Fatalf("%s was not written again", h.Name)
				}
			}
			e := entry{Kind: "k", Name: fmt.Sprint(next(names)), Seen: seen() - int64(next(4)*next(700)), Value: json.RawMessage(fmt.Sprint(len(log)))}
			switch n := next(20); {
			case quiet && len(log) > 2*names:
				e = entry{Seen: e.Seen} // a mark
			case n < 4:
				e.Value = nil
			case n < 6:
				e.Until = now.Unix() - 1
			}
			e.Seen = max(e.Seen, -1)
			write(e)
		}
		// The log may have dropped as much as it is larger than its size.
		most := max(0, len(log)-queue.LogSize/size)
		for _, first := range []int{0, most / 2, most} {
			late := newFold()
			for _, w := range log[first:] {
				late.apply(w.offset, w.size, &w.entry)
			}
			if got, want := late.values(), all.values(); !maps.Equal(got, want) {
				t.Fatalf("who begins at %d of %d knows %v, not %v", first, len(log), got, want)
			}
		}
	})
}

// Where the log now begins a writer had not seen that a record was gone. Who read all knows that
// its entry does not count, and nobody writes it again: who begins there must leave it out, too.
func TestWhoBeginsLaterDoesNotBringBackWhatWasGone(t *testing.T) {
	log := []entry{
		{Kind: "k", Name: "a", Seen: -1, Value: json.RawMessage("1")},
		{Kind: "k", Name: "a", Seen: 0},
		{Kind: "k", Name: "a", Seen: 0, Value: json.RawMessage("2")},
		{Kind: "k", Name: "b", Seen: 1, Value: json.RawMessage("3")},
	}
	for first := range 3 {
		f := newFold()
		for i, e := range log[first:] {
			f.apply(int64(first+i), 10, &e)
		}
		if got, want := f.values(), map[string]string{"k/b": "3"}; !maps.Equal(got, want) {
			t.Errorf("who begins at %d knows %v, not %v", first, got, want)
		}
	}
}

// What was gone, and what is out of date, is forgotten: memory does not grow with what was written.
func TestWhatIsGoneIsForgotten(t *testing.T) {
	f := newFold()
	for i := range int64(5 * mostBehind) {
		e := entry{Kind: "k", Name: fmt.Sprint(i), Seen: f.next - 1}
		switch i % 3 {
		case 0: // gone
		case 1:
			e.Value, e.Until = json.RawMessage("1"), now.Unix()-1
		case 2:
			e.Name, e.Value = "one", json.RawMessage("2")
		}
		if !f.apply(i, 10<<10, &e) {
			t.Fatalf("entry %d does not count", i)
		}
	}
	f.expire(now)
	if n := len(f.kinds["k"]); n > 2*mostBehind/3+2 || n < mostBehind/3 {
		t.Errorf("%d names are held", n)
	}
	var size int64
	for _, h := range f.kinds["k"] {
		size += h.size
	}
	if f.size != size {
		t.Errorf("%d bytes are counted, %d are held", f.size, size)
	}
}

func TestOfTwoWhoChangeARecordTheFirstCounts(t *testing.T) {
	f := newFold()
	for offset, step := range []struct {
		e    entry
		want bool
	}{
		{entry{Kind: "k", Name: "a", Seen: -1, Value: json.RawMessage("1")}, true},
		{entry{Kind: "k", Name: "a", Seen: -1, Value: json.RawMessage("2")}, false},
		{entry{Kind: "k", Name: "b", Seen: -1, Value: json.RawMessage("2")}, true},
		{entry{Kind: "k", Name: "a", Seen: 0}, true},
		{entry{Kind: "k", Name: "a", Seen: 2, Value: json.RawMessage("3")}, false},
		{entry{Kind: "k", Name: "a", Seen: 3, Value: json.RawMessage("4")}, true},
		{entry{Seen: -1}, true},
	} {
		if got := f.apply(int64(offset), 10, &step.e); got != step.want {
			t.Errorf("entry %d: counts %v, not %v", offset, got, step.want)
		}
	}
	if got, want := f.values(), map[string]string{"k/a": "4", "k/b": "2"}; !maps.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}

// What was gone is forgotten by then, so that nobody could say whether the writer had seen it go.
func TestWhatComesFarBehindWhatItsWriterHadReadDoesNotCount(t *testing.T) {
	f := newFold()
	late := func(name string) bool {
		return f.apply(f.next, 10, &entry{Kind: "k", Name: name, Value: json.RawMessage("1")})
	}
	f.apply(0, 10, &entry{Kind: "k", Name: "a", Seen: -1, Value: json.RawMessage("1")})
	f.apply(1, 10, &entry{Kind: "k", Name: "a", Seen: 0})
	for f.next < mostBehind-1 {
		f.apply(f.next, 10, &entry{})
	}
	if late("a") || !late("b") {
		t.Error("at the bound: it undid what its writer had not seen, or does not count where nothing was changed")
	}
	if late("a") || late("b") || late("c") {
		t.Error("what is beyond the bound counts")
	}
}

// What is changed takes the place of what was there. Who leads, and how far an operation is, are
// records too: they must not stand still because others have filled all the room.
func TestARecordThatDoesNotGrowFitsWhereThereIsNoRoom(t *testing.T) {
	f := newFold()
	held := Record{Kind: "k", Name: "held", Value: json.RawMessage(`12345`)}
	f.apply(0, 100, newEntry(&held, -1))
	f.size = mostBytes
	for _, c := range []struct {
		name, value string
		fits        bool
	}{
		{"held", `54321`, true},
		{"held", `1`, true},
		{"held", `123456`, false},
		{"another", `1`, false},
	} {
		r := Record{Kind: "k", Name: c.name, Value: json.RawMessage(c.value)}
		if fits := f.fits(&r, now); fits != c.fits {
			t.Errorf("%s in place of %s: fits is %v", c.value, c.name, fits)
		}
	}
}

func TestWhatAppsHaveTakesNoRoomFromOperationsAndPauses(t *testing.T) {
	f := newFold()
	for kind, most := range map[string]int64{"limits": 24 << 20, "stepwell.operations": 32 << 20, "stepwell.pauses": 32 << 20} {
		r := Record{Kind: kind, Name: "another", Value: json.RawMessage(`1`)}
		for size, want := range map[int64]bool{most - 2: true, most - 1: false, most: false} {
			f.size = size
			if fits := f.fits(&r, now); fits != want {
				t.Errorf("%s beside %d bytes: fits is %v", kind, size, fits)
			}
		}
	}
}

// The log has values in a form of its own, in which some have six times as many bytes.
func TestWhetherAValueGrowsIsAskedOfWhatTheLogHas(t *testing.T) {
	for value, fits := range map[string]bool{`["a"]`: true, `[ "a" ]`: true, `["<"]`: false} {
		s := New(Config{Broker: memory.New()})
		held := Record{Kind: "k", Name: "held", Value: json.RawMessage(`["a"]`)}
		s.fold.apply(0, 100, newEntry(&held, -1))
		s.fold.size, s.known = mostBytes, true
		_, err := s.next("k", "held", func(r Record) (Record, error) {
			r.Value = json.RawMessage(value)
			return r, nil
		})
		if (err == nil) != fits {
			t.Errorf("%s: %v", value, err)
		}
	}
}
