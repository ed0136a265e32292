package actor

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/crew"
	"github.com/stepwell/stepwell/internal/seats"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/streams"
)

// Without queues the same batch is called again with what failed, and its lane waits.
func TestWithoutQueuesABatchIsCalledAgainWithWhatFailedOfIt(t *testing.T) {
	handle := func(_ context.Context, b *stepwell.Batch) error {
		for _, m := range b.Messages() {
			if m.ID == "1" && m.Attempt < 3 {
				m.Attempt = 77 // its own
				b.Fail(m, errUnavailable)
			}
		}
		return nil
	}
	gather(t, 1, streams.OrderKey, handle, func(g *gathering) {
		o := newOrigin()
		for offset := range int64(4) {
			g.put(o, offset, "a")
		}
		time.Sleep(10 * time.Second)
		g.mu.Lock()
		var ids []string
		for _, c := range g.calls {
			ids = append(ids, c[4:])
		}
		g.mu.Unlock()
		if want := []string{"0 1 2", "1", "1", "3"}; !slices.Equal(ids, want) {
			t.Errorf("calls %q, want %q", ids, want)
		}
		if got := o.with(task.Settled); !slices.Equal(got, []int64{0, 2, 1, 3}) {
			t.Errorf("settled: %v", got)
		}
	})
}

// What failed together is called together again, and a wait that a message asked for holds back
// what is behind it.
func TestWithoutQueuesWhatFailedOfABatchKeepsItsOrder(t *testing.T) {
	for name, c := range map[string]struct {
		order  streams.Order
		first  error // of the first message, which has the key of the second
		second error
		want   []string
	}{
		"all fail":                      {streams.OrderKey, errUnavailable, errUnavailable, []string{"0 1 2", "0 1 2"}},
		"the first asks for more":       {streams.OrderKey, stepwell.RetryAfter(errUnavailable, 9*time.Second), errUnavailable, []string{"0 1 2", "2", "0 1"}},
		"the first is snoozed":          {streams.OrderKey, stepwell.Snooze(9 * time.Second), errUnavailable, []string{"0 1 2", "2", "0 1"}},
		"the second asks for more":      {streams.OrderKey, errUnavailable, stepwell.RetryAfter(errUnavailable, 9*time.Second), []string{"0 1 2", "0 2", "1"}},
		"the first, and of a partition": {streams.OrderPartition, stepwell.RetryAfter(errUnavailable, 9*time.Second), errUnavailable, []string{"0 1 2", "0 1 2"}},
		"the first, without order":      {streams.OrderNone, stepwell.RetryAfter(errUnavailable, 9*time.Second), errUnavailable, []string{"0 1 2", "1 2", "0"}},
	} {
		t.Run(name, func(t *testing.T) {
			handle := func(_ context.Context, b *stepwell.Batch) error {
				for _, m := range b.Messages() {
					switch {
					case m.Attempt > 1 || m.Snoozes > 0:
					case m.ID == "0":
						b.Fail(m, c.first)
					case m.ID == "1":
						b.Fail(m, c.second)
					default:
						b.Fail(m, errUnavailable)
					}
				}
				return nil
			}
			gather(t, 1, c.order, handle, func(g *gathering) {
				o := newOrigin()
				g.put(o, 0, "a")
				g.put(o, 1, "a")
				g.put(o, 2, "b")
				time.Sleep(20 * time.Second)
				var ids []string
				g.mu.Lock()
				defer g.mu.Unlock()
				for _, c := range g.calls {
					_, of, _ := strings.Cut(c, " ")
					ids = append(ids, of)
				}
				if !slices.Equal(ids, c.want) {
					t.Errorf("calls %q, want %q", ids, c.want)
				}
			})
		})
	}
}

func TestARestOfABatchEndsForWhatIsHalted(t *testing.T) {
	handle := func(_ context.Context, b *stepwell.Batch) error {
		if b.Messages()[0].Attempt == 1 {
			return errUnavailable
		}
		return nil
	}
	gather(t, 1, streams.OrderKey, handle, func(g *gathering) {
		revoked, ours := newOrigin(), newOrigin()
		g.put(revoked, 1, "a")
		g.put(ours, 2, "a")
		g.put(ours, 3, "a")
		synctest.Wait()
		revoked.halt()
		g.Flush()
		synctest.Wait()
		if got := revoked.with(task.Abandoned); !slices.Equal(got, []int64{1}) {
			t.Errorf("abandoned: %v", got)
		}
		time.Sleep(2 * time.Second)
		if got := ours.with(task.Settled); !slices.Equal(slices.Sorted(slices.Values(got)), []int64{2, 3}) {
			t.Errorf("settled: %v, %v", got, g.calls)
		}
	})
}

// What comes after a message that was left to the next owner is left, too: it would be called
// before it.
func TestWhatIsBehindAMessageThatIsLeftIsNotCalled(t *testing.T) {
	for name, c := range map[string]struct {
		handle func(context.Context, *stepwell.Batch) error
		leave  func(g *gathering, o *origin)
	}{
		"of a batch that rests": {
			func(context.Context, *stepwell.Batch) error { return errUnavailable },
			func(g *gathering, o *origin) {
				o.halt()
				g.Flush()
			},
		},
		"of a batch that a stop cancels": {
			func(ctx context.Context, b *stepwell.Batch) error {
				if b.Messages()[0].ID == "0" {
					<-ctx.Done()
				}
				return ctx.Err()
			},
			func(g *gathering, o *origin) { g.work() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			gather(t, 1, streams.OrderKey, c.handle, func(g *gathering) {
				o := newOrigin()
				for offset := range int64(5) {
					g.put(o, offset, "a")
				}
				time.Sleep(100 * time.Millisecond)
				c.leave(g, o)
				time.Sleep(time.Minute)
				if got := o.with(task.Abandoned); len(got) != 5 || len(g.calls) != 1 {
					t.Errorf("left: %v; calls %q", got, g.calls)
				}
			})
		})
	}
}

// What waits in the lane of a batch that rests is no work that hangs, either.
func TestABatchThatRestsMakesNoStreamStuck(t *testing.T) {
	failing := func(context.Context, *stepwell.Batch) error { return errUnavailable }
	streamInBubble(t, Stream{Batch: failing}, func(b *bubble) {
		b.handle("bad", "waits", "waits", "waits")
		b.after(14*time.Minute, false)
		if s := b.stream.now(); s.Resting != 1 || s.Oldest == nil || time.Until(s.Oldest.NextTry).Round(time.Minute) != time.Minute {
			b.t.Errorf("the status is %+v, the oldest %+v", s, s.Oldest)
		}
	}, "RETRY_IN_PLACE=all", "RETRY_DELAY=15m", "BATCH_SIZE=1")
}

// A revoke of some partitions does not wait for a batch of others that rests in their lane.
func TestWhatIsRevokedBehindABatchOfOthersThatRestsIsGivenUpAtOnce(t *testing.T) {
	handle := func(_ context.Context, b *stepwell.Batch) error {
		if b.Messages()[0].Attempt < 4 {
			return errUnavailable
		}
		return nil
	}
	gather(t, 1, streams.OrderKey, handle, func(g *gathering) {
		revoked, ours := newOrigin(), newOrigin()
		for offset := range int64(3) {
			g.put(ours, offset, "a")
		}
		synctest.Wait()
		g.put(revoked, 3, "b")
		g.put(ours, 4, "b")
		revoked.halt()
		g.Flush()
		synctest.Wait()
		g.put(revoked, 5, "b") // by who was in the middle of handing out
		synctest.Wait()
		if got := revoked.with(task.Abandoned); !slices.Equal(got, []int64{3, 5}) {
			t.Errorf("left while the others rest: %v", got)
		}
		time.Sleep(time.Minute)
		if got := ours.with(task.Settled); !slices.Equal(got, []int64{0, 1, 2, 4}) {
			t.Errorf("settled: %v, %v", got, g.calls)
		}
	})
}

// What died and is in no queue yet when its partition ends is tried again by the next owner: what
// comes after it is not called before that.
func TestWhatIsBehindAMessageThatIsInNoQueueYetWhenItsPartitionEndsIsNotCalled(t *testing.T) {
	b := newBatches(&dispatch{}, batchConfig{size: 3, wait: time.Second, atOnce: 1, order: streams.OrderKey, seats: seats.New(1).First()})
	revoked, ours := newOrigin(), newOrigin()
	l := b.lanes[0]
	l.put(revoked, time.Now(), false, crew.Entry{Message: &stepwell.Message{}, Offset: 2})
	l.put(ours, time.Now(), false, crew.Entry{Message: &stepwell.Message{}, Offset: 3})
	revoked.halt()
	b.Flush()
	b.callers[0].awaitDue(t.Context(), nil, []departure{{revoked, make(chan struct{})}})
	batch, left := l.take(nil)
	if len(batch) != 1 || batch[0].offset != 3 || len(left) != 1 {
		t.Errorf("called: %v; left: %v", batch, left)
	}
}
