package streams

import (
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// crashModel is a log, the group's commit of it, and the process that owns it now.
type crashModel struct {
	size, limit int
	killer      int64 // -1: none

	// what the broker has
	committed int64
	said      lifeMark
	kept      map[int64]bool // settled beyond the commit, as far as that says so

	// the process
	guard       guard
	life        uint32
	settled     map[int64]bool
	running     []int64
	handed      int64
	committedAt int64 // what was handed out at the last commit
	lone        bool  // what runs does so alone
	turn        bool  // nothing else runs in the process

	deaths    int
	diedAlone map[int64]int
	blamed    map[int64]bool
}

func newCrashModel(size, limit int, killer int64) *crashModel {
	m := &crashModel{
		size: size, limit: limit, killer: killer, said: lifeMark{lone: -1}, kept: map[int64]bool{},
		diedAlone: map[int64]int{}, blamed: map[int64]bool{},
	}
	m.start()
	return m
}

func (m *crashModel) start() {
	m.life++
	m.settled, m.running, m.lone, m.turn = map[int64]bool{}, nil, false, false
	for o := range m.kept {
		m.settled[o] = true
	}
	m.handed, m.committedAt = m.committed, m.committed
	said := readMark(m.committed, appendMark(nil, m.committed, m.said))
	m.guard = takeOver(said, m.committed, rules{limit: m.limit, life: m.life})
	m.guard.ends(int64(m.size))
}

// readMark reads what appendMark wrote.
func readMark(offset int64, raw []byte) lifeMark {
	m, _, ok := cutMark(offset, raw)
	if !ok {
		panic("a mark cannot be read")
	}
	return m
}

func (m *crashModel) oldest() int64 {
	o := m.committed
	for m.settled[o] {
		o++
	}
	return o
}

func (m *crashModel) done() bool { return m.oldest() == int64(m.size) }

// handOut takes the next record, if it may.
func (m *crashModel) handOut() (err error) {
	for m.handed < m.committed || m.settled[m.handed] {
		m.handed++
	}
	if m.handed == int64(m.size) || m.handed-m.committedAt >= firstLead || m.lone {
		return nil
	}
	switch turn, bound := m.guard.next(m.handed, m.oldest()); turn {
	case turnMany:
		if m.handed >= bound {
			return fmt.Errorf("%d may go, but only before %d", m.handed, bound)
		}
	case turnAlone:
		m.guard.announce(m.handed)
		return nil
	case turnLone:
		if !m.said.running || m.said.lone != m.handed {
			return fmt.Errorf("%d runs alone, and no commit says so", m.handed)
		}
		if len(m.running) > 0 {
			return fmt.Errorf("%d runs alone beside %v", m.handed, m.running)
		}
		m.lone = true
	case turnBlame:
		if len(m.running) > 0 {
			return fmt.Errorf("%d is blamed beside %v", m.handed, m.running)
		}
		m.blamed[m.handed] = true
		m.settled[m.handed] = true
		return nil
	case turnWait:
		return nil
	}
	m.running = append(m.running, m.handed)
	m.handed++
	return nil
}

// finish ends one call.
func (m *crashModel) finish(i int) {
	if o := m.running[i]; o != m.killer {
		m.settled[o] = true
		m.running = append(m.running[:i], m.running[i+1:]...)
		if m.lone {
			m.lone = false
			m.guard.returned()
		}
	}
}

func (m *crashModel) commit(last bool) {
	at := m.oldest()
	said := m.guard.mark(at, m.handed, firstLead, last)
	m.committed, m.said, m.committedAt = at, said, m.handed
	for o := range m.settled {
		if o < at {
			delete(m.settled, o)
		}
	}
	m.kept = maps.Clone(m.settled)
	m.guard.stored(said)
}

func (m *crashModel) die() {
	m.deaths++
	if m.said.running && len(m.running) == 0 || m.lone { // announced, or running, with nothing else beside
		m.diedAlone[m.said.lone]++
	}
	m.start()
}

func (m *crashModel) stop() {
	m.running, m.lone = nil, false
	m.guard.returned()
	m.commit(true)
	m.start()
}

func TestNobodyIsBlamedForADeathUnlessItRanAloneTwiceWhenTheProcessDied(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newCrashModel(rapid.IntRange(1, 60).Draw(t, "size"), rapid.IntRange(1, 4).Draw(t, "limit"), -1)
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"hand out", "hand out", "hand out", "finish", "commit", "commit", "die", "stop"}).Draw(t, "step") {
			case "hand out":
				if err := m.handOut(); err != nil {
					t.Fatal(err)
				}
			case "finish":
				if len(m.running) > 0 {
					m.finish(rapid.IntRange(0, len(m.running)-1).Draw(t, "which"))
				}
			case "commit":
				m.commit(false)
			case "die":
				m.die()
			case "stop":
				m.stop()
			}
			for o := range m.blamed {
				if m.diedAlone[o] < loneDeaths {
					t.Fatalf("%d is blamed, and the process died %d times while it ran alone", o, m.diedAlone[o])
				}
			}
		}
	})
}

func TestWhatKillsTheProcessIsFoundWithinTheLimitAndTwoDeaths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{1, 5, 40, 1500}).Draw(t, "size")
		killer := int64(rapid.IntRange(0, size-1).Draw(t, "killer"))
		m := newCrashModel(size, rapid.IntRange(1, 4).Draw(t, "limit"), killer)
		stops := rapid.IntRange(0, 5).Draw(t, "stops")
		parallel := rapid.IntRange(1, 50).Draw(t, "parallel")
		each := rapid.IntRange(1, 200).Draw(t, "commit each")
		patience := rapid.IntRange(0, 300).Draw(t, "steps until it kills")
		ran := 0
		for step := 1; !m.done(); step++ {
			if step > 100_000 {
				t.Fatalf("no end: at %d of %d, %+v", m.oldest(), size, m.guard)
			}
			if len(m.running) < parallel {
				if err := m.handOut(); err != nil {
					t.Fatal(err)
				}
			}
			for i := len(m.running) - 1; i >= 0; i-- {
				if (step+i)%3 > 0 || m.lone {
					m.finish(i)
				}
			}
			if step%each == 0 || m.guard.ask {
				m.commit(false)
			}
			if len(m.running) > 0 && m.running[0] == killer {
				if ran++; ran > patience {
					ran = 0
					m.die()
				} else if stops > 0 && ran > patience/2 {
					stops--
					m.stop()
				}
			}
		}
		if m.deaths != m.limit+loneDeaths || len(m.blamed) != 1 || !m.blamed[killer] {
			t.Fatalf("%d deaths with a limit of %d; blamed %v, want %d", m.deaths, m.limit, m.blamed, killer)
		}
	})
}

func TestAnOwnerThatWasOnlyCutOffDoesNotCountItsOwnDeath(t *testing.T) {
	g := takeOver(lifeMark{life: 7, deaths: 3, suspect: 20, lone: 5, died: 1, running: true}, 5, rules{limit: 3, life: 7})
	if g.now.died != 1 || g.now.deaths != 3 {
		t.Errorf("counted as dead though it is ourselves: %+v", g.now)
	}
	g = takeOver(lifeMark{life: 8, deaths: 3, suspect: 20, lone: 5, died: 1, running: true}, 5, rules{limit: 3, life: 7})
	if turn, _ := g.next(5, 5); turn != turnWait {
		t.Errorf("handed out before the commit that says who owns the partition: %v", turn)
	}
	g.stored(g.mark(5, 5, firstLead, false))
	if turn, _ := g.next(5, 5); turn != turnBlame {
		t.Errorf("not blamed, though the process died twice while it ran alone: %v", turn)
	}
}

func TestRegularStopsNeverMakeASuspect(t *testing.T) {
	m := newCrashModel(5, 1, -1)
	for range 20 {
		m.commit(false)
		if err := m.handOut(); err != nil || len(m.running) != 1 {
			t.Fatalf("not handed out: %v", err)
		}
		m.stop()
		if m.said.deaths != 0 || m.guard.lonely() {
			t.Fatalf("counted as a death: %+v", m.said)
		}
	}
}

func TestWithoutADeadSetWhatKillsTheProcessRunsAgainAlone(t *testing.T) {
	g := takeOver(lifeMark{life: 8, deaths: 3, suspect: 20, lone: 5, died: 9, running: true}, 5, rules{limit: 3, life: 7, spare: true})
	g.stored(g.mark(5, 5, firstLead, false))
	if turn, _ := g.next(5, 5); turn != turnAlone {
		t.Errorf("the killer: %v, want alone once it is announced", turn)
	}
	g.announce(5)
	g.stored(g.mark(5, 5, firstLead, false))
	if turn, _ := g.next(5, 5); turn != turnLone {
		t.Errorf("the killer, announced: %v", turn)
	}
}
