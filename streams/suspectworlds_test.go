package streams

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/task"
)

// After up to three deaths, with gaps in the offsets, calls that hang, rest and settle later,
// pauses and commits that fail: every record is called, in the order of its key, and the partition
// comes to rest with no end of commits.
func TestEachRecordOfAGuardedPartitionIsCalledWhateverItsNeighboursDo(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newGuardedWorld(t, seed).run() })
		})
	}
}

// fate is what a record's handler does: it takes its time, rests so often, and settles so late.
type fate struct {
	takes, rest, pends time.Duration
	rests              int
}

type guardedWorld struct {
	*ward
	random  *rand.Rand
	tickets sync.WaitGroup
	next    int64 // offset
	total   int   // records

	mu      sync.Mutex
	fates   map[int64]fate
	last    map[string]int64 // offset that was called last, by key
	running map[string]bool
}

func newGuardedWorld(t *testing.T, seed uint64) *guardedWorld {
	w := &guardedWorld{random: rand.New(rand.NewPCG(seed, 7)), fates: map[int64]fate{}, last: map[string]int64{}, running: map[string]bool{}}
	first := 1 + w.random.Int64N(6)
	for offset := range first {
		w.fates[offset] = w.fate()
	}
	w.next, w.total = first, int(first)
	deaths, accused := w.random.IntN(4), int64(-1)
	if deaths == 3 && w.random.IntN(2) == 0 {
		accused = w.random.Int64N(first)
	}
	w.ward = newWardOf(t, oneOf(w.random, 1, 4, 16, 40), first, w.handle, func(m *ledger.Mark) {
		if m.Deaths = deaths; deaths == 0 {
			m.SuspectsEnd = 0
		}
		if accused >= 0 {
			m.Accused, m.Died = accused, []uint32{4, 5, 6}
		}
	})
	return w
}

func oneOf[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

func (w *guardedWorld) fate() (f fate) {
	switch w.random.IntN(6) {
	case 0:
		f.takes = oneOf(w.random, time.Millisecond, time.Second, 3*time.Minute)
	case 1:
		f.rests, f.rest = 1+w.random.IntN(3), oneOf(w.random, 10*time.Millisecond, time.Second, 2*time.Minute)
		f.takes = oneOf(w.random, 0, 10*time.Millisecond)
	case 2:
		f.pends = oneOf(w.random, time.Millisecond, time.Second, time.Minute)
	}
	return f
}

func (w *guardedWorld) handle(ctx context.Context, m *stepwell.Message, t task.Ticket) task.Outcome {
	f := w.begins(m)
	defer w.ends(m)
	for tries := 0; ; tries++ {
		if !task.Sleep(ctx, f.takes) {
			return task.Abandoned
		}
		if tries == f.rests {
			break
		}
		if !t.Rest(ctx, f.rest, m) {
			return task.Abandoned
		}
	}
	if f.pends == 0 {
		return task.Settled
	}
	w.tickets.Go(func() { time.Sleep(f.pends); t.Settle() })
	return task.Pending
}

func (w *guardedWorld) begins(m *stepwell.Message) fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	if key := string(m.Key); m.Key != nil {
		if w.running[key] {
			w.t.Errorf("two calls of key %s at a time", key)
		}
		if before, ok := w.last[key]; ok && before >= m.Origin.Offset {
			w.t.Errorf("of key %s, %d came after %d", key, m.Origin.Offset, before)
		}
		w.running[key], w.last[key] = true, m.Origin.Offset
	}
	return w.fates[m.Origin.Offset]
}

func (w *guardedWorld) ends(m *stepwell.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.Key != nil {
		w.running[string(m.Key)] = false
	}
}

// produce adds records, now and then after a gap.
func (w *guardedWorld) produce() {
	f := &kgo.FetchPartition{}
	w.mu.Lock()
	for range 1 + w.random.IntN(60) {
		if w.random.IntN(12) == 0 {
			w.next += oneOf[int64](w.random, 1, 20, 200, 3000)
		}
		r := &kgo.Record{Topic: "t", Offset: w.next, Value: []byte("v")}
		if w.random.IntN(3) > 0 {
			r.Key = fmt.Appendf(nil, "k%d", w.random.IntN(20))
		}
		w.fates[w.next] = w.fate()
		f.Records = append(f.Records, r)
		w.next++
		w.total++
	}
	w.mu.Unlock()
	f.HighWatermark, f.LastStableOffset = w.next, w.next
	w.intake.receive(topicPartition{"t", 0}, f, [16]byte{1})
}

// commits has the broker take commits until there is nothing to commit: few records may be out at
// a time, but each commit lets others begin.
func (w *guardedWorld) commits() {
	for range w.total + 100 {
		if !w.store() {
			return
		}
	}
	w.t.Error("there is always more to commit")
}

// run goes on until all is done, or for half a day.
func (w *guardedWorld) run() {
	fails := 0 // for so many ticks no commit is taken
	for tick := range 200_000 {
		if tick%7 == 3 && tick < 60 {
			w.produce()
		}
		if fails--; fails < 0 && tick < 500 && w.random.IntN(50) == 0 {
			fails = w.random.IntN(600)
		}
		if tick%100 == 50 && tick < 1000 {
			w.Pause()
			time.Sleep(oneOf(w.random, time.Millisecond, time.Minute))
			w.Resume()
		}
		if fails < 0 {
			w.commits()
		}
		time.Sleep(200 * time.Millisecond)
		if w.t.Failed() || tick > 70 && w.Status().InFlight == 0 {
			break
		}
	}
	synctest.Wait()
	if s := w.Status(); s.InFlight != 0 || s.Span != 0 || s.InFlightBytes != 0 || w.p.running() != 0 {
		w.t.Errorf("it does not come to rest: %d of %d called, %+v", w.calls.count(), w.total, s)
	}
	w.commits()
	w.turnIsFree("at the end", true)
	if called := len(w.calls.of(0)) + len(w.calls.of(condemnations)); called != w.total {
		w.t.Errorf("%d of %d were called", called, w.total)
	}
	w.tickets.Wait()
}
