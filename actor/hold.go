package actor

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/call"
	"github.com/stepwell/stepwell/internal/task"
)

// hold is what a stream without queues does with a failing message: it tries again with a
// growing pause until it is done or no longer ours. Others are handled during the pause, but for
// those that must wait for it. There is no dead set to put it in, so it is dropped only where
// ON_FAILURE says so, and DeadLetter is a failure like any other.
type hold struct {
	// drop: a message that fails is dropped (ON_FAILURE=drop).
	drop bool
	// pause is the first wait after a failure; it doubles up to longest.
	pause   time.Duration
	longest time.Duration
}

// keepTrying tries a message until it is done, as hold says.
func (d *dispatch) keepTrying(ctx context.Context, came stepwell.Message, a *call.Answer, t task.Ticket) (task.Outcome, *failed) {
	// The message is kept for as long as it takes: on memory of its own, so that what was fetched
	// with it can go.
	kept := came.Clone()
	for pause := d.hold.pause; ; {
		if d.hold.drop && a.Failed() {
			d.drop(kept, a)
			return task.Settled, nil
		}
		// Messages that failed for one reason do not all come back at one moment.
		wait := cmp.Or(a.After, pause/2+rand.N(pause/2+1))
		if a.Failed() {
			kept.FirstFailed = cmp.Or(kept.FirstFailed, time.Now())
			kept.Attempt++
			pause = min(2*pause, d.hold.longest)
		} else {
			kept.Snoozes++
		}
		t = t.After(a.Trace.Parent, a.Trace.State)
		if !t.Rest(ctx, wait, kept) {
			return task.Abandoned, nil
		}
		var ok bool
		if a, ok = d.calls.Call(ctx, kept.Clone(), t); !ok {
			return task.Abandoned, nil
		}
		if a.Finished() {
			return task.Settled, nil
		}
		if a.Kind == stepwell.HandedOver {
			return task.Pending, d.handOver(*kept, a)
		}
	}
}
