package streams

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/task"
)

// reads makes a partition of topic t the lone reader's, and gives it n records.
func (r *Reader) reads(t *testing.T, partition int32, n int64) {
	t.Helper()
	tp := topicPartition{"t", partition}
	r.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {partition}})
	r.parts.lookup(tp).begin(ledger.At(0, 0), false)
	f := records(0, n)
	f.LastStableOffset = n
	for _, record := range f.Records {
		record.Partition = partition
	}
	r.fetched(tp, f, nil)
}

func TestTheStatusTellsWhatRestsUntilWhenAndWhatWaitsBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := lone(t, func(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
			if m.Origin.Partition == 1 && m.Origin.Offset == 2 && !tk.Rest(ctx, time.Hour, m) {
				return task.Abandoned
			}
			return task.Settled
		})
		r.reads(t, 0, 3)
		r.reads(t, 1, 7)
		synctest.Wait()
		want := Oldest{Topic: "t", Partition: 1, Offset: 2, Since: time.Now(), Behind: 4, NextTry: time.Now().Add(time.Hour)}
		s := r.Status()
		if s.Oldest == nil || *s.Oldest != want {
			t.Errorf("it holds the window: %+v, want %+v", s.Oldest, want)
		}
		if s.Partitions != 2 || s.Resting != 1 || s.Waiting != 4 || s.InFlight != 5 || s.Span != 5 || s.Lag != 5 {
			t.Errorf("it rests: %+v", s)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if s := r.Status(); s.Oldest != nil || s.Resting != 0 || s.Waiting != 0 || s.InFlight != 0 || s.Span != 0 || s.Lag != 0 {
			t.Errorf("it was tried again: %+v", s)
		}
	})
}

func TestOfTheRecordsThatHoldPartitionsTheStatusNamesTheOneThatDoesForLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tell := make(chan struct{})
		r, _ := lone(t, untilTold(tell))
		for partition := range int32(5) {
			r.reads(t, (partition+3)%5, 1)
			synctest.Wait()
			if o := r.Status().Oldest; o == nil || o.Partition != 3 || !o.NextTry.IsZero() {
				t.Errorf("of %d that run: %+v", partition+1, o)
			}
			time.Sleep(time.Minute)
		}
		close(tell)
		synctest.Wait()
		if o := r.Status().Oldest; o != nil {
			t.Errorf("all are settled, and it names %+v", o)
		}
	})
}

func TestTheLagIsToldOfEachPartitionAndOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := lone(t, untilTold(nil))
		r.reads(t, 0, 0)
		r.reads(t, 1, 3)
		r.reads(t, 2, 5)
		lags := r.Lags()
		slices.SortFunc(lags, func(a, b PartitionLag) int { return cmp.Compare(a.Partition, b.Partition) })
		if want := []PartitionLag{{"t", 0, 0}, {"t", 1, 3}, {"t", 2, 5}}; !slices.Equal(lags, want) {
			t.Errorf("of each: %v, want %v", lags, want)
		}
		if all := r.Status().Lag; all != 8 {
			t.Errorf("of all: %d", all)
		}
	})
}

func TestTheStatusNamesASuspectOfWhicheverPartitionRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 2, untilTold(nil), unchanged)
		for partition := range int32(4) {
			w.reads(t, partition+1, 0)
		}
		w.stores()
		w.suspects("of five partitions one has suspects", 2, "t:0:0")
	})
}
