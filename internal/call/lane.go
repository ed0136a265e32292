package call

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/telemetry"
)

// lane is what is known of the calls on one goroutine. Only that goroutine touches it, but for what
// is atomic.
type lane struct {
	// began is an instant: when the calls began that are measured together. 0: there are none.
	began atomic.Int64
	// counted is an instant: the calls before it were counted.
	counted atomic.Int64
	// verdicts counts the calls that were not told yet, by verdict. The watch reads and empties it,
	// too.
	verdicts [stepwell.Kinds]atomic.Int64
	// last is the verdict of the latest call; 0: it failed, or was told already.
	last     stepwell.Kind
	number   int
	contexts contexts
	// shared is the context of the calls in a row that did not ask for Done, which the next call
	// may have, too. Nil: there is none.
	shared *handlerContext
	// headers are memory for those of the call that runs; see Caller.Headers.
	headers []stepwell.Header
	_       [64]byte // no cache line in common with the next
}

// enter notes a call that began, like others before it, at this instant.
func (l *lane) enter(at instant) {
	if l.began.Load() != int64(at) {
		l.began.Store(int64(at))
	}
}

// context is that of the next call: the one before's, where nothing tells them apart and nobody
// waits for its end.
func (l *lane) context(parent context.Context, c *Caller, deadline instant) *handlerContext {
	if l.shared != nil && (l.shared.Context != parent || l.shared.deadline != deadline) {
		l.endContext()
	}
	if l.shared == nil {
		l.shared = l.contexts.next()
		l.shared.Context, l.shared.caller, l.shared.deadline = parent, c, deadline
	}
	return l.shared
}

// endContext ends what the calls in a row have shared.
func (l *lane) endContext() {
	if l.shared != nil {
		l.shared.end()
		l.shared = nil
	}
}

// leave notes a verdict that is no failure.
func (l *lane) leave(k stepwell.Kind) {
	l.verdicts[k].Add(1)
	l.last = k
}

// fail counts a failure, and the calls before it.
func (l *lane) fail(ctx context.Context, t *telemetry.Stream, at instant, a *Answer) {
	a.Took = l.count(t, at, 1)
	// Told alone, with its ctx: a metrics provider of the user's may keep the span in it beside the
	// number, as an exemplar.
	t.Failed(ctx, a.Took, a.Kind, a.Failure.Type)
	l.last = 0
}

// count counts the calls that are not counted yet, as if they and so many more had taken the same
// time each, which it returns.
func (l *lane) count(t *telemetry.Stream, until instant, more int) (each time.Duration) {
	var of [len(l.verdicts)]int
	n := more
	for k := range l.verdicts {
		if l.verdicts[k].Load() == 0 { // a swap costs as much as all else here
			continue
		}
		of[k] = int(l.verdicts[k].Swap(0))
		n += of[k]
	}
	if n == 0 {
		return 0
	}
	// Both ends may have been moved by held, which counts on another goroutine.
	from := max(l.began.Load(), l.counted.Swap(int64(until)))
	each = max(0, time.Duration(int64(until)-from)) / time.Duration(n)
	for k, of := range of {
		if of > 0 {
			t.Handled(context.Background(), l.number, of, each, stepwell.Kind(k))
		}
	}
	return each
}

// held counts what ended before a call that takes long. It comes from another goroutine.
func (l *lane) held(t *telemetry.Stream, now instant) {
	if l.began.Load() != 0 {
		l.count(t, now, 0)
	}
}

// ended counts the calls that are not counted yet: how long they took in all, and the last of them,
// if that is known.
func (l *lane) ended(t *telemetry.Stream, all, last time.Duration) {
	until := instant(l.began.Load()) + instant(all)
	l.endContext()
	clear(l.headers[:cap(l.headers)]) // they hold what was fetched with them
	if l.last != 0 && last > 0 && l.verdicts[l.last].Load() > 0 {
		l.verdicts[l.last].Add(-1)
		t.Handled(context.Background(), l.number, 1, last, l.last)
		until -= instant(last)
	}
	l.last = 0
	l.count(t, until, 0)
	l.began.Store(0)
}
