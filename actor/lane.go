package actor

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/telemetry"
)

// lane is what is known of the calls on one goroutine of the reader. Fast calls are measured many at a time, since to look at a clock takes
// as long as they do. Only that goroutine touches it, but for began.
type lane struct {
	began    atomic.Int64 // an instant: when the calls began that are not measured yet; 0: there are none
	verdicts [stepwell.Skipped + 1]int
	last     stepwell.Kind
	contexts contexts
	shared   *callContext      // of the calls in a row that did not ask for Done, and of the next; nil: there is none
	headers  []stepwell.Header // of the call that runs, as they came
	_        [64]byte          // no cache line in common with the next
}

// timing is how a call is measured: with others of its lane, or by itself where that is nil.
type timing struct {
	lane  *lane
	began time.Time
}

// keep copies the list of a message's headers, until the next call of its lane.
func (t timing) keep(headers []stepwell.Header) []stepwell.Header {
	if t.lane == nil {
		return slices.Clone(headers)
	}
	t.lane.headers = append(t.lane.headers[:0], headers...)
	return t.lane.headers
}

// enter notes a call that began, like others before it, at this instant.
func (l *lane) enter(at instant) {
	if l.began.Load() != int64(at) {
		l.began.Store(int64(at))
	}
}

// context is that of the next call: the one before's, where nothing tells them apart and nobody waits for its end.
func (l *lane) context(parent context.Context, c *calls, deadline instant) *callContext {
	if l.shared != nil && (l.shared.Context != parent || l.shared.deadline != deadline) {
		l.endContext()
	}
	if l.shared == nil {
		l.shared = l.contexts.next()
		l.shared.Context, l.shared.calls, l.shared.deadline = parent, c, deadline
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

// leave notes a verdict.
func (l *lane) leave(k stepwell.Kind) {
	l.verdicts[k]++
	l.last = k
}

// ended counts the calls that are not measured yet: how long they took in all, and the last of them, if that is known.
func (l *lane) ended(t *telemetry.Stream, number int, all, last time.Duration) {
	l.began.Store(0)
	l.endContext()
	clear(l.headers[:cap(l.headers)]) // they hold what was fetched with them
	if l.last == 0 {
		return
	}
	if last > 0 {
		t.HandledMany(context.Background(), number, 1, last, l.last)
		l.verdicts[l.last]--
		all = max(0, all-last)
	}
	n := 0
	for _, of := range l.verdicts {
		n += of
	}
	for k, of := range l.verdicts {
		if of > 0 {
			t.HandledMany(context.Background(), number, of, all/time.Duration(n), stepwell.Kind(k))
			l.verdicts[k] = 0
		}
	}
	l.last = 0
}
