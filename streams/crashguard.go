package streams

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/internal/solo"
)

// crash is what a partition does about deaths. The partition's lock guards it, but for guilty.
type crash struct {
	guard   guard
	turn    solo.Turn
	aside   []task             // suspects that wait for their turn, in the order of their offsets; their keys are busy
	runs    int64              // the offset of the suspect that was handed out to run; -1: none
	limit   *time.Timer        // ends the time for which the token may be held
	trial   bool               // the accused is on trial
	tried   bool               // it was, and is to run once more
	guilty  atomic.Int64       // the offset of the record that is condemned; -1: none
	resting map[int64]struct{} // offsets of calls that rest between their tries in place
	told    bool               // the log says that there are suspects
	last    bool               // the next commits are the last ones of this assignment
	handed  int64              // the offset after the last record handed out
	before  int64              // handed at the last commit
}

func (c *crash) begin(p *partition) {
	c.guard = takeOver(noMark(), 0, p.r.rules())
	c.runs, c.resting = -1, map[int64]struct{}{}
	c.guilty.Store(-1)
	c.limit = time.AfterFunc(p.r.cfg.AloneFor, p.goesOn)
	c.limit.Stop()
	c.turn.Ready = func() {
		c.limit.Reset(p.r.cfg.AloneFor)
		p.r.crew.offer(p)
	}
}

// newLife is a number for this process that is not 0 and that others are not likely to have.
func newLife() uint32 { return rand.Uint32() | 1 }

func (r *Reader) rules() rules {
	return rules{limit: r.cfg.CrashLimit, life: r.cfg.Process, spare: r.cfg.Condemn == nil}
}

// oldest is the first offset that is not settled, read or not.
func (p *partition) oldest() int64 {
	if first, ok := p.window.First(); ok {
		return first
	}
	return max(p.window.next.offset, p.expected)
}

// permitted is how many of the next records may be handed out now. When that may change, the
// partition is offered.
func (p *partition) permitted(records []*kgo.Record) int {
	g := &p.crash.guard
	if g.easy() {
		return len(records)
	}
	if p.window.Settled(records[0].Offset) {
		return 1
	}
	g.progress(p.oldest())
	n, bound := 0, g.bound()
	for n < len(records) && records[n].Offset < bound {
		n++
	}
	if n == 0 && (!g.begun || g.lead() > int64(p.busy())) { // else the end of a call offers the partition
		g.ask = true
		p.r.commits.hurry()
	}
	return n
}

// setAside keeps a suspect until its turn. It reports false where t is none.
func (p *partition) setAside(t task) bool {
	if !p.crash.guard.suspects(t.offset) {
		return false
	}
	p.crash.aside = append(p.crash.aside, t)
	return true
}

// nextSuspect returns a suspect that may run now, if there is one. What else it takes is under way
// then: the token, the commit that announces it, the trial of the accused.
func (p *partition) nextSuspect() (task, bool) {
	c := &p.crash
	if len(c.aside) == 0 || c.guard.limit > 0 && (c.runs >= 0 || c.trial) {
		return task{}, false
	}
	i := 0
	for j, t := range c.aside {
		if t.offset == c.guard.now.accused || t.offset == c.guard.now.lone {
			i = j
		}
	}
	t := c.aside[i]
	switch {
	case c.guilty.Load() == t.offset, !c.guard.suspects(t.offset): // no longer: others were settled, or deaths do not count any more
	case !p.holdsToken():
		p.r.cfg.Token.Request(&c.turn)
		return task{}, false
	case c.guard.isAccused(t.offset) && !c.tried:
		c.trial = true
		p.r.workers.Go(func() { p.try(t.offset) })
		return task{}, false
	case !c.guard.mayRun(t.offset):
		p.announce(t.offset)
		return task{}, false
	default:
		c.runs = t.offset
		c.limit.Reset(p.r.cfg.AloneFor)
	}
	c.aside = append(c.aside[:i:i], c.aside[i+1:]...)
	return t, true
}

func (p *partition) holdsToken() bool { return p.r.cfg.Token.Holds(&p.crash.turn) }

// announce has a commit say that the record is about to run.
func (p *partition) announce(offset int64) {
	g := &p.crash.guard
	if g.now.lone != offset {
		g.announce(offset)
		p.crash.limit.Reset(p.r.cfg.AloneFor)
		p.tellOfSuspects(offset)
	}
	p.r.commits.hurry()
}

func (p *partition) tellOfSuspects(offset int64) {
	if n := &p.crash.guard.now; !p.crash.told {
		p.logger(offset).Warn("the process died again and again: what ran then is suspected and runs one by one until the record that kills it is found",
			"deaths", n.deaths, "up_to_offset", n.suspect)
	}
	p.crash.told = true
}

func (p *partition) logger(offset int64) *slog.Logger {
	return p.r.log.With("stream", p.r.cfg.Stream, "topic", p.topic, "partition", p.partition, "offset", offset)
}

// handle is what does the work for a single task.
func (p *partition) handle(t task) Handle {
	if p.crash.guilty.Load() == t.offset {
		return p.r.cfg.Condemn
	}
	return p.r.handle
}

// cameToItsEnd notes that a call did not end the process.
func (p *partition) cameToItsEnd(offset int64) {
	c := &p.crash
	if c.runs != offset {
		return
	}
	c.runs = -1
	c.limit.Reset(p.r.cfg.AloneFor)
	c.guard.returned(offset)
	p.r.commits.hurry()
}

// rests is cameToItsEnd for a call that begins to rest before it tries again (1), or has rested (-1).
func (p *partition) rests(offset int64, one int) {
	if p.r.cfg.CrashLimit == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if one > 0 {
		p.crash.resting[offset] = struct{}{}
	} else {
		delete(p.crash.resting, offset)
	}
	p.cameToItsEnd(offset)
}

// busy is how many calls run that do not rest.
func (p *partition) busy() int { return p.running - len(p.crash.resting) }

// openCall is the first offset of what was handed out and whose call is not over. Where nothing is
// suspected it is not looked for.
func (p *partition) openCall() int64 {
	c := &p.crash
	if c.guard.easy() {
		return 0
	}
	for offset := range p.window.Open {
		_, pending := p.pending[offset]
		_, rests := c.resting[offset]
		if !pending && !rests {
			return min(offset, c.handed)
		}
	}
	return c.handed
}

// goesOn is for a partition that has held the token for its time. A suspect that still runs goes on: others have their turn, and deaths are not
// held against it any more. One that did not begin, since all workers are busy, waits for another turn. Where the broker does not come to know that,
// others do not wait for it twice.
func (p *partition) goesOn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &p.crash
	if !p.holdsToken() || c.trial {
		return
	}
	if c.runs >= 0 {
		p.logger(c.runs).Warn("a suspected record runs for longer than others are to wait for it: the next suspect has its turn", "after", p.r.cfg.AloneFor)
	} else if c.guard.now.lone < 0 {
		p.r.cfg.Token.Release(&c.turn)
		p.r.crew.offer(p)
		return
	}
	c.runs = -1
	c.guard.rest()
	c.limit.Reset(p.r.cfg.AloneFor)
	p.giveTokenBack()
	p.r.commits.hurry()
}

// giveTokenBack lets suspects of others have their turn, unless one of ours runs or is tried, or the
// broker does not know yet that it came to its end.
func (p *partition) giveTokenBack() {
	c := &p.crash
	if c.runs < 0 && !c.trial && c.guard.quiet() && p.holdsToken() {
		p.r.cfg.Token.Release(&c.turn)
	}
}

// standBack is for when nothing is handed out, in a pause for instance: what was announced and does not run gives way.
func (p *partition) standBack() {
	c := &p.crash
	if c.guard.limit == 0 || c.runs >= 0 {
		return
	}
	if c.guard.now.lone >= 0 {
		c.guard.rest()
		p.r.commits.hurry()
	}
	p.giveTokenBack()
}

// suspects counts them, and names the one whose turn it is.
func (p *partition) suspects() (n int, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &p.crash
	n = len(c.aside)
	at := c.runs
	switch {
	case at >= 0:
		n++
	case c.trial:
		at = c.guard.now.accused
	default:
		return n, ""
	}
	return n, fmt.Sprintf("%s/%d@%d", p.topic, p.partition, at)
}

// end takes the partition out of everybody's way, as it is given up.
func (c *crash) end(p *partition) {
	c.aside = nil
	c.limit.Stop()
	p.r.cfg.Token.Release(&c.turn)
}

// again offers the partition after a call, as long as deaths are counted: more may be out then.
func (p *partition) again() {
	if p.r.cfg.CrashLimit == 0 {
		return
	}
	p.mu.Lock()
	more := !p.crash.guard.easy() && p.hasMore()
	p.mu.Unlock()
	if more {
		p.r.crew.offer(p)
	}
}

// markSize is what a mark may need beside the deaths it names. Where a broker takes less, deaths are
// not counted.
const markSize = 96

// mark is what the next commit says of deaths, nil where nothing is to be said, and whether it must
// be sent though nothing else changed.
func (p *partition) mark(limit int) (*lifeMark, bool) {
	c := &p.crash
	if c.guard.limit > 0 && limit < markSize+7*len(c.guard.now.died) {
		p.unguard()
	}
	if c.guard.limit == 0 {
		return nil, false
	}
	if a := c.guard.now.accused; a >= 0 && p.window.Settled(a) {
		c.guard.acquit(a)
	}
	ahead := firstLead + 2*max(0, c.handed-c.before)
	m := c.guard.mark(p.oldest(), p.openCall(), c.handed, ahead, p.busy(), c.last)
	if o := c.guilty.Load(); o >= 0 && !p.window.Settled(o) {
		m.row = max(0, m.row-1) // the next owner counts it, should it come to that
	}
	return &m, c.guard.urges(m)
}

// unguard ends the counting of deaths for this assignment: suspects run like others.
func (p *partition) unguard() {
	c := &p.crash
	c.guard, c.runs = guard{}, -1
	c.limit.Stop()
	p.r.cfg.Token.Release(&c.turn)
	p.r.crew.offer(p)
}

// marked notes that the broker has a mark.
func (p *partition) marked(m lifeMark) {
	c := &p.crash
	if c.guard.limit == 0 {
		return
	}
	was := c.guard.easy()
	c.before = c.handed
	c.guard.stored(m)
	p.giveTokenBack()
	if !was {
		p.r.crew.offer(p)
	}
}

// part says in commits from now on that the partitions are parted with: whatever ends the process
// before their calls are over, a stop that took too long for instance, is nobody's fault.
func (r *Reader) part(parts []*partition) {
	for _, p := range parts {
		p.mu.Lock()
		p.crash.last = true
		p.mu.Unlock()
	}
	r.commits.hurry()
}
