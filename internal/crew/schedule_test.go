package crew

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell"
)

// onStage is what a schedule has handed out and did not get back, as one would note it by hand.
type onStage struct {
	t       *rapid.T
	running []Entry
	begun   map[uint64]int64 // the last offset of each key that was begun
	fresh   int              // offsets that were never handed out
}

// begins checks a task at the moment when its handler would be called.
func (s *onStage) begins(t Entry) {
	if t.Key != 0 {
		for _, other := range s.running {
			if other.Key == t.Key {
				s.t.Fatalf("offset %d begins while %d of the same key runs", t.Offset, other.Offset)
			}
		}
		if last, ok := s.begun[t.Key]; ok && last >= t.Offset {
			s.t.Fatalf("offset %d of a key begins after %d", t.Offset, last)
		}
		s.begun[t.Key] = t.Offset
	}
	s.running = append(s.running, t)
}

func (s *onStage) ends(t Entry) {
	s.running = slices.DeleteFunc(s.running, func(o Entry) bool { return o.Offset == t.Offset })
	s.fresh--
}

// stretchModel is a stretch under way.
type stretchModel struct {
	entries []Entry
	begun   int // the last of them runs
}

func TestAKeyNeverRunsTwiceAtOnceNorOutOfOrderAndNothingIsForgotten(t *testing.T) {
	rapid.Check(t, interleave)
}

func FuzzSchedule(f *testing.F) { f.Fuzz(rapid.MakeFuzz(interleave)) }

// interleave uses a schedule as workers do, in any order, and then handles or forgets the rest.
func interleave(t *rapid.T) {
	s := newSchedule()
	stage := &onStage{t: t, begun: map[uint64]int64{}}
	var single []Entry // handed out by Next or Done
	var stretch *stretchModel
	var top int64
	add := func(t *rapid.T) {
		for range rapid.IntRange(1, 20).Draw(t, "n") {
			s.Add(Entry{Message: &stepwell.Message{}, Offset: top, Fetched: top / 3, Key: rapid.Uint64Range(0, 5).Draw(t, "key")})
			top++
			stage.fresh++
		}
	}
	done := func(i int) {
		ended := single[i]
		single = slices.Delete(single, i, i+1)
		stage.ends(ended)
		next, ok := s.Done(ended)
		if ok {
			stage.begins(next)
			single = append(single, next)
		}
	}
	step := func() { // the worker of the stretch ends one call and begins the next
		if stretch.begun > 0 {
			stage.ends(stretch.entries[stretch.begun-1])
		}
		if stretch.begun == len(stretch.entries) {
			s.Unstretch(false, nil)
			stretch = nil
			return
		}
		stage.begins(stretch.entries[stretch.begun])
		stretch.begun++
	}
	t.Repeat(map[string]func(*rapid.T){
		"add": add,
		"next": func(t *rapid.T) {
			if next, ok := s.Next(); ok {
				if stretch != nil {
					t.Fatal("handed out beside a stretch")
				}
				stage.begins(next)
				single = append(single, next)
			}
		},
		"done": func(t *rapid.T) {
			if len(single) > 0 {
				done(rapid.IntRange(0, len(single)-1).Draw(t, "which"))
			}
		},
		"stretch": func(t *rapid.T) {
			entries := make([]Entry, rapid.IntRange(1, 8).Draw(t, "room"))
			n := s.Stretch(entries)
			if n > 0 && stretch != nil {
				t.Fatal("two stretches")
			}
			if n > 0 {
				stretch = &stretchModel{entries: entries[:n]}
			}
		},
		"go on": func(*rapid.T) {
			if stretch != nil {
				step()
			}
		},
		"take the rest away": func(*rapid.T) {
			if stretch == nil || stretch.begun == 0 {
				return
			}
			s.Unstretch(true, stretch.entries[stretch.begun-1:])
			single = append(single, stretch.entries[stretch.begun-1])
			stretch = nil
		},
		"look": func(t *rapid.T) {
			from := rapid.Int64Range(0, top/3+1).Draw(t, "from")
			until := from + rapid.Int64Range(0, 5).Draw(t, "more")
			if got, want := lookedThrough(&s, from, until), waitingOf(&s, from, until); !slices.Equal(got, want) {
				t.Fatalf("of what was fetched from %d to %d it shows %v, want %v", from, until, got, want)
			}
		},
	})
	for stretch != nil {
		step()
	}
	if rapid.Bool().Draw(t, "lost") {
		s.Clear()
		stage.fresh = len(single)
	}
	for {
		if next, ok := s.Next(); ok {
			stage.begins(next)
			single = append(single, next)
		} else if len(single) > 0 {
			done(0)
		} else {
			break
		}
	}
	if stage.fresh != 0 || s.Fresh() != 0 || s.waiting != 0 || len(s.busy) != 0 {
		t.Fatalf("%d were never handled, %d are fresh, %d wait, %d keys are busy", stage.fresh, s.Fresh(), s.waiting, len(s.busy))
	}
}

// lookedThrough has the offsets of what waits and was fetched in that range, as Since shows it.
func lookedThrough(s *schedule, from, until int64) (offsets []int64) {
	s.Since(from, func(e *Entry) bool {
		if e.Fetched >= until {
			return false
		}
		offsets = append(offsets, e.Offset)
		return true
	})
	slices.Sort(offsets)
	return offsets
}

// waitingOf has the same, of all that waits one by one.
func waitingOf(s *schedule, from, until int64) (offsets []int64) {
	all := slices.Clone(s.fresh[s.head:])
	for _, l := range s.busy {
		if l != nil {
			all = append(all, l.entries[l.head:]...)
		}
	}
	for _, e := range all {
		if e.Fetched >= from && e.Fetched < until {
			offsets = append(offsets, e.Offset)
		}
	}
	slices.Sort(offsets)
	return offsets
}

func TestAStretchPassesOverKeysThatAreBusy(t *testing.T) {
	s := newSchedule()
	for i, key := range []uint64{1, 1, 2, 0, 1} {
		s.Add(Entry{Offset: int64(i), Key: key})
	}
	slow, _ := s.Next()
	entries := make([]Entry, 8)
	n := s.Stretch(entries)
	if got := fmt.Sprint(offsetsOf(entries[:n])); got != "[2 3]" {
		t.Fatalf("the stretch has %s", got)
	}
	if next, ok := s.Done(slow); !ok || next.Offset != 1 {
		t.Fatalf("after the slow one comes %d", next.Offset)
	}
}

func offsetsOf(entries []Entry) (offsets []int64) {
	for _, e := range entries {
		offsets = append(offsets, e.Offset)
	}
	return offsets
}

func TestALineThatIsNeverEmptyDoesNotGrow(t *testing.T) {
	s := newSchedule()
	s.Add(Entry{Offset: 0, Key: 1})
	cur, _ := s.Next()
	s.Add(Entry{Offset: 1, Key: 1})
	s.Next()
	for o := int64(2); o < 200_000; o++ {
		s.Add(Entry{Offset: o, Key: 1})
		s.Next()
		next, ok := s.Done(cur)
		if !ok || next.Offset != o-1 {
			t.Fatal(next, ok)
		}
		cur = next
	}
	if l := s.busy[1]; cap(l.entries) > 10_000 {
		t.Errorf("one entry waits in a line of capacity %d", cap(l.entries))
	}
}

func BenchmarkScheduleSingly(b *testing.B) {
	s := newSchedule()
	b.ReportAllocs()
	var offset int64
	for b.Loop() {
		for range 64 {
			s.Add(Entry{Offset: offset, Key: uint64(offset%1000) + 1})
			offset++
		}
		for t, ok := s.Next(); ok; t, ok = s.Next() {
			s.Done(t)
		}
	}
	b.ReportMetric(64, "records/op")
}
