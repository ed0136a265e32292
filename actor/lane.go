package actor

import (
	"context"
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
	_        [64]byte // no cache line in common with the next
}

// timing is how a call is measured: with others of its lane, or by itself where that is nil.
type timing struct {
	lane  *lane
	began time.Time
}

// enter notes a call that began, like others before it, at this instant.
func (l *lane) enter(at instant) {
	if l.began.Load() != int64(at) {
		l.began.Store(int64(at))
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
