package streams

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
)

func TestAHandleThatEndsItsGoroutineHoldsUpNobodyAndKeepsTheOrderOfItsKey(t *testing.T) {
	for name, outcome := range map[string]Outcome{"settled": Settled, "pending": Pending} {
		for _, slow := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " slow ", slow), func(t *testing.T) {
				t.Parallel()
				w := fakeWorld(t, 1)
				const n = 700
				w.keyed(n, func(i int) string { return fmt.Sprint("key-", i%10) })
				j := newJournal()
				var escaped atomic.Int64
				cfg := w.byKey()
				cfg.Concurrency = 3
				cfg.Escaped = func(_ context.Context, _ *stepwell.Message, t Ticket) Outcome {
					escaped.Add(1)
					if outcome == Pending {
						time.AfterFunc(time.Millisecond, t.Settle)
					}
					return outcome
				}
				stage := newStage(t)
				w.run(cfg, func(_ context.Context, m *stepwell.Message, _ Ticket) Outcome {
					stage.enter(string(m.Key), m.Origin.Offset)
					defer stage.leave(string(m.Key))
					j.note(m)
					if slow && m.Origin.Offset%5 == 0 {
						<-time.After(3 * time.Millisecond) // its stretch goes to others
					}
					if m.Origin.Offset%7 == 3 {
						runtime.Goexit()
					}
					return Settled
				})
				eventually(t, "all is committed", func() bool { return w.committed()[0] == n })
				if j.count() != n || escaped.Load() != 100 {
					t.Errorf("%d calls, %d ended their goroutine; want %d and 100", j.count(), escaped.Load(), n)
				}
			})
		}
	}
}

func TestAHandleThatEndsItsGoroutineAndHasNobodyToSayWhatBecameOfItHoldsUpNoStop(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	w.produce(0, 10)
	called := make(chan struct{}, 10)
	r := w.run(w.byKey(), func(context.Context, *stepwell.Message, Ticket) Outcome {
		called <- struct{}{}
		runtime.Goexit()
		return Settled
	})
	<-called
	began := time.Now()
	r.end()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if at := w.committed()[0]; at > 0 {
		t.Errorf("committed %d", at)
	}
}
