package streams

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/internal/crew"
	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/solo"
	"github.com/stepwell/stepwell/internal/task"
)

// suspects are the records of a partition that may end the process, and what the partition does
// about deaths. It is the partition's [crew.Suspects]. The partition's lock guards it, with two
// exceptions, which are atomic: guilty, and runs where it is only read.
type suspects struct {
	p      *partition
	turn   solo.Turn
	aside  []aside
	runs   atomic.Int64 // the offset of the suspect that was handed out to run; -1: none
	limit  *time.Timer  // ends the time for which the token may be held
	trial  bool         // the accused is on trial
	until  time.Time    // the end of that trial's probation
	tried  bool         // the trial was held; there is one accused at most
	guilty atomic.Int64 // the offset of the record that is condemned; -1: none
	spared int64        // the record that would have been the third in a row; -1: none
	told   bool         // the log says that there are suspects
	row    time.Time    // since when the process has lived with a row; zero: with none
	// deserted says that a handler ended its goroutine: no commit says that we part with the
	// partition.
	deserted bool
}

// aside is a suspect that waits for its turn. Its key is busy.
type aside struct {
	crew.Entry
	back chan struct{} // closed at its turn, for one that has rested; nil: it is handed out
}

func (c *suspects) begin(p *partition) {
	c.p = p
	c.runs.Store(-1)
	c.guilty.Store(-1)
	c.spared = -1
	c.limit = time.AfterFunc(c.p.cfg.Guard.AloneFor, c.goesOn)
	c.limit.Stop()
	c.turn.Ready = func() {
		c.limit.Reset(c.p.cfg.Guard.AloneFor)
		c.p.roster.Offer()
	}
}

// timeAnew begins the time anew for which the token may be held.
func (c *suspects) timeAnew() {
	if !c.p.released { // else it was stopped for good
		c.limit.Reset(c.p.cfg.Guard.AloneFor)
	}
}

// newProcess is a number for this process that is not 0 and that others are not likely to have.
func newProcess() uint32 { return rand.Uint32() | 1 }

// permitted is how many of the next records may be handed out now. When that may change, the
// partition is offered.
func (c *suspects) permitted(records []*kgo.Record) int {
	g := &c.p.ledger.Guard
	if g.Free() {
		return len(records)
	}
	if c.p.ledger.Settled(records[0].Offset) {
		return 1
	}
	g.Progress(c.p.ledger.FirstOpen())
	c.p.ledger.HandOut(records[0].Offset) // what is missing before it is not to be handed out
	n, bound := 0, g.Bound()
	for n < len(records) && records[n].Offset < bound {
		n++
	}
	switch {
	case n > 0:
	case g.AskForMore(c.busy()): // else the end of a call offers the partition
		c.p.hurry()
	default:
		c.p.cfg.Calls.Flush() // and does not wait for more of them
	}
	return n
}

// SetAside keeps a suspect until its turn. It reports false for a record that is none.
func (c *suspects) SetAside(e crew.Entry) bool {
	if !c.p.ledger.Guard.Suspects(e.Offset) {
		return false
	}
	c.aside = append(c.aside, aside{Entry: e})
	return true
}

// NextAside returns a suspect that may run now, if there is one. If there is none yet, it has seen
// to what the next one lacks: the token, the commit that announces it, the trial of the accused.
func (c *suspects) NextAside() (crew.Entry, bool) {
	if len(c.aside) == 0 || c.p.ledger.Guard.Counts() && (c.runs.Load() >= 0 || c.trial) {
		return crew.Entry{}, false
	}
	i := c.first()
	next := c.aside[i]
	switch {
	// It is condemned; or no suspect any more, since others were settled or deaths do not count.
	case c.guilty.Load() == next.Offset, !c.p.ledger.Guard.Suspects(next.Offset):
	// A turn is over, and the next begins once a commit has said so.
	case c.p.ledger.Guard.Now().Alone < 0 && !c.p.ledger.Guard.NoneAnnounced():
		return crew.Entry{}, false
	case !c.holdsToken():
		c.p.cfg.Guard.Token.Request(&c.turn)
		return crew.Entry{}, false
	case c.p.ledger.Guard.IsAccused(next.Offset) && !c.tried:
		c.trial, c.until = true, time.Now().Add(c.p.cfg.Guard.Probation)
		c.p.ledger.Guard.Withdraw() // who was announced before the accused came does not run meanwhile
		c.p.hurry()
		c.p.workers.Go(func() { c.try(next.Offset) })
		return crew.Entry{}, false
	case !c.p.ledger.Guard.MayRun(next.Offset):
		c.announce(next.Offset)
		return crew.Entry{}, false
	default:
		c.runs.Store(next.Offset)
		c.timeAnew()
	}
	c.aside = append(c.aside[:i:i], c.aside[i+1:]...)
	if next.back != nil {
		close(next.back)
		return c.NextAside() // where deaths do not count the others need not wait for its end
	}
	return next.Entry, true
}

// first is which of those that wait comes next: the one that was accused or announced, if it is
// there. The one that was spared comes last: should it kill after all, others could never come to
// their end, which alone ends the row.
func (c *suspects) first() (i int) {
	if c.aside[0].Offset == c.spared && len(c.aside) > 1 {
		i = 1
	}
	now := c.p.ledger.Guard.Now()
	for j, a := range c.aside {
		if a.Offset == now.Accused || a.Offset == now.Alone {
			i = j
		}
	}
	return i
}

// AwaitTurn has a suspect that has rested wait for another turn.
func (c *suspects) AwaitTurn(ctx context.Context, offset int64, halted <-chan struct{}) bool {
	c.p.mu.Lock()
	if !c.p.ledger.Guard.Suspects(offset) {
		c.p.mu.Unlock()
		return true
	}
	back := make(chan struct{})
	c.aside = append(c.aside, aside{crew.Entry{Offset: offset}, back})
	c.p.mu.Unlock()
	c.p.roster.Offer()
	select {
	case <-back:
		return true
	case <-halted:
	case <-ctx.Done():
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.aside = slices.DeleteFunc(c.aside, func(a aside) bool { return a.back == back })
	return false
}

func (c *suspects) holdsToken() bool { return c.p.cfg.Guard.Token.Holds(&c.turn) }

// announce has a commit say that the record is about to run.
func (c *suspects) announce(offset int64) {
	g := &c.p.ledger.Guard
	if g.Now().Alone != offset {
		g.Announce(offset)
		c.timeAnew()
		c.tellOfSuspects(offset)
	}
	c.p.hurry()
}

func (c *suspects) tellOfSuspects(offset int64) {
	if n := c.p.ledger.Guard.Now(); !c.told {
		c.p.logger(offset).Warn("the process died again and again: what ran then is suspected and runs one by one until the record that kills it is found",
			"deaths", n.Deaths, "up_to_offset", n.SuspectsEnd)
	}
	c.told = true
}

// Handle is what to call for a record that is condemned.
func (c *suspects) Handle(offset int64) task.Handle {
	if c.guilty.Load() == offset {
		return c.p.cfg.Guard.Condemn
	}
	return nil
}

// Free says that nothing is suspected.
func (c *suspects) Free() bool { return c.p.ledger.Guard.Free() }

// cameToItsEnd notes that a call did not end the process.
func (c *suspects) cameToItsEnd(offset int64) {
	if c.runs.Load() != offset {
		return
	}
	c.runs.Store(-1)
	c.timeAnew()
	c.p.ledger.Guard.Returned(offset)
	c.p.workers.Go(c.p.endRow) // of the other partitions: this one is locked
	c.p.hurry()
}

// outlive ends the row once the process has lived on for another probation and turn: then it does
// not die whatever runs. Else a row would have no end where no suspect is left to come to its own.
func (c *suspects) outlive(now time.Time) {
	g := &c.p.ledger.Guard
	switch {
	case g.Now().Condemned == 0:
		c.row = time.Time{}
	case c.row.IsZero():
		c.row = now
	case now.Sub(c.row) > c.p.cfg.Guard.Probation+c.p.cfg.Guard.AloneFor:
		g.EndRow()
	}
}

// Rests notes who rests. A suspect that is called again after it gives its turn to others
// meanwhile, and what is held against it stays: it may end the process in its next try.
func (c *suspects) Rests(r crew.Rest) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	switch {
	case !r.Begins:
		c.p.ledger.Rests.End(r.Offset)
		return
	case r.Until.IsZero():
		c.cameToItsEnd(r.Offset)
	case c.runs.Load() == r.Offset:
		c.runs.Store(-1)
		c.timeAnew()
		c.p.ledger.Guard.Withdraw()
		c.p.hurry()
	}
	c.p.ledger.Rests.Begin(r.Offset, r.Until)
	if !c.p.ledger.Guard.Free() {
		c.p.roster.Offer() // fewer are busy: more may be handed out
	}
}

// busy is how many calls run that do not rest.
func (c *suspects) busy() int { return c.p.running() - len(c.p.ledger.Rests) }

// goesOn is for a partition that has held the token for its time. A suspect that still runs goes
// on: others have their turn, and deaths are not held against it any more. One that did not begin,
// since all workers are busy, waits for another turn. The token is free once a commit has said that
// the turn is over; where none could, as without a broker, it is so after that time once more.
func (c *suspects) goesOn() {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if !c.holdsToken() || c.trial {
		return
	}
	if c.runs.Load() >= 0 {
		c.p.logger(c.runs.Load()).Warn("a suspected record runs for longer than others are to wait for it: the next suspect has its turn", "after", c.p.cfg.Guard.AloneFor)
	} else if c.p.ledger.Guard.Now().Alone < 0 {
		c.p.cfg.Guard.Token.Release(&c.turn)
		c.p.roster.Offer()
		return
	}
	c.runs.Store(-1)
	c.p.ledger.Guard.Withdraw()
	c.timeAnew()
	c.giveTokenBack()
	c.p.hurry()
	c.p.roster.Offer() // where no commit could announce it, none follows that would
}

// giveTokenBack lets suspects of others have their turn, unless one of ours runs or is tried, or
// the broker does not know yet that it came to its end.
func (c *suspects) giveTokenBack() {
	if c.runs.Load() < 0 && !c.trial && c.p.ledger.Guard.NoneAnnounced() && c.holdsToken() {
		c.p.cfg.Guard.Token.Release(&c.turn)
	}
}

// standBack is for when nothing is handed out, in a pause for instance: what was announced and does
// not run gives way.
func (c *suspects) standBack() {
	if !c.p.ledger.Guard.Counts() || c.runs.Load() >= 0 {
		return
	}
	if c.p.ledger.Guard.Now().Alone >= 0 {
		c.p.ledger.Guard.Withdraw()
		c.p.hurry()
	}
	c.giveTokenBack()
}

// count counts them, and names the one whose turn it is; where it is on trial, with the end of its
// probation.
func (c *suspects) count() (n int, name string, until time.Time) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	n = len(c.aside)
	at := c.runs.Load()
	switch {
	case at >= 0:
		n++
	case c.trial:
		at, until = c.p.ledger.Guard.Now().Accused, c.until
	default:
		return n, "", until
	}
	return n, fmt.Sprintf("%s:%d:%d", c.p.topic, c.p.partition, at), until
}

// end takes the partition out of everybody's way, as it is given up.
func (c *suspects) end() {
	c.aside = nil
	c.limit.Stop()
	c.p.cfg.Guard.Token.Release(&c.turn)
}

// unguard ends the counting of deaths for this assignment: suspects run like others.
func (c *suspects) unguard() {
	c.p.ledger.Guard = ledger.Guard{}
	c.runs.Store(-1)
	c.limit.Stop()
	c.p.cfg.Guard.Token.Release(&c.turn)
	c.p.roster.Offer()
}
