package streams

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
)

// liveHeap is what lives, in bytes. Tests that ask are not parallel.
func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC() // the first one empties pools by half
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

const (
	smallWindow = 8 << 20
	large       = 10_000
)

// produceLarge writes one small record to partition 0 and 90 large ones with keys of their own, to
// the others in turn if there are any.
func (w *world) produceLarge(round int, partitions int32) {
	w.t.Helper()
	records := []*kgo.Record{{Key: []byte("blocked"), Value: make([]byte, 100)}}
	for i := range 90 {
		of := int32(0)
		if partitions > 1 {
			of = 1 + int32(i)%(partitions-1)
		}
		records = append(records, &kgo.Record{Partition: of, Key: fmt.Append(nil, round, i), Value: make([]byte, large)})
	}
	w.send(records...)
}

// plain makes the world's client produce without compression: what a fetch brings of all partitions
// is then one piece of memory.
func (w *world) plain() {
	w.t.Helper()
	var err error
	w.client, err = kgo.NewClient(kgo.SeedBrokers(w.seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(w.client.Close)
}

// blockSmall is a handle that settles what is large and counts it; what is small waits until the
// end.
func blockSmall(settled *atomic.Int64, end <-chan struct{}) Handle {
	return func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		if len(m.Value) < large {
			<-end
			return task.Settled
		}
		settled.Add(1)
		return task.Settled
	}
}

// Fetches run ahead of the calls here, so that much of what is blocked is no message yet when it is
// found to hold too much.
func TestWhatWaitsAmongWhatWasFetchedAheadHoldsNoMoreMemoryThanTheWindowSays(t *testing.T) {
	const rounds = 400 // of 0.9 MB
	w := fakeWorld(t, 1)
	w.plain()
	for round := range rounds {
		w.produceLarge(round, 1)
	}
	cfg := w.config()
	cfg.Calls.Order, cfg.Window.Bytes = OrderKey, smallWindow
	var settled atomic.Int64
	end := make(chan struct{})
	r := w.run(cfg, blockSmall(&settled, end))
	eventually(t, "what is not blocked is settled", func() bool { return settled.Load() == 90*rounds && r.Status().InFlight == rounds })
	r.holdsNoMoreThanTheWindowSays(rounds, end)
}

// holdsNoMoreThanTheWindowSays compares what lives while so many records wait with what does after
// their end.
func (r *running) holdsNoMoreThanTheWindowSays(waiting int, end chan<- struct{}) {
	t := r.t
	t.Helper()
	held := liveHeap()
	close(end)
	eventually(t, "all is settled", func() bool { return r.Status().InFlight == 0 })
	if held -= liveHeap(); held > 2*smallWindow {
		t.Errorf("%d waiting records of 100 bytes hold %d KiB; the window has %d KiB", waiting, held>>10, smallWindow>>10)
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
}

func TestWhatWaitsWhileOthersPassHoldsNoMoreMemoryThanTheWindowSays(t *testing.T) {
	const rounds = 100 // of 0.9 MB
	for name, c := range map[string]struct {
		order      Order
		partitions int32
	}{
		"for its key":       {OrderKey, 1},
		"for its partition": {OrderPartition, 4},
	} {
		t.Run(name, func(t *testing.T) {
			w := fakeWorld(t, c.partitions)
			w.plain()
			cfg := w.config()
			cfg.Calls.Order, cfg.Window.Bytes, cfg.Kafka.Fetchers = c.order, smallWindow, 1
			cfg.Kafka.Options = append(cfg.Kafka.Options, kgo.FetchMinBytes(90*large), kgo.FetchMaxWait(time.Second))
			var settled atomic.Int64
			end := make(chan struct{})
			r := w.run(cfg, blockSmall(&settled, end))
			for round := range int64(rounds) { // each is one fetch
				w.produceLarge(int(round), c.partitions)
				eventually(t, "what is not blocked is settled", func() bool { return settled.Load() == 90*(round+1) })
				eventually(t, "what is blocked is read", func() bool { return r.Status().InFlight == round+1 })
			}
			r.holdsNoMoreThanTheWindowSays(rounds, end)
		})
	}
}
