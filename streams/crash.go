package streams

import (
	"math"
	"slices"
)

// What kills the process must not kill the members of a group one after another. The guard finds
// it and puts it into the dead set, uncalled. Its rules:
//
//  1. The metadata of each commit says who owns the partition and how far it handed records out.
//     Who takes over from an owner that did not part with the partition counts a death.
//  2. From the first death on few records are out at once, so that few are suspected.
//  3. From CRASH_LIMIT deaths on, what was out when the owner died is suspected, but for failures whose
//     calls were over: it waits aside, with what ORDER puts behind it. Suspects take turns: one in the whole process holds the token, is
//     announced by a commit, and runs. All others go on meanwhile.
//  4. A death while a suspect was announced is held against it. The call's end clears it, however
//     it ends, and so does the end of the time that a suspect may hold the token.
//  5. Such a record is accused, and runs again only in a process that has lived through the
//     probation, with no suspect running: one that dies anyway says nothing. More than CRASH_LIMIT
//     deaths condemn it, which is more than a killer that nobody suspects yet can cause beside it.
//     Deaths of those that are members of the group after the probation were none.
//  6. Two in a row are condemned, without a suspect between them that came to its end. The third is
//     not: it is not the records that kill.
//
// So nothing that is not suspected waits but for commits, and a suspect waits at most for those
// before it, each for as long as it may hold the token.

const (
	// firstLead is how many records may be out at once after the first death; lastLead later.
	firstLead = 1024
	lastLead  = 16
	// rowLimit is how many records are condemned in a row.
	rowLimit = 2
)

// lifeMark is what a commit says of deaths.
type lifeMark struct {
	life    uint32   // of the process that owns the partition; 0: it parted with it
	open    int64    // every call of what comes before this offset is over
	handed  int64    // what was handed out comes before this offset, as far as was known
	deaths  int      // of owners in a row while records before suspect were not settled
	from    int64    // suspects begin with this offset
	suspect int64    // and come before this one
	lone    int64    // the suspect that runs; -1: none
	accused int64    // the suspect that ran when an owner died; -1: none
	died    []uint32 // the owners that died then
	row     int      // how many were condemned since a suspect came to its end
}

// rules are what a guard is told.
type rules struct {
	limit int    // how many deaths make suspects; 0: there is no guard
	life  uint32 // of this process
	spare bool   // nobody is condemned, whatever happens: there is no place for it
}

// guard decides which records of a partition may be handed out, and which of them are suspects. It
// has no lock and no clock, and sends nothing.
type guard struct {
	rules
	now   lifeMark
	said  lifeMark // by the last commit that the broker has
	begun bool     // that commit was ours
	ask   bool     // a commit is to be sent at once
	ended bool     // see ends
}

// takeOver begins an ownership by what the commit at offset says.
func takeOver(said lifeMark, offset int64, r rules) guard {
	if r.limit == 0 {
		return guard{}
	}
	g := guard{rules: r, now: said, said: said, ask: true}
	g.now.life, g.now.lone = r.life, -1
	g.progress(offset)
	if said.life != 0 && said.life != r.life {
		g.bereaved(said, offset)
	}
	return g
}

// bereaved counts the death of the owner before.
func (g *guard) bereaved(said lifeMark, offset int64) {
	n := &g.now
	n.from = max(said.open, offset)
	switch {
	case n.deaths == 0:
		n.deaths, n.suspect = 1, max(said.handed, offset+firstLead)
	case n.deaths < g.limit:
		n.deaths, n.suspect = n.deaths+1, max(said.handed, offset+1)
	default:
		n.suspect = max(n.suspect, said.handed)
		if said.lone < offset {
			return
		}
		if n.accused != said.lone {
			n.accused, n.died = said.lone, nil
		}
		n.died = append(slices.Clone(n.died), said.life)
		n.died = n.died[max(0, len(n.died)-g.limit-1):]
	}
}

// progress says that everything before offset is settled.
func (g *guard) progress(offset int64) {
	n := &g.now
	if n.deaths > 0 && offset >= n.suspect {
		n.deaths, n.from, n.suspect, n.row = 0, 0, 0, 0
	}
	if n.deaths == 0 || offset > n.accused {
		n.accused, n.died = -1, nil
	}
}

// ends says where the log ended at the first look. What came after the death is not to blame for
// it.
func (g *guard) ends(offset int64) {
	if !g.ended && g.now.deaths > 0 {
		g.now.suspect = min(g.now.suspect, offset)
	}
	g.ended = true
}

// easy says that nothing is suspected and everything goes.
func (g *guard) easy() bool { return g.limit == 0 || g.begun && g.now.deaths == 0 }

// suspects says whether the record at offset is a suspect.
func (g *guard) suspects(offset int64) bool {
	return g.limit > 0 && g.now.deaths >= g.limit && offset >= g.now.from && offset < g.now.suspect
}

// lead is how many records may be out at once.
func (g *guard) lead() int64 { return max(lastLead, int64(firstLead)>>min(3*(g.now.deaths-1), 60)) }

// bound is the offset before which records may be handed out now.
func (g *guard) bound() int64 {
	switch {
	case g.easy():
		return math.MaxInt64
	case !g.begun:
		return 0
	}
	return g.said.handed
}

// isAccused says that an owner died while the record at offset ran.
func (g *guard) isAccused(offset int64) bool { return g.limit > 0 && g.now.accused == offset }

// mayRun says that the broker knows that the record at offset runs.
func (g *guard) mayRun(offset int64) bool { return g.now.lone == offset && g.said.lone == offset }

// announce says that the record at offset runs as soon as that is committed.
func (g *guard) announce(offset int64) { g.now.lone, g.ask = offset, true }

// rest says that no suspect runs any more, though the last one has not come to its end.
func (g *guard) rest() { g.now.lone, g.ask = -1, g.said.lone >= 0 }

// quiet says that no suspect runs, and that the broker knows.
func (g *guard) quiet() bool { return g.now.lone < 0 && g.said.lone < 0 }

// returned says that the suspect at offset came to its end.
func (g *guard) returned(offset int64) {
	g.rest()
	g.now.row = 0
	g.acquit(offset)
}

// acquit forgets what is held against the record at offset.
func (g *guard) acquit(offset int64) {
	if g.now.accused == offset {
		g.now.accused, g.now.died = -1, nil
	}
}

// review leaves out those deaths that were none, since the process lives, and says whether the
// accused is condemned.
func (g *guard) review(lives func(uint32) bool) bool {
	g.now.died = slices.DeleteFunc(slices.Clone(g.now.died), lives)
	return len(g.now.died) > g.limit && !g.spare
}

// mark is what a commit is to say when everything before oldest is settled, all calls of what comes
// before open are over, records before handed were handed out of which so many run, and ahead more may be handed out until the next commit. The
// last commits of an owner say that it parted with the partition.
func (g *guard) mark(oldest, open, handed, ahead int64, running int, last bool) lifeMark {
	g.progress(oldest)
	m := g.now
	m.open = max(oldest, open)
	switch {
	case last:
		m.life, m.lone, m.handed = 0, -1, oldest
	case g.now.deaths == 0:
		m.handed = max(handed, oldest) + ahead
	default:
		m.handed = max(handed, oldest) + max(0, g.lead()-int64(running))
		if g.begun {
			m.handed = max(m.handed, g.said.handed)
		}
	}
	return m
}

// urges says whether m must be committed though nothing was settled since the last commit.
func (g *guard) urges(m lifeMark) bool {
	if g.limit == 0 || m.life != g.said.life {
		return g.limit > 0
	}
	return m.life != 0 && (g.ask || !g.begun || m.deaths == 0 && m.handed-firstLead > g.said.handed || m.deaths > 0 && m.open > g.said.open)
}

// stored says that the broker has m.
func (g *guard) stored(m lifeMark) {
	g.said, g.begun = m, m.life == g.life
	g.ask = g.now.lone != m.lone
}
