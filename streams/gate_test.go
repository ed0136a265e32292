package streams

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/internal/ledger"
)

func TestAChangeOfTheAssignmentInterruptsThePollsAndRunsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		ctx, cancel := context.WithCancel(t.Context())
		var polling, changing, changes, polls atomic.Int64
		var together atomic.Bool
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				for ctx.Err() == nil {
					g.poll(ctx, func(ctx context.Context) {
						polls.Add(1)
						defer polling.Add(-1)
						if polling.Add(1) == 2 {
							together.Store(true)
						}
						<-ctx.Done() // nothing to read
					})
				}
			})
		}
		synctest.Wait() // both poll: the changes leave no poll a gap until the last of them is over
		for range 3 {
			all.Go(func() {
				for range 100 {
					g.change(func() {
						if changing.Add(1) != 1 || polling.Load() != 0 {
							t.Error("not alone")
						}
						defer changing.Add(-1)
						time.Sleep(time.Millisecond)
						changes.Add(1)
					})
					time.Sleep(time.Millisecond)
				}
			})
		}
		time.Sleep(time.Minute)
		cancel()
		all.Wait()
		g.end()
		if changes.Load() != 300 || polls.Load() < 4 || !together.Load() {
			t.Fatalf("%d changes, %d polls, side by side: %v", changes.Load(), polls.Load(), together.Load())
		}
	})
}

func TestAPollThatBeganBeforeALossBringsNothingIntoTheNextAssignment(t *testing.T) {
	j := newJournal()
	r, tp := lone(t, j.settleAll)
	ours := map[string][]int32{tp.topic: {tp.partition}}
	r.rebalances.onAssigned(t.Context(), new(kgo.Client), ours)
	polling, changed := make(chan struct{}), make(chan struct{})
	var late sync.WaitGroup
	late.Go(func() {
		r.gate.poll(t.Context(), func(ctx context.Context) {
			close(polling)
			<-ctx.Done() // the loss wants in, and this poll comes back with old records all the same
			r.intake.receive(tp, records(90, 100), [16]byte{1})
		})
	})
	<-polling
	go func() {
		r.rebalances.onLost(t.Context(), nil, ours)
		r.rebalances.onAssigned(t.Context(), new(kgo.Client), ours)
		close(changed)
	}()
	late.Wait()
	<-changed
	p := r.parts.lookup(tp)
	p.begin(ledger.At(10, -1), false)
	eventually(t, "the calls of the assignment before to end", func() bool { return !isBlocked(p) })
	r.intake.receive(tp, records(10, 12), [16]byte{1})
	eventually(t, "the new records", func() bool { o := j.of(0); return len(o) > 1 && o[len(o)-1] == 11 })
	if c, ok := p.dirty(0); !ok || c.At.Offset != 12 {
		t.Fatalf("committable %v %v", c, ok)
	}
}
