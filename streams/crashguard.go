package streams

import (
	"math/rand/v2"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/internal/solo"
)

// crash is what a partition does about deaths. The partition's lock guards all but blamed and turn.
type crash struct {
	guard  guard
	turn   solo.Turn
	lone   bool         // a record runs alone
	told   bool         // the log says that records do
	last   bool         // the next commit is the last one of this assignment
	handed int64        // the offset after the last record handed out
	before int64        // handed at the last commit
	blamed atomic.Int64 // the offset of a record that is not to be called; -1: none
}

func (c *crash) begin(p *partition) {
	c.guard = takeOver(noMark(), 0, p.r.rules())
	c.blamed.Store(-1)
	c.turn.Ready = func() { p.r.crew.offer(p) }
}

// newLife is a number for this process that is not 0 and that others are not likely to have.
func newLife() uint32 { return rand.Uint32() | 1 }

func (r *Reader) rules() rules {
	return rules{limit: r.cfg.CrashLimit, life: r.number, spare: r.cfg.Condemn == nil}
}

// oldest is the first offset that is not settled, read or not.
func (p *partition) oldest() int64 {
	if first, ok := p.window.First(); ok {
		return first
	}
	return max(p.window.next.offset, p.expected)
}

// permitted is how many of the next records may be handed out now. When that may change, the partition is offered.
func (p *partition) permitted(records []*kgo.Record) int {
	c := &p.crash
	if c.guard.easy() {
		return len(records)
	}
	offset := records[0].Offset
	if p.window.Settled(offset) {
		return 1
	}
	turn, bound := c.guard.next(offset, p.oldest())
	switch turn {
	case turnMany:
		n := 0
		for n < len(records) && records[n].Offset < bound {
			n++
		}
		return n
	case turnAlone:
		p.announce(offset)
	case turnLone:
		if p.isAlone() {
			c.lone = true
			return 1
		}
		p.r.cfg.Room.Request(&c.turn)
	case turnBlame:
		c.blamed.Store(offset)
		p.r.log.Error("a record killed the process each time it ran, also alone: it is not called again",
			"stream", p.r.cfg.Stream, "topic", p.topic, "partition", p.partition, "offset", offset)
		return 1
	case turnWait:
	}
	if c.guard.ask {
		p.r.commits.hurry()
	}
	return 0
}

// announce has a commit say that the record runs alone, once it can.
func (p *partition) announce(offset int64) {
	c := &p.crash
	if !p.isAlone() {
		p.r.cfg.Room.Request(&c.turn)
		return
	}
	if c.guard.now.running {
		return // the commit is on its way
	}
	c.guard.announce(offset)
	log := p.r.log.With("stream", p.r.cfg.Stream, "topic", p.topic, "partition", p.partition, "offset", offset)
	switch {
	case c.guard.blames(offset):
		log.Error("a record kills the process each time it runs, and runs again, since there is no dead set", "deaths", c.guard.now.died)
	case c.guard.now.died > 0:
		log.Warn("the process died while a record ran alone: it runs alone once more", "deaths", c.guard.now.died)
	case !c.told:
		log.Warn("the process died again and again: records run one by one until the one that kills it is found", "deaths", c.guard.now.deaths,
			"up_to_offset", c.guard.now.suspect)
	}
	c.told = true
}

// isAlone says that nothing else runs in the process, nor will, until the turn is released.
func (p *partition) isAlone() bool { return p.r.cfg.Room.Alone(&p.crash.turn) }

// handle is what does the work for a single task.
func (p *partition) handle(t task) Handle {
	if p.crash.blamed.Load() == t.offset {
		return p.r.cfg.Condemn
	}
	return p.r.handle
}

// loneReturned notes that the call which ran alone is over.
func (p *partition) loneReturned() {
	c := &p.crash
	if !c.lone {
		return
	}
	c.lone = false
	c.guard.returned()
	if c.guard.ask && len(p.pending) > 0 {
		p.r.commits.hurry() // it may take long until it is settled
	}
}

// takeBack is for the next of a key that a worker must not begin now.
func (p *partition) takeBack(t task) task {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopped.Load() {
		p.schedule.Return(t)
	}
	p.running--
	p.checkDone()
	return task{}
}

// leave ends a worker's turn with the partition.
func (p *partition) leave(stands standing, worked bool) {
	switch stands {
	case inside:
		p.r.cfg.Room.Leave()
	case alone:
		p.yield()
	case outside:
	}
	if p.r.cfg.CrashLimit == 0 || !worked {
		return
	}
	p.mu.Lock()
	more := !p.crash.guard.easy() && p.hasMore()
	p.mu.Unlock()
	if more {
		p.r.crew.offer(p)
	}
}

// yield lets others into the room unless a record runs alone, or is just being announced.
func (p *partition) yield() {
	p.mu.Lock()
	busy := p.crash.lone || p.crash.guard.now.running && !p.stopped.Load() && !p.r.pause.on.Load()
	if !busy {
		p.crash.guard.returned()
	}
	p.mu.Unlock()
	if !busy {
		p.r.cfg.Room.Release(&p.crash.turn)
	}
}

// markSize is what a mark may need. Where a broker takes less, deaths are not counted.
const markSize = 96

// mark is what the next commit says of deaths, nil where nothing is to be said, and whether it must be sent though nothing else changed.
func (p *partition) mark(limit int) (*lifeMark, bool) {
	c := &p.crash
	if limit < markSize && c.guard.limit > 0 {
		c.guard = guard{}
		p.r.crew.offer(p)
	}
	if c.guard.limit == 0 {
		return nil, false
	}
	ahead := firstLead + 2*max(0, c.handed-c.before)
	m := c.guard.mark(p.oldest(), c.handed, ahead, c.last)
	return &m, c.guard.urges(m)
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
	if !was {
		p.r.crew.offer(p)
	}
}

// part says that the next commit of the partitions is their last one.
func part(parts []*partition) {
	for _, p := range parts {
		p.mu.Lock()
		p.crash.last = true
		p.mu.Unlock()
	}
}

// reopen offers everything again when the room is open.
func (r *Reader) reopen() {
	for _, p := range r.all() {
		r.crew.offer(p)
	}
}
