package streams

import "math"

// What kills the process must not kill the members of a group one after another. So the metadata of each commit says whether the owner of
// the partition lives, and how far it handed records out. Who takes over from one that did not give the partition up in good order
// knows that it died (or was cut off from the group, which looks the same), and counts. From the first death on few records are out at once, so
// that few are suspected; from CRASH_LIMIT deaths on the suspects run one by one, with nothing else in the process, each announced by a
// commit. A record that is found announced after a death, twice, is not called again.

const (
	// firstLead is how many records may be out at once after the first death, and how many are suspected at least.
	firstLead = 1024
	lastLead  = 16
	// loneDeaths is how often an owner must have died while a record ran alone until that record is to blame.
	loneDeaths = 2
)

// lifeMark is what a commit says of deaths.
type lifeMark struct {
	life    uint32 // of the process that owns the partition; 0: it gave it up in good order
	handed  int64  // what was handed out comes before this offset, as far as was known
	deaths  int    // of owners in a row while records before suspect were not settled
	suspect int64
	lone    int64 // the record that runs alone, or is the first to do so; -1: none
	died    int   // how many owners died while it ran alone
	running bool  // it runs
}

// rules are what a guard is told.
type rules struct {
	limit int    // how many deaths make suspects run alone; 0: everything goes
	life  uint32 // of this process
	spare bool   // nobody is to be blamed, whatever happens: there is no place for it
}

// guard decides which records of a partition may be handed out. It has no lock and no clock, and sends nothing.
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
	g.now.life, g.now.running = r.life, false
	g.progress(offset)
	if said.life != 0 && said.life != r.life {
		g.bereaved(said, offset)
	}
	return g
}

// bereaved counts the death of the owner before.
func (g *guard) bereaved(said lifeMark, offset int64) {
	switch {
	case g.now.deaths == 0:
		g.now.deaths, g.now.suspect = 1, max(said.handed, offset+firstLead)
	case g.now.deaths < g.limit:
		g.now.deaths, g.now.suspect = g.now.deaths+1, max(said.handed, offset+1)
	case said.running && g.now.lone >= 0:
		g.now.died++
	}
}

// progress says that everything before offset is settled.
func (g *guard) progress(offset int64) {
	if g.now.deaths > 0 && offset >= g.now.suspect {
		g.now.deaths, g.now.suspect = 0, 0
	}
	if g.now.deaths == 0 || offset > g.now.lone {
		g.now.lone, g.now.died, g.now.running = -1, 0, false
	}
}

// ends says where the log ended at the first look. What came after the death is not to blame for it.
func (g *guard) ends(offset int64) {
	if !g.ended && g.now.deaths > 0 {
		g.now.suspect = min(g.now.suspect, offset)
	}
	g.ended = true
}

// lonely says that records run one by one.
func (g *guard) lonely() bool { return g.limit > 0 && g.now.deaths >= g.limit }

// easy says that nothing is suspected and everything goes.
func (g *guard) easy() bool { return g.limit == 0 || g.begun && g.now.deaths == 0 }

// lead is how many records may be out at once.
func (g *guard) lead() int64 { return max(lastLead, int64(firstLead)>>min(3*(g.now.deaths-1), 60)) }

// turn is the answer of guard.next.
type turn int

const (
	turnWait  turn = iota + 1 // nothing now
	turnMany                  // what comes before the bound
	turnAlone                 // this one, once the process is quiet: announce it then
	turnLone                  // this one, which is announced
	turnBlame                 // this one is not to be called again
)

// next says what may be done with the record at offset, the next one to be handed out; the oldest that is not settled is at oldest.
func (g *guard) next(offset, oldest int64) (t turn, bound int64) {
	if g.limit == 0 {
		return turnMany, math.MaxInt64
	}
	g.progress(oldest)
	switch {
	case !g.begun:
		g.ask = true
		return turnWait, 0
	case g.now.deaths == 0:
		return turnMany, math.MaxInt64
	case !g.lonely():
		if offset < g.said.handed {
			return turnMany, g.said.handed
		}
		g.ask = oldest+g.lead() > offset
		return turnWait, 0
	case offset != oldest:
		return turnWait, 0 // something is under way
	case g.blames(offset) && !g.spare:
		return turnBlame, offset + 1
	case g.now.lone == offset && g.now.running && g.said.lone == offset && g.said.running:
		return turnLone, offset + 1
	}
	return turnAlone, offset + 1
}

// blames says that the record at offset has killed the process.
func (g *guard) blames(offset int64) bool { return g.now.lone == offset && g.now.died >= loneDeaths }

// announce says that the record at offset is about to run alone, as soon as that is committed.
func (g *guard) announce(offset int64) {
	if g.now.lone != offset {
		g.now.lone, g.now.died = offset, 0
	}
	g.now.running, g.ask = true, true
}

// returned says that the record which ran alone does not run any more.
func (g *guard) returned() {
	if g.now.running {
		g.now.running, g.ask = false, g.said.running
	}
}

// mark is what a commit is to say when everything before oldest is settled, records before handed were handed out, and ahead more may be until the next
// commit. The last commit of an owner says that all is well.
func (g *guard) mark(oldest, handed, ahead int64, last bool) lifeMark {
	g.progress(oldest)
	m := g.now
	switch {
	case last:
		m.life, m.running, m.handed = 0, false, oldest
	case g.now.deaths == 0:
		m.handed = max(handed, oldest) + ahead
	case g.lonely():
		m.handed = max(handed, oldest)
	default:
		m.handed = oldest + g.lead()
		if g.begun {
			m.handed = max(m.handed, g.said.handed)
		}
	}
	return m
}

// urges says whether m must be committed though nothing was settled since the last commit.
func (g *guard) urges(m lifeMark) bool {
	return g.limit > 0 && (g.ask || !g.begun || m.life != g.said.life || m.deaths == 0 && m.handed-firstLead > g.said.handed)
}

// stored says that the broker has m.
func (g *guard) stored(m lifeMark) {
	g.said, g.begun, g.ask = m, m.life == g.life, false
	if g.now.running != m.running {
		g.ask = true
	}
}
