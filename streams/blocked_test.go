package streams

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/task"
)

// deaf is a handle whose first call of a partition heeds nothing until release is closed.
type deaf struct {
	*journal
	partition       int32
	inside, release chan struct{}
}

func newDeaf(of int32) *deaf {
	return &deaf{journal: newJournal(), partition: of, inside: make(chan struct{}, 1), release: make(chan struct{})}
}

func (d *deaf) handle(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
	if m.Origin.Partition == d.partition {
		select {
		case d.inside <- struct{}{}:
			<-d.release
			return task.Abandoned
		default:
		}
	}
	return d.settleAll(ctx, m, tk)
}

func TestAPartitionThatWaitsForACallOfBeforeHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]int32{"read by the group's member": 0, "read by another client": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, d := fakeWorld(t, 2), newDeaf(of)
			w.produce(of, 1)
			cfg := w.byKey()
			cfg.Kafka.Fetchers, cfg.Window.Messages, cfg.Group.HeartbeatInterval = 2, 100, 200*time.Millisecond
			r := w.run(cfg, d.handle)
			eventually(t, "the call that heeds nothing", func() bool { return r.Status().Partitions == 2 && len(d.inside) == 1 })
			w.expel(r)
			eventually(t, "all is lost", func() bool { return r.Status().Partitions == 0 })
			eventually(t, "all is back", func() bool { return r.Status().Partitions == 2 })
			p := r.parts.lookup(topicPartition{w.topic, of})
			if p.fetcher != r.clients.all[of] {
				t.Fatal("another client reads it")
			}
			w.produce(of, 500)
			eventually(t, "it rests", func() bool { return slices.Contains(p.fetcher.client.PauseFetchPartitions(nil)[w.topic], of) })
			w.produce(1-of, 500)
			eventually(t, "the other partition is handled", func() bool { return len(d.of(1-of)) == 500 })
			if n := len(d.of(of)); n > 0 {
				t.Errorf("%d calls beside that of before", n)
			}
			close(d.release)
			eventually(t, "all is committed", func() bool { c := w.committed(); return c[of] == 501 && c[1-of] == 500 })
			if got := d.of(of); len(got) != 501 {
				t.Errorf("%d calls of 501 records", len(got))
			}
		})
	}
}

func TestWhatIsReadAfterACutEntersTheWindowOnceTheCallsOfBeforeHaveEnded(t *testing.T) {
	t.Parallel()
	d := newDeaf(0)
	r, tp := lone(t, d.handle)
	r.clients.all[0] = newFetcher(true)
	r.clients.all[0].client = lonely(t)
	r.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {tp.partition}})
	r.parts.lookup(tp).begin(ledger.At(0, 0), false)
	r.fetched(tp, records(0, 2), nil)
	eventually(t, "the call that heeds nothing", func() bool { return len(d.inside) == 1 })
	r.wasCut(tp, 1)
	f := records(0, 9)
	f.LastStableOffset = 9
	r.fetched(tp, f, nil)
	if s := r.Status(); s.InFlight != 0 || s.Lag != 9 {
		t.Errorf("before the call has ended: %d in flight, a lag of %d", s.InFlight, s.Lag)
	}
	close(d.release)
	eventually(t, "it waits no more", func() bool { return !isBlocked(r.parts.lookup(tp)) })
	r.fetched(tp, records(0, 9), nil)
	eventually(t, "all is handled", func() bool { return slices.Equal(d.of(0), []int64{0, 1, 2, 3, 4, 5, 6, 7, 8}) })
}
