package streams

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
)

// each runs a test on the in-process cluster and on Apache Kafka.
func each(t *testing.T, partitions int32, test func(*testing.T, *world)) {
	t.Run("kfake", func(t *testing.T) {
		t.Parallel()
		test(t, fakeWorld(t, partitions))
	})
	t.Run("kafka", func(t *testing.T) {
		t.Parallel()
		test(t, realWorld(t, partitions))
	})
}

// settleSometime is a handle whose messages are settled at once, by the ticket before it returns, or some time later in any order.
func (l *ledger) settleSometime(seed uint64) Handle {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 1))
	draw := func() (int, time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(10), time.Duration(random.IntN(150)) * time.Millisecond
	}
	return func(_ context.Context, m *stepwell.Message, tk Ticket) Outcome {
		l.call(m)
		switch how, wait := draw(); how {
		case 0, 1:
			time.AfterFunc(wait, func() {
				if tk.Context().Err() == nil { // as a publisher does
					l.settle(m)
					tk.Settle()
				}
			})
			return Pending
		case 2:
			l.settle(m)
			tk.Settle()
			return Pending
		}
		l.settle(m)
		return Settled
	}
}

func TestACommitNeverPassesAMessageThatIsNotSettled(t *testing.T) {
	t.Parallel()
	each(t, 3, func(t *testing.T, w *world) {
		const n = 2000
		l := newLedger()
		defer l.watch(t, w)()
		r := w.run(w.config(), l.settleSometime(rand.Uint64()))
		for range 10 {
			for p := range int32(3) {
				w.produce(p, n/10)
			}
		}
		eventually(t, "all is settled", func() bool { return l.count() == 3*n })
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		for p, at := range w.committed() {
			if at != n {
				t.Errorf("partition %d is committed at %d", p, at)
			}
		}
		if l.repeats > 0 {
			t.Errorf("%d repeats without a rebalance", l.repeats)
		}
	})
}

func TestACommitLeavesOutWhatIsNoLongerOursWhenItIsSent(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 2)
	r := w.run(w.config(), newJournal().settleAll)
	eventually(t, "it is a member", func() bool { return r.Status().Partitions == 2 })
	offsets := map[string]map[int32]kgo.EpochOffset{}
	put(offsets, topicPartition{w.topic, 0}, position{70, -1})
	put(offsets, topicPartition{w.topic, 1}, position{80, -1})
	var stored []topicPartition
	ours := func(tp topicPartition) (string, bool) { return "", tp.partition == 1 }
	if err := r.commits.send(t.Context(), offsets, ours, func(tp topicPartition, err error) {
		if err == nil {
			stored = append(stored, tp)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if got := w.committed(); len(got) != 1 || got[1] != 80 || len(stored) != 1 {
		t.Fatalf("committed %v, reported %v", got, stored)
	}
	if err := r.commits.send(t.Context(), offsets, func(topicPartition) (string, bool) { return "", false }, nil); err != nil {
		t.Fatal(err)
	}
}

func TestInAStormOfRebalancesEveryRecordIsHandledAndCommitsOnlyGrow(t *testing.T) {
	t.Parallel()
	each(t, 6, func(t *testing.T, w *world) {
		const n = 1500
		l := newLedger()
		defer l.watch(t, w)()
		seed := rand.Uint64()
		t.Log("seed", seed)
		random := rand.New(rand.NewPCG(seed, 2))
		cfg := w.config()
		cfg.SessionTimeout, cfg.HeartbeatInterval = 6*time.Second, 300*time.Millisecond
		anchor := w.run(cfg, l.settleSometime(seed))
		var members []*running
		for round := range 8 {
			for p := range int32(6) {
				w.produce(p, n/8)
			}
			if len(members) > 0 && random.IntN(2) == 0 {
				i := random.IntN(len(members))
				if err := members[i].end(); err != nil {
					t.Error(err)
				}
				members = append(members[:i], members[i+1:]...)
			} else {
				members = append(members, w.run(cfg, l.settleSometime(seed+uint64(round))))
			}
			<-time.After(time.Duration(100+random.IntN(900)) * time.Millisecond)
		}
		eventually(t, "all is settled", func() bool { return l.count() == 6*(n/8*8) })
		for _, m := range append(members, anchor) {
			if err := m.end(); err != nil {
				t.Error(err)
			}
		}
		for p, at := range w.committed() {
			if at != n/8*8 {
				t.Errorf("partition %d is committed at %d", p, at)
			}
		}
	})
}
