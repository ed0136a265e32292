package streams

import (
	"time"

	"github.com/stepwell/stepwell/internal/ledger"
)

// try looks, after the probation, whether the deaths that are held against a record were deaths,
// and whether it is the record that kills. Until then no suspect runs in this process.
func (c *suspects) try(offset int64) {
	runs, err := true, error(nil)
	if c.lasts(c.p.cfg.Guard.Probation) {
		runs, err = c.judge(offset)
	}
	if err != nil {
		c.p.logger(offset).Warn("a suspected record waits until it can be seen which members live: it is tried again", "error", err)
	}
	c.p.mu.Lock()
	c.trial, c.tried = false, err == nil
	c.timeAnew()
	if !runs || err != nil {
		c.giveTokenBack()
	}
	c.p.mu.Unlock()
	c.p.roster.Offer()
}

// lasts waits for so long. It reports false, at once, when the partition is halted before.
func (c *suspects) lasts(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-c.p.roster.Halted():
		return false
	}
}

// judge says whether the record runs now, and no other before it. An error says that it cannot be
// seen who lives.
func (c *suspects) judge(offset int64) (runs bool, err error) {
	living, err := c.p.living(c.p.handling)
	if err != nil {
		return false, err
	}
	row := c.p.condemned()
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	g := &c.p.ledger.Guard
	kills := g.Review(func(process uint32) bool { return living[process] })
	log := c.p.logger(offset).With("deaths_while_it_ran", len(g.Now().Died), "crash_limit", c.p.cfg.Guard.CrashLimit)
	c.told = true // that others are suspected, too, would read like another killer
	switch {
	case !kills:
		log.Warn("the process died while a suspected record ran: it runs once more, and no other suspect beside it")
		return true, nil
	case row >= ledger.MostCondemned:
		log.Error("the process dies whichever record runs: it is not the records, and no more of them are condemned until one comes to its end")
		g.Acquit(offset)
		c.spared = offset
		return false, nil
	}
	c.p.ledger.Condemn(offset)
	c.row = time.Time{}    // the time to live on begins anew
	c.guilty.Store(offset) // with the row: a commit in between would count the record twice
	log.Error("a record killed the process each time it ran: it is not called again")
	return false, nil
}
