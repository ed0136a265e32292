package streams

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// transactions produces to partition 0 in transactions of one producer; each returns when its
// records are stored, the transaction being open.
func (w *world) transactions() (begin func(n int), end func(how kgo.TransactionEndTry)) {
	w.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.seeds...), kgo.TransactionalID(w.group), kgo.DefaultProduceTopic(w.topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.Close)
	return func(n int) {
			w.t.Helper()
			if err := client.BeginTransaction(); err != nil {
				w.t.Fatal(err)
			}
			for range n {
				if err := client.ProduceSync(w.t.Context(), &kgo.Record{Value: []byte("v")}).FirstErr(); err != nil {
					w.t.Fatal(err)
				}
			}
		}, func(how kgo.TransactionEndTry) {
			w.t.Helper()
			if err := client.EndTransaction(w.t.Context(), how); err != nil {
				w.t.Fatal(err)
			}
		}
}

func TestRecordsOfAbortedTransactionsAreNotHandledAndCommitsGoPastThem(t *testing.T) {
	t.Parallel()
	each(t, 1, func(t *testing.T, w *world) {
		begin, end := w.transactions()
		begin(2)
		end(kgo.TryCommit) // offsets 0, 1, marker 2
		begin(3)
		end(kgo.TryAbort) // 3, 4, 5, 6
		begin(1)
		end(kgo.TryCommit) // 7, 8
		begin(3)
		end(kgo.TryAbort) // 9, 10, 11, 12: nothing else comes
		c, j := &counter{}, newJournal()
		cfg := w.config()
		cfg.Telemetry = c
		r := w.run(cfg, j.settleAll)
		eventually(t, "the end of the log is committed", func() bool { return w.committed()[0] == 13 })
		eventually(t, "no lag", func() bool { return r.Status().Lag == 0 })
		begin(2) // 13, 14
		w.produce(0, 1)
		eventually(t, "what waits for the transaction does not count as lag", func() bool { return r.Status().Lag == 0 && j.count() == 3 })
		end(kgo.TryCommit) // 15, 16
		eventually(t, "the rest is committed", func() bool { return w.committed()[0] == 17 })
		want := []int64{0, 1, 7, 13, 14, 15}
		if got := j.of(0); len(got) != len(want) || got[2] != 7 || got[5] != 15 {
			t.Errorf("calls of %v, not of %v", got, want)
		}
		if c.lost.Load() != 0 || c.consumed.Load() != 6 || c.duplicates.Load() != 0 {
			t.Errorf("%d consumed, %d lost, %d duplicates", c.consumed.Load(), c.lost.Load(), c.duplicates.Load())
		}
		if s := r.Status(); s.InFlight != 0 || s.InFlightBytes != 0 || s.Span != 0 {
			t.Errorf("in flight: %+v", s)
		}
	})
}

func TestRecordsOfOpenAndAbortedTransactionsAreHandledWhereThatIsAskedFor(t *testing.T) {
	t.Parallel()
	each(t, 1, func(t *testing.T, w *world) {
		begin, end := w.transactions()
		begin(3)
		end(kgo.TryAbort)
		begin(2)
		j := newJournal()
		cfg := w.config()
		cfg.ReadUncommitted = true
		w.run(cfg, j.settleAll)
		eventually(t, "all are handled and committed", func() bool { return j.count() == 5 && w.committed()[0] == 6 })
		end(kgo.TryAbort)
	})
}
