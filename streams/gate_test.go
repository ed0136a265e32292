package streams

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestAChangeOfTheAssignmentInterruptsThePollAndRunsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		ctx, cancel := context.WithCancel(t.Context())
		var inside, changes, polls atomic.Int64
		alone := func() {
			if inside.Add(1) != 1 {
				t.Error("not alone")
			}
		}
		var all sync.WaitGroup
		all.Go(func() {
			for ctx.Err() == nil {
				g.poll(ctx, func(ctx context.Context) {
					alone()
					defer inside.Add(-1)
					polls.Add(1)
					<-ctx.Done() // nothing to read
				})
			}
		})
		for range 3 {
			all.Go(func() {
				for range 100 {
					g.change(func() {
						alone()
						defer inside.Add(-1)
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
		if changes.Load() != 300 || polls.Load() < 2 {
			t.Fatalf("%d changes, %d polls", changes.Load(), polls.Load())
		}
	})
}

func TestAPollThatBeganBeforeALossBringsNothingIntoTheNextAssignment(t *testing.T) {
	j := newJournal()
	r, tp := lone(t, j.settleAll)
	ours := map[string][]int32{tp.topic: {tp.partition}}
	r.onAssigned(t.Context(), nil, ours)
	polling, changed := make(chan struct{}), make(chan struct{})
	var late sync.WaitGroup
	late.Go(func() {
		r.gate.poll(t.Context(), func(ctx context.Context) {
			close(polling)
			<-ctx.Done() // the loss wants in, and this poll comes back with old records all the same
			r.receive(tp, records(90, 100), [16]byte{1})
		})
	})
	<-polling
	go func() {
		r.onLost(t.Context(), nil, ours)
		r.onAssigned(t.Context(), nil, ours)
		close(changed)
	}()
	late.Wait()
	<-changed
	r.lookup(tp).begin(position{10, -1}, false)
	r.receive(tp, records(10, 12), [16]byte{1})
	eventually(t, "the new records", func() bool { o := j.of(0); return len(o) > 1 && o[len(o)-1] == 11 })
	if c, ok := r.lookup(tp).dirty(0); !ok || c.at.offset != 12 {
		t.Fatalf("committable %v %v", c, ok)
	}
}
