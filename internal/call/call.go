// Package call runs a stream's handler, once for each call: with the context that ends with the
// handler's time, with its panics caught, its verdict found out, and its time measured.
//
// Calls run on lanes, one after another: a lane is the number of a goroutine. Fast calls in a row
// are measured together and share a context, since to look at a clock, or to make a context, takes
// as long as they do. Who runs a lane says with [Caller.Ended] how long its calls took.
package call

import (
	"context"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/internal/telemetry"
)

// Config says what is called, and how.
type Config struct {
	Handler stepwell.Handler
	// Batch is called by CallBatch; nil: nobody calls that.
	Batch stepwell.BatchHandler
	// Timeout is how long the handler has.
	Timeout time.Duration
	// Lanes is how many goroutines call.
	Lanes int
	// Telemetry measures the calls. Nil: nobody does.
	Telemetry *telemetry.Stream
	// Direct says why a message cannot be handed over to a channel; nil: it can. A hand-over that
	// it refuses is a failure. A nil Direct refuses all.
	Direct func(channel string) error
	// Tried is told of each answer that is not Done, and to how many messages of a call it was
	// given: m is the first of them. Nil: nobody is.
	Tried func(ctx context.Context, m *stepwell.Message, n int, a *Answer)
	// Deserted is told of a handler that ends its goroutine with runtime.Goexit, while it does: m
	// is the first of the n messages of the call. Nil: nobody is.
	Deserted func(m *stepwell.Message, n int)
}

// Caller calls one stream's handler.
type Caller struct {
	Config
	// epoch is instant 0. It has a monotonic reading, so that a wall clock that is set changes no
	// instant.
	epoch time.Time
	// over stands for the timer of a call that was over before anybody asked for it.
	over *timed
	// lanes are those of the goroutines that call, by number. Each is its goroutine's alone.
	lanes []lane
}

// New makes a caller.
func New(cfg Config) *Caller {
	if cfg.Tried == nil {
		cfg.Tried = func(context.Context, *stepwell.Message, int, *Answer) {}
	}
	if cfg.Deserted == nil {
		cfg.Deserted = func(*stepwell.Message, int) {}
	}
	if cfg.Direct == nil {
		cfg.Direct = func(string) error { return errNoChannels }
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	// A call never begins at instant 0, which says that none runs on its lane.
	c := &Caller{Config: cfg, epoch: time.Now().Add(-1), over: &timed{over, cancel}, lanes: make([]lane, cfg.Lanes)}
	for i := range c.lanes {
		c.lanes[i].number = i
	}
	return c
}

// instant is a point in time since the caller was made. To read it takes half as long as time.Now.
type instant time.Duration

func (c *Caller) now() instant { return instant(time.Since(c.epoch)) }

func (c *Caller) at(t time.Time) instant { return instant(t.Sub(c.epoch)) }

func (c *Caller) time(i instant) time.Time { return c.epoch.Add(time.Duration(i)) }

// Call runs the handler once. No answer means Done. ok is false when ctx ended before the handler
// was done: what it returned says nothing about the message then; that the work is done always
// counts.
func (c *Caller) Call(ctx context.Context, m *stepwell.Message, t task.Ticket) (a *Answer, ok bool) {
	if !c.Telemetry.Tracing() {
		// Began may be that of the first of several calls in a row: they share a context, and its
		// deadline.
		lane, began := t.Running()
		return c.call(ctx, ctx, m, lane, c.at(began))
	}
	var first telemetry.TraceContext
	first.Parent, first.State = t.Trace()
	handling, end := c.Telemetry.Process(ctx, m, first)
	a = thrown(nil) // should the handler end its goroutine
	defer func() {
		if a != nil {
			a.Trace = c.Telemetry.Trace(handling)
		}
		end(a.ended())
	}()
	lane, began := t.Running()
	return c.call(ctx, handling, m, lane, c.at(began))
}

// CallAnew is Call for a call that follows another one of the same message: it has all of the
// handler's time for itself, and is measured alone.
func (c *Caller) CallAnew(ctx context.Context, m *stepwell.Message, t task.Ticket) (a *Answer, ok bool) {
	lane, _ := t.Running()
	began := time.Now()
	defer func() {
		took := time.Since(began)
		c.Ended(lane, took, took)
	}()
	return c.call(ctx, ctx, m, lane, c.at(began))
}

// call is Call within a span: the handler's context is made of handling. The answer of a handler
// that ends its goroutine is counted, and returned to nobody.
func (c *Caller) call(ctx, handling context.Context, m *stepwell.Message, lane int, began instant) (a *Answer, ok bool) {
	l := &c.lanes[lane]
	l.enter(began)
	own := l.context(handling, c, began+instant(c.Timeout))
	returned := false
	defer func() {
		if !returned {
			a = c.threw(recover(), m, 1)
		}
		// The way of nearly all calls: done, and nobody waits for the context's end, so that the
		// next call may have the same.
		if a == nil && !own.asked() {
			l.leave(stepwell.Done)
			return
		}
		l.endContext()
		// A failure under a context that ended is that of the stop or the revocation, not of the
		// message: it is neither counted nor parked.
		if ok = a == nil || ctx.Err() == nil; ok {
			c.measure(handling, l, m, a)
		}
	}()
	if err := c.Handler(own, m); err != nil {
		a = c.judge(err) // here, where a panic is caught: the error's methods are the user's
	}
	returned = true
	return a, true
}

// threw is the answer of a handler that did not return: value is what it panicked with, nil where
// it ends its goroutine.
func (c *Caller) threw(value any, m *stepwell.Message, n int) *Answer {
	if value == nil {
		c.Deserted(m, n)
	}
	return thrown(value)
}

// measure counts a call by its verdict, and a failure by the type of its error.
func (c *Caller) measure(ctx context.Context, l *lane, m *stepwell.Message, a *Answer) {
	if a == nil {
		l.leave(stepwell.Done)
		return
	}
	c.Tried(ctx, m, 1, a)
	if !a.Failed() {
		l.leave(a.Kind)
		return
	}
	l.fail(ctx, c.Telemetry, c.now(), a)
}

// Headers copies the list of a message's headers, which is the handler's to change; the copy holds
// until the next call of its lane.
func (c *Caller) Headers(t task.Ticket, came []stepwell.Header) []stepwell.Header {
	lane, _ := t.Running()
	l := &c.lanes[lane]
	l.headers = append(l.headers[:0], came...)
	return l.headers
}

// Ended is told, on its goroutine, how long the calls of a lane took since it was told last: all
// together, and the last of them if that was measured alone, else 0.
func (c *Caller) Ended(lane int, all, last time.Duration) {
	c.lanes[lane].ended(c.Telemetry, all, last)
}

// Held is told, on any goroutine, that the call on a lane takes long: what ended before it is
// counted now, and not once it ends.
func (c *Caller) Held(lane int) { c.lanes[lane].held(c.Telemetry, c.now()) }

// Oldest is when the longest-running call began; zero when none runs. Of fast calls in a row it is
// when the first one did.
func (c *Caller) Oldest() time.Time {
	first := int64(0)
	for i := range c.lanes {
		if at := c.lanes[i].began.Load(); at != 0 && (first == 0 || at < first) {
			first = at
		}
	}
	if first == 0 {
		return time.Time{}
	}
	return c.time(instant(first))
}
