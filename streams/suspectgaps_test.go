package streams

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/solo"
	"github.com/stepwell/stepwell/internal/task"
)

// hangingAt hangs with the record at that offset until the call is told to end, and settles others.
func hangingAt(offset int64) Handle {
	hang := untilTold(make(chan struct{}))
	return func(ctx context.Context, m *stepwell.Message, t task.Ticket) task.Outcome {
		if m.Origin.Offset == offset {
			return hang(ctx, m, t)
		}
		return task.Settled
	}
}

// How far beyond the last record more may be handed out is counted in offsets, of which compaction
// and aborted transactions leave some out.
func TestAGapInTheOffsetsBehindASlowCallHoldsUpNobody(t *testing.T) {
	for _, c := range []struct {
		deaths int
		gap    int64
	}{{killers - 1, 5}, {killers - 1, 40}, {killers - 1, 5000}, {1, 3000}} {
		t.Run(fmt.Sprintf("%d deaths, %d are missing", c.deaths, c.gap), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWard(t, 1, hangingAt(0), func(m *ledger.Mark) {
					if m.Deaths = c.deaths; c.deaths == 1 {
						m.SuspectsEnd = 0 // none is suspected yet
					}
				})
				w.stores()
				w.intake.receive(topicPartition{"t", 0}, records(c.gap, c.gap+3), [16]byte{1})
				w.stores() // fails where there is always more to commit
				w.called("behind the gap", 0, c.gap, c.gap+1, c.gap+2)
			})
		})
	}
}

func TestAnAbortedTransactionBehindASuspectThatHangsHoldsUpNobody(t *testing.T) {
	each(t, 1, func(t *testing.T, w *world) {
		w.produce(0, 1)
		begin, end := w.transactions()
		begin(40)
		end(kgo.TryAbort)
		w.produce(0, 20) // from offset 42 on
		w.suspected(1, func(*ledger.Mark) {})
		j := newJournal()
		var sent commitsSent
		cfg := w.guarded(&solo.Token{})
		cfg.Calls.Order = OrderNone
		cfg.Kafka.Options = append(cfg.Kafka.Options, kgo.WithHooks(&sent))
		r := w.run(cfg, hang(t, j, 1))
		eventually(t, "all but the suspect to be called, which hangs", func() bool { return j.count() == 21 })
		if n := sent.n.Load(); n > 50 {
			t.Errorf("it took %d commits", n)
		}
		r.kill(nil)
	})
}

// commitsSent counts the requests that commit offsets.
type commitsSent struct{ n atomic.Int64 }

func (c *commitsSent) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	const offsetCommit = 8
	if key == offsetCommit {
		c.n.Add(1)
	}
}

// As many may be handed out as the lead, less those that run: fewer run when a call begins to rest.
func TestCallsThatBeginToRestLetOthersBegin(t *testing.T) {
	for _, takes := range []time.Duration{0, 10 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			w := newWardOf(t, 32, 1, func(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
				time.Sleep(takes)
				tk.Rest(ctx, time.Hour, m)
				return task.Abandoned
			}, unchanged)
			w.intake.receive(topicPartition{"t", 0}, records(1, 101), [16]byte{1})
			w.until(101)
		})
	}
}

func TestABatchThatBeginsToRestLetsOthersBeGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gather := func(context.Context, *stepwell.Message, task.Ticket) task.Outcome { return task.Gathered }
		w := newWard(t, 1, gather, unchanged)
		w.intake.receive(topicPartition{"t", 0}, records(1, 101), [16]byte{1})
		rest := 0
		for range 20 {
			w.stores()
			time.Sleep(200 * time.Millisecond)
			for _, offset := range w.calls.of(0)[rest:] { // their call fails
				w.p.Rest(offset, time.Now().Add(time.Hour))
				rest++
			}
		}
		if rest != 101 {
			t.Errorf("%d of 101 were gathered, %d of them run", rest, w.p.suspects.busy())
		}
		w.p.Ended(w.calls.of(0), task.Abandoned)
	})
}

// until commits for a minute at most, until so many calls were begun.
func (w *ward) until(calls int) {
	w.t.Helper()
	for range 300 {
		if w.calls.count() == calls {
			return
		}
		w.stores()
		time.Sleep(200 * time.Millisecond)
	}
	w.t.Errorf("%d of %d were called, %d run", w.calls.count(), calls, w.p.suspects.busy())
}
