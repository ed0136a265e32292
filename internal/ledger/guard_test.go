package ledger

import (
	"slices"
	"testing"
)

// Deaths are held against a record only as long as it does not come to its end: one that fails, and
// is called again in place, ends no process by that.
func TestDeathsBeforeASuspectCameToItsEndAreForgotten(t *testing.T) {
	const at, limit = 5, 3
	said := Mark{}
	for life := uint32(1); life <= 6*limit; life++ {
		g := NewGuard(said, at, Rules{Limit: limit, Owner: life})
		commit := func() {
			said = g.Mark(at, at, at+1, 0, 1, false)
			g.Stored(said)
		}
		commit()
		if !g.Suspects(at) {
			if life > limit {
				t.Fatalf("life %d: nothing is suspected: %+v", life, said)
			}
			continue // and dies
		}
		if g.Review(func(uint32) bool { return false }) {
			t.Fatalf("life %d: it came to its end in each life, and %d deaths are held against it", life, len(g.Now().Died))
		}
		g.Announce(at)
		commit()
		g.Returned(at)
		commit()
		g.Announce(at) // its next try, in which the process dies of something else
		commit()
		if !g.MayRun(at) {
			t.Fatalf("life %d: %+v", life, said)
		}
	}
}

func TestWhoLosesAndRegainsAPartitionDoesNotCountItsOwnDeath(t *testing.T) {
	said := Mark{Owner: 7, Deaths: 3, SuspectsEnd: 20, Alone: 5, Accused: 5, Died: []uint32{1}}
	if g := NewGuard(said, 5, Rules{Limit: 3, Owner: 7}); len(g.now.Died) != 1 || g.now.Deaths != 3 {
		t.Errorf("counted as dead though it is ourselves: %+v", g.now)
	}
	if g := NewGuard(said, 5, Rules{Limit: 3, Owner: 8}); !slices.Equal(g.now.Died, []uint32{1, 7}) || g.Bound() != 0 {
		t.Errorf("of another one: %+v, hands out up to %d before the first commit", g.now, g.Bound())
	}
}

func TestWithoutADeadSetWhatKillsTheProcessIsNeverCondemned(t *testing.T) {
	said := Mark{Owner: 8, Deaths: 3, SuspectsEnd: 20, Alone: 5, Accused: 5, Died: []uint32{1, 2, 3, 4, 5}}
	g := NewGuard(said, 5, Rules{Limit: 3, Owner: 7, Spare: true})
	if g.Review(func(uint32) bool { return false }) || !g.Suspects(5) {
		t.Error("condemned, or no suspect any more")
	}
}

func TestRegularStopsNeverMakeASuspect(t *testing.T) {
	w := newCrashWorld(1, 1, 5)
	for range 20 {
		p := w.parts[0]
		p.commit(false)
		if p.handOut(); len(p.running) != 1 {
			t.Fatal("not handed out")
		}
		w.stop(w.procs[0], func() *modelProc { return w.procs[0] })
		if p.said.Deaths != 0 || p.guard.now.Deaths != 0 {
			t.Fatalf("counted as a death: %+v", p.said)
		}
	}
}

func TestNoMoreThanTwoAreCondemnedInARow(t *testing.T) {
	for name, sizes := range map[string][]int{"of one partition": {10}, "each in a partition of its own": {1, 1, 1, 1, 1}} {
		w := newCrashWorld(2, 1, sizes...)
		for step := 0; step < 20_000 && !w.done(); step++ {
			dies := step%100 == 99
			for _, p := range w.parts {
				p.handOut()
				p.suspect()
				p.commit(false)
				if step%20 == 19 {
					p.probation()
				}
				dies = dies || p.runs >= 0 // whichever runs, the process dies a while later
			}
			if dies {
				w.die(w.procs[0], func() *modelProc { return w.procs[0] })
			}
		}
		if len(w.sentences) != MostCondemned {
			t.Errorf("%s: condemned %v, want two", name, w.sentences)
		}
	}
}
