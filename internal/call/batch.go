package call

import (
	"context"
	"errors"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/telemetry"
)

// Cancelled is the answer on a message of which a call says nothing, since its context ended before
// the handler was done. It is compared, and has no fields.
//
//nolint:gochecknoglobals // one that all compare with
var Cancelled = &Answer{}

// errUnmarked stands for what the handler returned while it is found out what was marked.
var errUnmarked = errors.New("not marked")

// Single makes a handler of a batch handler, for batches of one.
func Single(handler stepwell.BatchHandler) stepwell.Handler {
	return func(ctx context.Context, m *stepwell.Message) (err error) {
		b, returned := stepwell.NewBatch(m), false
		defer func() {
			if verdict := b.Verdicts(errUnmarked)[0]; !returned && !isUnmarked(verdict) {
				if recover() != nil { // what was marked counts whatever the call does
					err = verdict
				}
			}
		}()
		err = handler(ctx, b)
		returned = true
		if verdicts := b.Verdicts(err); verdicts != nil {
			return verdicts[0]
		}
		return nil
	}
}

func isUnmarked(verdict error) bool { return verdict == errUnmarked } //nolint:errorlint // it is what was passed

// CallBatch runs the batch handler once, for all messages together. There is an answer for each, in
// their order: nil for Done, [Cancelled], or what became of it; messages that were not marked share
// one. No answers mean that all are done. The messages are measured as if they had taken the same
// time each, one after another. before are the trace contexts of the first calls that some of them
// had.
func (c *Caller) CallBatch(ctx context.Context, messages []*stepwell.Message, lane int, before []telemetry.TraceContext) (answers []*Answer) {
	handling, end := c.Telemetry.ProcessBatch(ctx, messages, before)
	l, began := &c.lanes[lane], time.Now()
	l.enter(c.at(began))
	own := l.contexts.next()
	own.Context, own.caller, own.deadline = handling, c, c.at(began)+instant(c.Timeout)
	b, returned := stepwell.NewBatch(messages...), false
	var all *Answer // on what is not marked
	defer func() {
		if !returned {
			all = c.threw(recover(), messages[0], len(messages))
		}
		own.end()
		l.began.Store(0)
		answers = c.answersOf(b, all, ctx.Err() != nil)
		trace := c.Telemetry.Trace(handling)
		for _, a := range answers {
			if a != nil && a != Cancelled {
				a.Trace = trace
			}
		}
		end(c.measureBatch(handling, lane, messages, answers, time.Since(began)))
	}()
	if err := c.Batch(own, b); err != nil {
		all = c.judge(err)
	}
	returned = true
	return nil
}

// answersOf are the answers on the messages of a batch; all is that on those that are not marked.
// Where the call was cancelled only what is done counts, and nothing where it ended its goroutine.
func (c *Caller) answersOf(b *stepwell.Batch, all *Answer, cancelled bool) []*Answer {
	if all == nil && b.Verdicts(nil) == nil {
		return nil // as most are
	}
	verdicts := b.Verdicts(errUnmarked)
	answers, done := make([]*Answer, len(verdicts)), true
	for i, verdict := range verdicts {
		a := all
		if !isUnmarked(verdict) && (all == nil || !all.Deserted) {
			a = c.judged(verdict)
		}
		if a != nil && cancelled {
			a = Cancelled
		}
		answers[i] = a
		done = done && a == nil
	}
	if done {
		return nil
	}
	return answers
}

// judged is judge where the error may panic, and be one of many.
func (c *Caller) judged(err error) (a *Answer) {
	if err == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			a = thrown(p)
		}
	}()
	return c.judge(err)
}

// measureBatch counts the messages of a batch by what became of them, and tells of those that are
// not done: of what shares an answer once. It returns what the span shows: the first failure.
func (c *Caller) measureBatch(ctx context.Context, lane int, messages []*stepwell.Message, answers []*Answer, took time.Duration) (e telemetry.Ended) {
	each := took / time.Duration(len(messages))
	if answers == nil {
		c.Telemetry.Handled(ctx, lane, len(messages), each, stepwell.Done)
		return e
	}
	for i := 0; i < len(answers); {
		n := 1
		for i+n < len(answers) && answers[i+n] == answers[i] {
			n++
		}
		a, m := answers[i], messages[i]
		i += n
		switch {
		case a == nil:
			c.Telemetry.Handled(ctx, lane, n, each, stepwell.Done)
			continue
		case a == Cancelled:
			continue
		case !a.Failed():
			c.Telemetry.Handled(ctx, lane, n, each, a.Kind)
		default:
			a.Took = took // of a call that they had together
			for range n {
				c.Telemetry.Failed(ctx, each, a.Kind, a.Failure.Type)
			}
			if !e.Failed {
				e = a.ended()
			}
		}
		c.Tried(ctx, m, n, a)
	}
	return e
}
