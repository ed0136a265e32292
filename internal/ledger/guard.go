package ledger

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
//  3. From CRASH_LIMIT deaths on, what was out when the owner died is suspected, but for failures
//     whose calls were over: it waits aside, with what ORDER puts behind it. Suspects take turns:
//     one in the whole process holds the token, is announced by a commit, and runs. All others go
//     on meanwhile.
//  4. A death while a suspect was announced is held against it. The call's end clears it, however
//     it ends, and so does the end of the time that a suspect may hold the token.
//  5. Such a record is accused, and runs again only in a process that has lived through the
//     probation, with no suspect running: one that dies anyway says nothing. More than CRASH_LIMIT
//     such deaths condemn it: another killer beside it is suspected itself after CRASH_LIMIT, and
//     so cannot cause as many. An owner that is a member of the group after the probation lives,
//     and its death is taken back.
//  6. A handler that ends its goroutine ends the process in order; for its partition that is a
//     death.
//  7. Two in a row are condemned, in all partitions of a stream that a process has. The third is
//     not: it is not the records that kill. A suspect that comes to its end ends the row, and so
//     does a process that lives through another probation and turn; that the last suspect of a
//     partition was condemned does not.
//
// So nothing that is not suspected waits but for commits, and a suspect waits at most for those
// before it, each for as long as it may hold the token.

const (
	// firstLead is how many records may be out at once after the first death; lastLead later.
	firstLead = 1024
	lastLead  = 16
	// MostCondemned is how many records are condemned in a row.
	MostCondemned = 2
)

// Rules are what a guard is told.
type Rules struct {
	Limit int    // how many deaths make suspects; 0: there is no guard
	Owner uint32 // this process
	Spare bool   // nobody is condemned, whatever happens: there is no place for it
}

// Guard decides which records of a partition may be handed out, and which of them are suspects. The
// zero value restricts nothing and says nothing.
type Guard struct {
	rules Rules
	// now is what is known of deaths, of which the broker may not know yet; see said.
	now   Mark
	said  Mark // by the last commit that the broker has
	begun bool // that commit was ours
	ask   bool // a commit is to be sent at once
	ended bool // SawEnd was called
}

// NewGuard begins an ownership by what the commit at offset says.
func NewGuard(said Mark, offset int64, rules Rules) Guard {
	if rules.Limit == 0 {
		return Guard{}
	}
	g := Guard{rules: rules, now: said, said: said}
	g.now.Owner, g.now.Alone = rules.Owner, -1
	g.Progress(offset)
	if said.Owner != 0 && said.Owner != rules.Owner {
		g.countDeath(said, offset)
	}
	return g
}

// countDeath counts the death of the owner before.
func (g *Guard) countDeath(said Mark, offset int64) {
	n := &g.now
	n.SuspectsFrom = max(said.Ended, offset)
	switch {
	case n.Deaths == 0:
		n.Deaths, n.SuspectsEnd = 1, max(said.HandedOut, offset+firstLead)
	case n.Deaths < g.rules.Limit:
		n.Deaths, n.SuspectsEnd = n.Deaths+1, max(said.HandedOut, offset+1)
	default:
		n.SuspectsEnd = max(n.SuspectsEnd, said.HandedOut)
		if said.Alone < offset {
			return
		}
		if n.Accused != said.Alone {
			n.Accused, n.Died = said.Alone, nil
		}
		n.Died = append(slices.Clone(n.Died), said.Owner)
		n.Died = n.Died[max(0, len(n.Died)-g.rules.Limit-1):]
	}
}

// Progress says that everything before offset is settled.
func (g *Guard) Progress(offset int64) {
	n := &g.now
	if n.Deaths > 0 && offset >= n.SuspectsEnd {
		n.Deaths, n.SuspectsFrom, n.SuspectsEnd = 0, 0, 0
	}
	if n.Deaths == 0 || offset > n.Accused {
		n.Accused, n.Died = -1, nil
	}
}

// SawEnd says where the log ends; the first call counts. What came after the death is not to blame
// for it.
func (g *Guard) SawEnd(offset int64) {
	if !g.ended && g.now.Deaths > 0 {
		g.now.SuspectsEnd = min(g.now.SuspectsEnd, offset)
	}
	g.ended = true
}

// WantsEnd says that owners died, and that SawEnd was not called since.
func (g *Guard) WantsEnd() bool { return g.now.Deaths > 0 && !g.ended }

// Counts says whether deaths are counted at all.
func (g *Guard) Counts() bool { return g.rules.Limit > 0 }

// Free says that nothing is suspected: every record may be handed out.
func (g *Guard) Free() bool { return !g.Counts() || g.begun && g.now.Deaths == 0 }

// Now is what is known of deaths now.
func (g *Guard) Now() Mark { return g.now }

// Suspects says whether the record at offset is a suspect.
func (g *Guard) Suspects(offset int64) bool {
	return g.Counts() && g.now.Deaths >= g.rules.Limit && offset >= g.now.SuspectsFrom && offset < g.now.SuspectsEnd
}

// lead is how many records may be out at once.
func (g *Guard) lead() int64 { return max(lastLead, int64(firstLead)>>min(3*(g.now.Deaths-1), 60)) }

// Bound is the offset before which records may be handed out now.
func (g *Guard) Bound() int64 {
	switch {
	case g.Free():
		return math.MaxInt64
	case !g.begun:
		return 0
	}
	return g.said.HandedOut
}

// AskForMore asks for a commit that raises the bound, where it does so while so many calls run:
// else the end of one of them raises it.
func (g *Guard) AskForMore(running int) (asked bool) {
	if g.begun && g.lead() <= int64(running) {
		return false
	}
	g.ask = true
	return true
}

// IsAccused says that an owner died while the record at offset ran.
func (g *Guard) IsAccused(offset int64) bool { return g.Counts() && g.now.Accused == offset }

// MayRun says that the broker knows that the suspect at offset runs.
func (g *Guard) MayRun(offset int64) bool { return g.now.Alone == offset && g.said.Alone == offset }

// Announce says that the suspect at offset runs as soon as that is committed.
func (g *Guard) Announce(offset int64) { g.now.Alone, g.ask = offset, true }

// Withdraw says that no suspect runs any more, though the last one has not come to its end.
func (g *Guard) Withdraw() { g.now.Alone, g.ask = -1, g.said.Alone >= 0 }

// NoneAnnounced says that no suspect runs, and that the broker knows.
func (g *Guard) NoneAnnounced() bool { return g.now.Alone < 0 && g.said.Alone < 0 }

// Returned says that the suspect at offset came to its end.
func (g *Guard) Returned(offset int64) {
	g.Withdraw()
	g.EndRow()
	g.Acquit(offset)
}

// EndRow says that what is condemned next is the first in a row again.
func (g *Guard) EndRow() { g.now.Condemned = 0 }

// Acquit forgets what is held against the record at offset.
func (g *Guard) Acquit(offset int64) {
	if g.now.Accused == offset {
		g.now.Accused, g.now.Died = -1, nil
	}
}

// Review leaves out those deaths that were none, since the owner lives, and says whether the
// accused is to be condemned.
func (g *Guard) Review(lives func(owner uint32) bool) bool {
	g.now.Died = slices.DeleteFunc(slices.Clone(g.now.Died), lives)
	return len(g.now.Died) > g.rules.Limit && !g.rules.Spare
}

// Fits says whether a mark fits into metadata of so many bytes.
func (g *Guard) Fits(limit int) bool { return g.now.size() <= limit }

// Mark is what a commit is to say when everything before oldest is settled, all calls of what comes
// before ended are over, records before handedOut were handed out of which so many run, and ahead
// more may be handed out until the next commit. The last commits of an owner say that it parted
// with the partition.
func (g *Guard) Mark(oldest, ended, handedOut, ahead int64, running int, last bool) Mark {
	g.Progress(oldest)
	m := g.now
	m.Ended = max(oldest, ended)
	switch {
	case last:
		m.Owner, m.Alone, m.HandedOut = 0, -1, oldest
	case g.now.Deaths == 0:
		m.HandedOut = max(handedOut, oldest) + ahead
	default:
		m.HandedOut = max(handedOut, oldest) + max(0, g.lead()-int64(running))
		if g.begun {
			m.HandedOut = max(m.HandedOut, g.said.HandedOut)
		}
	}
	return m
}

// Urges says whether m must be committed though nothing was settled since the last commit.
func (g *Guard) Urges(m Mark) bool {
	if !g.Counts() || m.Owner != g.said.Owner {
		return g.Counts()
	}
	if m.Owner != 0 && (m.Deaths < g.said.Deaths || m.Condemned < g.said.Condemned) {
		return true // what is over is not to be held against who comes
	}
	return m.Owner != 0 && (g.ask || !g.begun || m.Deaths == 0 && m.HandedOut-firstLead > g.said.HandedOut || m.Deaths > 0 && m.Ended > g.said.Ended)
}

// Stored says that the broker has m.
func (g *Guard) Stored(m Mark) {
	g.said, g.begun = m, m.Owner == g.rules.Owner
	g.ask = g.now.Alone != m.Alone
}
