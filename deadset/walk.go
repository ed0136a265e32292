package deadset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/queue"
)

const (
	// closeTime bounds the end of a window: acks, the rest given back, the queue looked at.
	closeTime = 30 * time.Second
	// stallTime is how long no confirm may come before a walk gives up: a broker under an alarm may
	// not answer for hours.
	stallTime = 10 * time.Second
	// graceTime is how long the confirms of what is under way may take when a walk was given up.
	graceTime = 2 * time.Second
)

// walk runs the errand on the oldest messages, and on none that was not there at the start. Those
// it leaves out stay at the head of their queue: where they fill a window it sees nothing beyond
// them there.
func (s *Set) walk(ctx context.Context, e errand) (r Result, err error) {
	// Before and after: a peek that runs meanwhile must not leave a page of what was there before.
	s.recent.forget()
	defer s.recent.forget()
	r.Requested, r.Left = e.most, Unknown
	lease, err := e.lease(ctx, s)
	if err != nil {
		return r, err
	}
	defer lease.Release()
	parts, err := e.parts(ctx, s, lease)
	if err == nil {
		r.Left = depthOf(parts)
		err = s.through(ctx, parts, e, &r)
	}
	if err != nil {
		r.Stopped = err.Error()
	}
	return r, err
}

// through runs the errand in one part after the other, until it is done.
func (s *Set) through(ctx context.Context, parts []part, e errand, r *Result) error {
	for i := range parts {
		p := &parts[i]
		if r.Done >= r.Requested || r.Stopped != "" {
			return nil
		}
		if p.number == lastOf(parts) {
			before := depthOf(parts)
			_, err := s.finishMoves(ctx, parts)
			r.Left -= before - depthOf(parts)
			if err != nil {
				return err
			}
		}
		if p.depth == 0 {
			continue
		}
		e.most = r.Requested - r.Done
		worn, err := s.windows(ctx, *p, e, r)
		if err == nil && worn && r.Left > 0 {
			err = s.renewAll(ctx, *p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// windows runs the errand in one window of the part after the other, and says whether what it has
// seen came back too often.
func (s *Set) windows(ctx context.Context, p part, e errand, r *Result) (worn bool, err error) {
	// there is how many messages are left of those at the start. They are the oldest: what a replay
	// brings back queues up behind them.
	there, leftOut, tooLarge := p.depth, 0, 0
	for more := true; more && err == nil; {
		var st step
		most := e.most + tooLarge
		if e.which != nil {
			most = e.most + queue.WindowSize // room for those that it passes over: a window of them ends the walk
		}
		if err = e.isReady(ctx); err != nil {
			break
		}
		st, err = s.step(ctx, p, e, min(most, there))
		gone := st.done + st.doubles
		there -= gone
		r.Left -= gone
		e.most -= st.done
		r.Done += st.done
		// A window in which nothing was done is worth another one only if it saw more that has to
		// stay, or found no room: else the next would be the same.
		more = e.most > 0 && there > 0 && (gone > 0 || e.full != nil && st.cut || st.leftOut+st.tooLarge > leftOut+tooLarge)
		r.LeftOut += max(0, st.leftOut-leftOut)
		r.TooLarge += max(0, st.tooLarge-tooLarge)
		leftOut, tooLarge = max(leftOut, st.leftOut), max(tooLarge, st.tooLarge)
		// The walk stops here, and walk publishes the worn ones anew: each further window would
		// return them once more.
		if worn = isWorn(s.cfg.Broker, p, st.returns); worn && more {
			more, r.Stopped = false, wornOut
		}
	}
	return worn, err
}

// isWorn says that a message of the part came back so often that the queue might drop it one day.
// The other half of the limit is for those that cannot be published anew: see ErrRefused.
func isWorn(b queue.Broker, p part, returns int64) bool { return returns > b.ReturnLimit(p.queue)/2 }

const wornOut = "the oldest messages came back to the queue so often that it might drop them: they were published anew, ask again"

// step is what became of one window.
type step struct {
	depth    int   // messages in the queue when it was opened
	seen     int   // handed out by it
	cut      bool  // there was more to do, or may have been
	leftOut  int   // seen, and not what the errand is about
	tooLarge int   // seen, and refused by the broker for their size
	begun    int   // acted on, whatever became of that
	done     int   // known to be gone
	doubles  int   // removed, since the page had them twice
	returns  int64 // the most returns of a message that was seen; those behind it have no more
}

// step runs the errand in one window of the part, on some of the oldest so many. A page is read as
// a whole before the errand begins, since its order has to be looked at: that is no more than a
// walk may hold. Where the dead arrive messages are acted on as they come.
func (s *Set) step(ctx context.Context, p part, e errand, oldest int) (st step, err error) {
	whole := p.isPage() && e.few == 0
	if whole {
		oldest = queue.WindowSize
	}
	if e.late { // nothing would come in the place of what is done
		oldest = min(oldest, queue.WindowSize)
	}
	w, err := e.open(ctx, p, oldest, s.cfg.WalkBytes)
	if err != nil {
		return st, err
	}
	failpoint.Hit("walk held")
	c := course{errand: e, from: p, outcomes: make(chan outcome, queue.WindowSize)} // takes all that is held: who comes too late finds room
	deliveries, removed := w.Deliveries(), 0
	if whole {
		var all []*held
		if all, removed, err = gather(ctx, w, p, nil); err == nil {
			deliveries, c.read = handed(all)
		}
	}
	if err == nil {
		err = c.run(ctx, deliveries)
	}
	for _, d := range c.confirmed {
		d.Ack()
	}
	failpoint.Hit("walk acked")
	// Also after an error, and beyond a context that is over: what is confirmed elsewhere must be
	// removed.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	after, closeErr := w.Close(closing)
	failpoint.Hit("walk closed")
	st = step{
		depth: w.Depth(), seen: c.seen + removed, cut: c.cut || c.acked >= e.most || err != nil,
		leftOut: c.leftOut, tooLarge: c.tooLarge, begun: c.begun, done: c.acked, doubles: removed, returns: c.returns,
	}
	if closeErr != nil { // acks have no confirm: only what the queue shows counts
		gone := max(0, st.depth-after)
		st.done = min(st.done, gone)
		st.doubles = min(st.doubles, gone-st.done)
	}
	return st, errors.Join(err, closeErr)
}

// handed hands out messages that are held already; by their tags they are what was read of them.
func handed(all []*held) (<-chan queue.Delivery, map[uint64]*held) {
	out, read := make(chan queue.Delivery, len(all)), make(map[uint64]*held, len(all))
	defer close(out)
	for _, h := range all {
		out <- h.Delivery
		read[h.Tag] = h
	}
	return out, read
}

// outcome is what became of a message.
type outcome struct {
	d   queue.Delivery
	err error
}

// course is the state of an errand in one window.
type course struct {
	errand
	from part
	read map[uint64]*held // messages of the window that were read before it began, by their tags
	// underWay counts what has begun and has no outcome yet. One goroutine, that of run, has all
	// fields; act's done comes from any, and goes through outcomes.
	underWay, acked   int
	seen, begun       int
	cut               bool  // no more is begun, since it is enough
	leftOut, tooLarge int   // these stay unacked until the end, and take up room in the window
	returns           int64 // the most returns of a message that was seen
	err               error // the first
	outcomes          chan outcome
	confirmed         []queue.Delivery // to be acked late
}

// run begins with each message as it comes and acks it once that has succeeded. It returns when the
// fate of all it began with is known, or was not in time: then messages may rest in both places.
func (c *course) run(ctx context.Context, deliveries <-chan queue.Delivery) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// nil once ctx has ended: from then on only outcomes are waited for, and graceTime.
	ended, enough, lost := ctx.Done(), c.enough, c.from.Ended()
	patience := time.NewTimer(stallTime)
	defer patience.Stop()
	for {
		in := c.in(deliveries)
		if in == nil {
			failpoint.Hit("walk published")
			if c.underWay == 0 {
				return c.err
			}
		}
		select {
		case d, ok := <-in:
			if !ok {
				deliveries = nil
				continue
			}
			if c.underWay == 0 {
				patience.Reset(stallTime)
			}
			c.begin(ctx, d)
		case o := <-c.outcomes:
			c.settle(o)
			if ended != nil {
				patience.Reset(stallTime)
			}
		case <-enough:
			c.cut, enough = true, nil
		case <-lost:
			// By now others may have what is here. What is not published yet is given up: it
			// would be there twice, or come back after they deleted it.
			c.err = cmp.Or(c.err, fmt.Errorf("%w: the lease is lost", queue.ErrUnavailable)) // first, as below
			stop(c.err)
			lost = nil
		case <-ended:
			c.err = cmp.Or(c.err, context.Cause(ctx))
			ended = nil
			patience.Reset(graceTime)
		case <-patience.C:
			switch {
			case ended == nil:
				return c.err
			case c.underWay == 0: // the window waits, not we
				patience.Reset(stallTime)
			default:
				c.err = cmp.Or(c.err, fmt.Errorf("%w: no confirm for %s", queue.ErrUnavailable, stallTime)) // before an outcome says that it was cancelled
				stop(c.err)
			}
		}
	}
}

// in is where the next message comes from; nil, which is never ready: no more is begun.
func (c *course) in(deliveries <-chan queue.Delivery) <-chan queue.Delivery {
	if c.acked+c.underWay < c.most && c.leftOut+c.tooLarge < cmp.Or(c.few, queue.WindowSize) && !c.cut && c.err == nil {
		return deliveries
	}
	return nil
}

func (c *course) begin(ctx context.Context, d queue.Delivery) {
	c.returns = max(c.returns, d.Returns)
	h := c.read[d.Tag]
	if h == nil {
		h = hold(d, c.from)
	}
	if c.which != nil && !c.which(h) {
		c.seen++
		c.leftOut++
		return
	}
	if c.full != nil && c.full(h) {
		c.cut = true
		return
	}
	c.seen++
	c.underWay++
	c.begun++
	c.act(ctx, h, func(err error) { c.outcomes <- outcome{d, err} })
}

func (c *course) settle(o outcome) {
	c.underWay--
	switch {
	case o.err == nil:
		failpoint.Hit("walk confirmed")
		if c.acked++; c.late {
			c.confirmed = append(c.confirmed, o.d)
		} else {
			o.d.Ack()
		}
	// That one message stays, and the walk goes on with the others.
	case errors.Is(o.err, queue.ErrTooLarge):
		c.tooLarge++
	default:
		c.err = cmp.Or(c.err, o.err)
	}
}
