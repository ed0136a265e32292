package streams

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell/internal/ledger"
)

// load counts what is in flight in all partitions of a reader, and lets the poll loop wait for
// room.
type load struct {
	maxRecords, maxBytes, maxSpan int64
	turn                          sync.Mutex   // of those that wait for room, one at a time
	taking                        sync.Mutex   // of who looks how much room there is, and takes it
	promised                      atomic.Int64 // places kept for polls that are under way
	records, bytes, span          atomic.Int64
	waiting                       atomic.Bool
	room                          chan struct{}
	began                         time.Time
	progress                      atomic.Int64 // nanoseconds from began to the last record settled; zero: none was
}

func newLoad(w Window) *load {
	return &load{began: time.Now(), maxRecords: int64(w.Messages), maxBytes: int64(w.Bytes), maxSpan: int64(w.Span), room: make(chan struct{}, 1)}
}

func (l *load) add(records, bytes int) {
	l.records.Add(int64(records))
	l.bytes.Add(int64(bytes))
	l.span.Add(int64(records))
}

// lastProgress is when a record was settled last, zero before the first. It keeps the monotonic
// clock: a wall clock that is set makes no stream look stuck, nor a stuck one look well.
func (l *load) lastProgress() time.Time {
	if after := l.progress.Load(); after > 0 {
		return l.began.Add(time.Duration(after))
	}
	return time.Time{}
}

// remove takes out what was settled. It wakes the poll loop only when there is as much room as that
// waits for: records that are settled one by one would each wake it for nothing.
func (l *load) remove(f ledger.Freed) {
	records := l.records.Add(-int64(f.Records))
	l.bytes.Add(-int64(f.Bytes))
	l.span.Add(-int64(f.Span))
	if f.Records > 0 {
		l.progress.Store(max(1, int64(time.Since(l.began))))
	}
	if l.waiting.Load() && l.maxRecords-records >= l.wanted() {
		select {
		case l.room <- struct{}{}:
		default:
		}
	}
}

// free is how many more records may be read; averageSize is what one is expected to hold.
func (l *load) free(averageSize int64) int64 {
	room := l.maxBytes - l.bytes.Load()
	if room <= 0 {
		return 0
	}
	promised := l.promised.Load()
	return min(l.maxRecords-l.records.Load()-promised, l.maxSpan-l.span.Load()-promised, room/max(1, averageSize)+1)
}

// await promises a place for one record, which is to be given back. It prefers to wait a little for
// an eighth of the window, since polls for a few records each cost more than the wait. refresh
// brings the counts up to date. False means that ctx ended.
func (l *load) await(ctx context.Context, averageSize int64, refresh func()) bool {
	l.turn.Lock()
	defer l.turn.Unlock()
	for l.awaitRoom(ctx, averageSize, refresh) {
		if l.promise(averageSize) {
			return true
		}
	}
	return false
}

func (l *load) promise(averageSize int64) bool {
	l.taking.Lock()
	defer l.taking.Unlock()
	if l.free(averageSize) < 1 {
		return false
	}
	l.promised.Add(1)
	return true
}

// kept ends a promise: the record is counted by now, or there was none.
func (l *load) kept() { l.promised.Add(-1) }

func (l *load) awaitRoom(ctx context.Context, averageSize int64, refresh func()) bool {
	want := l.wanted()
	if l.free(averageSize) >= want {
		return true
	}
	l.waiting.Store(true)
	defer l.waiting.Store(false)
	tick := time.NewTicker(roomInterval)
	defer tick.Stop()
	for {
		if l.free(averageSize) >= want {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-l.room:
		case <-tick.C:
			refresh()
			if l.free(averageSize) > 0 {
				return true
			}
			tick.Reset(roomIntervalFull)
		}
	}
}

// wanted is for how many records it is worth to poll.
func (l *load) wanted() int64 { return max(1, l.maxRecords/8) }

const (
	roomInterval     = 5 * time.Millisecond
	roomIntervalFull = 50 * time.Millisecond
)
