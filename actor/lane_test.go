package actor

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/call"
	"github.com/stepwell/stepwell/internal/crew"
	"github.com/stepwell/stepwell/internal/seats"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/internal/telemetry"
	"github.com/stepwell/stepwell/streams"
)

var errUnavailable = errors.New("unavailable")

// origin is a partition whose messages are gathered.
type origin struct {
	calls  context.Context
	cancel context.CancelFunc

	partition int32
	mu        sync.Mutex
	halted    bool
	alone     int64 // the suspect that runs; -1: none
	ended     map[task.Outcome][]int64
	rests     int
}

func newOrigin() *origin {
	o := &origin{alone: -1, ended: map[task.Outcome][]int64{}}
	o.calls, o.cancel = context.WithCancel(context.Background())
	return o
}

func (o *origin) Settle(int64)                  {}
func (o *origin) Context() context.Context      { return o.calls }
func (o *origin) Calls() context.Context        { return o.calls }
func (o *origin) Trace() (parent, state string) { return "", "" }
func (o *origin) Desert([]int64) error          { return nil }

func (o *origin) Alone(offset int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.alone == offset
}

func (o *origin) Halted() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.halted
}

func (o *origin) halt() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.halted = true
}

func (o *origin) Rest(int64, time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rests++
}

func (o *origin) Ended(offsets []int64, how task.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended[how] = append(o.ended[how], offsets...)
}

// with are the messages that ended so.
func (o *origin) with(how task.Outcome) []int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.ended[how])
}

// gathering is a stream that gathers, with a handler of the test's, in a bubble.
type gathering struct {
	*batches
	t    *testing.T
	stop context.CancelFunc
	work context.CancelFunc

	mu    sync.Mutex
	began time.Time
	calls []string // when each batch was called, and with which messages
}

// gather runs a test with batches of at most 3 that wait for a second.
func gather(t *testing.T, atOnce int, order streams.Order, handle func(ctx context.Context, b *stepwell.Batch) error, test func(g *gathering)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &gathering{t: t, began: time.Now()}
		handler := func(ctx context.Context, b *stepwell.Batch) error {
			g.note(b)
			return handle(ctx, b)
		}
		d := &dispatch{
			calls:    call.New(call.Config{Batch: handler, Timeout: time.Minute, Lanes: atOnce}),
			hold:     hold{pause: time.Second, longest: time.Second},
			failures: nil,
		}
		g.batches = newBatches(d, batchConfig{size: 3, wait: time.Second, atOnce: atOnce, order: order, seats: seats.New(atOnce).First()})
		stop, cancel := context.WithCancel(context.Background())
		work, cancelWork := context.WithCancel(context.WithoutCancel(stop))
		g.stop, g.work = cancel, cancelWork
		ended := make(chan error, 1)
		go func() {
			ended <- g.run(stop, work, func(stop, _ context.Context) error {
				<-stop.Done()
				return nil
			})
		}()
		test(g)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		cancelWork()
	})
}

func (g *gathering) note(b *stepwell.Batch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	line := fmt.Sprintf("%.1f", time.Since(g.began).Seconds())
	for _, m := range b.Messages() {
		line += fmt.Sprintf(" %s", m.ID)
	}
	g.calls = append(g.calls, line)
}

// put hands out a message of a key.
func (g *gathering) put(o *origin, offset int64, key string) {
	m := &stepwell.Message{ID: fmt.Sprint(offset), Key: []byte(key), Attempt: 1, Origin: stepwell.Origin{Partition: o.partition, Offset: offset}}
	w := &worker{began: time.Now()}
	if got := g.gather(context.Background(), m, task.NewTicket(o, offset, w)); got != task.Gathered {
		g.t.Errorf("outcome %v", got)
	}
}

// together hands out a stretch, whose messages have those keys.
func (g *gathering) together(o *origin, offset int64, keys ...string) {
	var stretch []crew.Entry
	for i, key := range keys {
		at := offset + int64(i)
		stretch = append(stretch, crew.Entry{Offset: at, Message: &stepwell.Message{ID: fmt.Sprint(at), Key: []byte(key), Attempt: 1}})
	}
	g.gatherAll(o, stretch)
	clear(stretch)
}

func (g *gathering) want(calls ...string) {
	g.t.Helper()
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Equal(g.calls, calls) {
		g.t.Errorf("calls %q, want %q", g.calls, calls)
	}
}

// wantInAnyOrder sorts what was called, for what is called at the same time.
func (g *gathering) wantInAnyOrder(calls ...string) {
	g.t.Helper()
	synctest.Wait()
	g.mu.Lock()
	slices.Sort(g.calls)
	g.mu.Unlock()
	g.want(calls...)
}

// wantLast fails the test unless the last call was that one.
func (g *gathering) wantLast(call string) {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.calls) == 0 || g.calls[len(g.calls)-1] != call {
		g.t.Errorf("calls %q, want %q as the last", g.calls, call)
	}
}

// ofAnotherLane is a key whose messages do not wait in the lane of that one's.
func (g *gathering) ofAnotherLane(key string) string {
	other := "b"
	for n := 0; g.laneOf(&stepwell.Message{Key: []byte(other)}) == g.laneOf(&stepwell.Message{Key: []byte(key)}); n++ {
		other = fmt.Sprint("b", n)
	}
	return other
}

func takes(d time.Duration) func(context.Context, *stepwell.Batch) error {
	return func(ctx context.Context, _ *stepwell.Batch) error {
		task.Sleep(ctx, d)
		return ctx.Err()
	}
}

func TestABatchIsCalledWhenItIsFullOrItsFirstMessageHasWaited(t *testing.T) {
	gather(t, 1, streams.OrderKey, takes(0), func(g *gathering) {
		o := newOrigin()
		g.put(o, 1, "a")
		time.Sleep(600 * time.Millisecond)
		g.put(o, 2, "a")
		g.want()
		time.Sleep(500 * time.Millisecond)
		g.want("1.0 1 2")
		for offset := range int64(3) {
			g.put(o, 3+offset, "a")
		}
		g.want("1.0 1 2", "1.1 3 4 5")
		if got := o.with(task.Settled); !slices.Equal(got, []int64{1, 2, 3, 4, 5}) {
			t.Errorf("settled: %v", got)
		}
	})
}

func TestWhatComesTogetherFillsTheBatchesOfItsLanesInItsOrder(t *testing.T) {
	gather(t, 2, streams.OrderKey, takes(0), func(g *gathering) {
		o, a := newOrigin(), "a"
		b := g.ofAnotherLane(a)
		g.together(o, 0, a)
		time.Sleep(600 * time.Millisecond)
		g.together(o, 1, a, b)
		g.want() // neither is full, nor has waited
		time.Sleep(500 * time.Millisecond)
		g.want("1.0 0 1")
		time.Sleep(500 * time.Millisecond)
		g.want("1.0 0 1", "1.6 2")
		g.together(o, 3, a)
		synctest.Wait()
		g.together(o, 4, a, b, a, a, b, a, b, a) // with it of a more than one batch, and of b just one
		g.wantInAnyOrder("1.0 0 1", "1.6 2", "1.6 3 4 6", "1.6 5 8 10", "1.6 7 9 11")
		g.together(o, 12, b)
		o.halt()
		g.together(o, 13, a) // its worker was in the middle of that
		time.Sleep(time.Millisecond)
		g.want("1.0 0 1", "1.6 2", "1.6 3 4 6", "1.6 5 8 10", "1.6 7 9 11", "1.6 13")
		g.Flush()
		time.Sleep(time.Millisecond)
		got := o.with(task.Settled)
		if slices.Sort(got); len(got) != 14 || got[0] != 0 || got[13] != 13 {
			t.Errorf("settled: %v", got)
		}
	})
}

func TestWhatCameWhileABatchRanHasWaitedMeanwhile(t *testing.T) {
	gather(t, 1, streams.OrderKey, takes(5*time.Second), func(g *gathering) {
		o := newOrigin()
		for offset := range int64(4) {
			g.put(o, offset, "a")
		}
		time.Sleep(5 * time.Second)
		g.want("0.0 0 1 2", "5.0 3")
		time.Sleep(5 * time.Second)
	})
}

func TestLanesOfDifferentKeysRunAtOnceAndOneKeysOneAfterAnother(t *testing.T) {
	gather(t, 2, streams.OrderKey, takes(2*time.Second), func(g *gathering) {
		o := newOrigin()
		other := g.ofAnotherLane("a")
		for offset := range int64(6) {
			g.put(o, offset, "a")
		}
		g.want("0.0 0 1 2")
		time.Sleep(time.Second)
		for offset := range int64(3) {
			g.put(o, 6+offset, other)
		}
		g.want("0.0 0 1 2", "1.0 6 7 8")
		time.Sleep(time.Second)
		g.want("0.0 0 1 2", "1.0 6 7 8", "2.0 3 4 5")
		time.Sleep(2 * time.Second)
	})
}

// Whatever the keys of a partition, no two of its batches run at once.
func TestAPartitionThatIsHandledInItsOrderHasOneLane(t *testing.T) {
	gather(t, 2, streams.OrderPartition, takes(2*time.Second), func(g *gathering) {
		laneOfKey := func(key string) uint64 { return maphash.String(g.seed, key) % 2 }
		other := "b"
		for n := 0; laneOfKey(other) == laneOfKey("a"); n++ {
			other = fmt.Sprint("b", n)
		}
		o, beside := newOrigin(), newOrigin()
		beside.partition = 1
		for offset := range int64(6) {
			g.put(o, offset, []string{"a", other}[offset%2])
		}
		g.want("0.0 0 1 2")
		time.Sleep(time.Second)
		for offset := range int64(3) {
			g.put(beside, 6+offset, []string{"a", other}[offset%2])
		}
		g.want("0.0 0 1 2", "1.0 6 7 8")
		time.Sleep(time.Second)
		g.want("0.0 0 1 2", "1.0 6 7 8", "2.0 3 4 5")
		time.Sleep(2 * time.Second)
	})
}

func TestWithoutOrderAllThatIsFreeTakesFromOneLane(t *testing.T) {
	gather(t, 2, streams.OrderNone, takes(2*time.Second), func(g *gathering) {
		o := newOrigin()
		for offset := range int64(6) {
			g.put(o, offset, "a")
		}
		g.wantInAnyOrder("0.0 0 1 2", "0.0 3 4 5")
		time.Sleep(2 * time.Second)
	})
}

func TestWithoutOrderWhatComesTogetherIsCalledByAllThatAreFree(t *testing.T) {
	gather(t, 3, streams.OrderNone, takes(time.Minute), func(g *gathering) {
		o := newOrigin()
		synctest.Wait() // all wait
		g.together(o, 0, "a", "a", "a", "a", "a", "a", "a")
		time.Sleep(2 * time.Second)
		g.wantInAnyOrder("0.0 0 1 2", "0.0 3 4 5", "1.0 6")
		time.Sleep(2 * time.Minute)
	})
}

func TestWhatIsHaltedIsCalledAtOnceButNoMoreThanOneBatch(t *testing.T) {
	gather(t, 1, streams.OrderKey, takes(5*time.Second), func(g *gathering) {
		revoked, ours := newOrigin(), newOrigin()
		for offset := range int64(3) {
			g.put(revoked, offset, "a")
		}
		synctest.Wait()
		for offset := range int64(4) {
			g.put(revoked, 3+offset, "a")
		}
		g.put(ours, 100, "a")
		revoked.halt()
		g.Flush()
		time.Sleep(5 * time.Second)
		g.want("0.0 0 1 2", "5.0 3 4 5")
		if got := revoked.with(task.Abandoned); !slices.Equal(got, []int64{6}) {
			t.Errorf("left to the next owner: %v", got)
		}
		time.Sleep(5 * time.Second)
		g.want("0.0 0 1 2", "5.0 3 4 5", "10.0 100")
		time.Sleep(5 * time.Second)
	})
}

func TestWhatIsHaltedAndWasGatheredDoesNotWait(t *testing.T) {
	gather(t, 1, streams.OrderKey, takes(0), func(g *gathering) {
		o := newOrigin()
		g.put(o, 1, "a")
		synctest.Wait()
		o.halt()
		g.Flush()
		g.want("0.0 1")
		g.put(o, 2, "a") // its worker was in the middle of that
		g.want("0.0 1", "0.0 2")
	})
}

// A worker may be in the middle of its stretch when a partition is halted: what it gathers then
// comes after what was left to the next owner.
func TestWhatComesAfterMessagesThatWereLeftIsLeftToo(t *testing.T) {
	t.Parallel()
	l, of, other := newLane(2, time.Second, 1), newOrigin(), newOrigin()
	gather := func(of *origin, offsets ...int64) {
		for _, offset := range offsets {
			l.put(of, time.Now(), false, crew.Entry{Message: &stepwell.Message{}, Offset: offset})
		}
	}
	offsets := func(items []item) (all []int64) {
		for _, i := range items {
			all = append(all, i.offset)
		}
		return all
	}
	gather(of, 0, 1, 2, 3)
	of.halt()
	l.hurry()
	batch, left := l.take(nil)
	if !slices.Equal(offsets(batch), []int64{0, 1}) || !slices.Equal(offsets(left), []int64{2, 3}) {
		t.Fatalf("first %v is called and %v left", offsets(batch), offsets(left))
	}
	gather(of, 4)
	gather(other, 7)
	batch, left = l.take(nil)
	if !slices.Equal(offsets(batch), []int64{7}) || !slices.Equal(offsets(left), []int64{4}) {
		t.Errorf("then %v is called and %v left", offsets(batch), offsets(left))
	}
	of.cancel() // it is given up
	l.take(nil)
	if len(l.left) > 0 {
		t.Error("it is remembered for ever")
	}
}

func TestWhatIsNoLongerOursIsNotCalled(t *testing.T) {
	gather(t, 1, streams.OrderKey, takes(time.Second), func(g *gathering) {
		lost, ours := newOrigin(), newOrigin()
		for offset := range int64(3) {
			g.put(ours, offset, "a")
		}
		synctest.Wait()
		g.put(lost, 7, "a")
		g.put(ours, 8, "a")
		g.put(lost, 9, "a")
		lost.halt()
		lost.cancel()
		g.Flush()
		time.Sleep(3 * time.Second)
		g.want("0.0 0 1 2", "1.0 8")
		if got := lost.with(task.Abandoned); !slices.Equal(got, []int64{7, 9}) {
			t.Errorf("abandoned: %v", got)
		}
	})
}

func TestInAPauseNothingIsCalledAndWhatIsHaltedIsGivenUp(t *testing.T) {
	gather(t, 1, streams.OrderKey, takes(0), func(g *gathering) {
		revoked, ours := newOrigin(), newOrigin()
		g.Pause()
		g.put(revoked, 1, "a")
		g.put(ours, 2, "a")
		time.Sleep(time.Minute)
		g.want()
		revoked.halt()
		g.Flush()
		synctest.Wait()
		if got := revoked.with(task.Abandoned); !slices.Equal(got, []int64{1}) {
			t.Errorf("abandoned: %v", got)
		}
		g.Resume()
		g.want("60.0 2")
	})
}

func TestABatchIsCancelledWithWork(t *testing.T) {
	gather(t, 1, streams.OrderKey, takes(time.Hour), func(g *gathering) {
		o := newOrigin()
		g.put(o, 1, "a")
		time.Sleep(2 * time.Second)
		g.stop()
		g.work()
		synctest.Wait()
		if got := o.with(task.Abandoned); !slices.Equal(got, []int64{1}) {
			t.Errorf("abandoned: %v", got)
		}
	})
}

// BenchmarkGather is what a message costs between its worker and the handler of a batch of 500.
func BenchmarkGather(b *testing.B) {
	all, err := telemetry.New(telemetry.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = all.Shutdown(context.Background()) }()
	d := &dispatch{calls: call.New(call.Config{
		Batch: func(context.Context, *stepwell.Batch) error { return nil }, Timeout: time.Minute, Lanes: 1, Telemetry: all.Stream("orders"),
	})}
	g := newBatches(d, batchConfig{size: 500, wait: time.Second, atOnce: 1, seats: seats.New(1).First()})
	o := newOrigin()
	entries := make([]crew.Entry, 500)
	for i := range entries {
		entries[i] = crew.Entry{Message: &stepwell.Message{}, Offset: int64(i)}
	}
	c := g.callers[0]
	b.ReportAllocs()
	for b.Loop() {
		for stretch := range slices.Chunk(entries, crew.StretchSize) {
			g.gatherAll(o, stretch)
		}
		batch, _ := c.lane.take(c.memory)
		c.batch = batch
		c.call(b.Context())
		clear(batch)
		c.memory = batch
		clear(o.ended)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/500, "ns/message")
}
