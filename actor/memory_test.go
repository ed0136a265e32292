package actor_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/internal/rabbit"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/retry"
	"github.com/stepwell/stepwell/streams"
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
	rounds      = 100 // of 0.9 MB
)

// produceFewBad writes rounds of one small record, which is to fail, and 90 large ones.
func (w *world) produceFewBad() {
	w.t.Helper()
	for range rounds {
		records := []*kgo.Record{{Partition: 0, Key: []byte("k"), Value: make([]byte, 100)}}
		for range 90 {
			records = append(records, &kgo.Record{Partition: 0, Key: []byte("k"), Value: make([]byte, large)})
		}
		w.produce(records...)
	}
}

func TestFailuresThatWaitForRabbitMQHoldNoMoreMemoryThanTheWindowSays(t *testing.T) {
	w := embeddedWorld(t)
	w.produceFewBad()
	kafka, err := w.brokers.Kafka(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	away := rabbit.New(rabbit.Config{URLs: []string{"amqp://127.0.0.1:1/"}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- away.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	retrier, err := retry.New(retry.Config{App: w.app, Stream: "orders", Delays: retry.Linear(1000, 0, 3), Broker: away})
	if err != nil {
		t.Fatal(err)
	}
	before := liveHeap()
	var settled atomic.Int64
	reader, err := streams.New(streams.Config{
		Stream: "orders", Topics: []string{w.topic}, Kafka: streams.Kafka{Options: kafka}, Group: streams.Group{ID: w.app},
		Window: streams.Window{Bytes: smallWindow}, Calls: streams.Calls{Order: streams.OrderNone},
	}, func(_ context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
		if len(m.Value) == large {
			settled.Add(1)
			return task.Settled
		}
		retrier.Fail(tk.Context(), m, nil, retry.Failure{Err: errors.New("no")}, func(err error) {
			if err == nil {
				tk.Settle()
			}
		})
		return task.Pending
	})
	if err != nil {
		t.Fatal(err)
	}
	stop, end := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- reader.Run(stop, stop) }()
	eventually(t, "all that is large is settled", func() bool { return settled.Load() == 90*rounds })
	eventually(t, "what fails waits", func() bool { return reader.Status().InFlight == rounds })
	if grown := liveHeap() - before; grown > 2*smallWindow {
		t.Errorf("%d bytes in flight hold %d KiB of memory; the window has %d KiB", reader.Status().InFlightBytes, grown>>10, smallWindow>>10)
	} else {
		t.Logf("%d KiB for %d bytes", grown>>10, reader.Status().InFlightBytes)
	}
	end()
	if err := <-over; err != nil {
		t.Error(err)
	}
}

func TestWhatIsTriedInPlaceHoldsNoMoreMemoryThanTheWindowSays(t *testing.T) {
	for name, env := range map[string]settings{
		"for ever": {"RETRY_ENABLED": "false"}, "for a while": {"RETRY_IN_PLACE": "all", "RETRY_DELAY": "15m"},
	} {
		t.Run(name, func(t *testing.T) { triedInPlace(t, env) })
	}
}

func triedInPlace(t *testing.T, env settings) {
	w := embeddedWorld(t)
	w.produceFewBad()
	before := liveHeap()
	var settled atomic.Int64
	r := w.start(actor.App{Name: w.app, Streams: map[string]actor.Stream{"orders": {Handler: func(_ context.Context, m *stepwell.Message) error {
		if len(m.Value) == large {
			settled.Add(1)
			return nil
		}
		return errors.New("no")
	}}}}, settings{"ORDER": "none", "WINDOW_BYTES": strconv.Itoa(smallWindow)}.with(env))
	eventually(t, "all that is large is settled", func() bool { return settled.Load() == 90*rounds })
	eventually(t, "what fails rests", func() bool { return r.inFlight() == rounds })
	if grown := liveHeap() - before; grown > 2*smallWindow {
		t.Errorf("%d messages hold %d KiB of memory; the window has %d KiB", rounds, grown>>10, smallWindow>>10)
	} else {
		t.Logf("%d KiB", grown>>10)
	}
	r.end()
}

func TestWhatRestsInABatchHoldsNoMoreMemoryThanTheWindowSays(t *testing.T) {
	w := embeddedWorld(t)
	w.produceFewBad()
	before := liveHeap()
	var settled atomic.Int64
	r := w.start(batched(func(_ context.Context, b *stepwell.Batch) error {
		for _, m := range b.Messages() {
			if len(m.Value) == large {
				settled.Add(1)
			} else {
				b.Fail(m, errors.New("no"))
			}
		}
		return nil
	}), settings{
		"ORDER": "none", "CONCURRENCY": strconv.Itoa(rounds + 10), "BATCH_SIZE": "20", "BATCH_WAIT": "10ms",
		"RETRY_ENABLED": "false", "RETRY_DELAY": "30s", "WINDOW_BYTES": strconv.Itoa(smallWindow),
	})
	eventually(t, "all that is large is settled", func() bool { return settled.Load() == 90*rounds })
	eventually(t, "what fails rests", func() bool { return r.inFlight() == rounds })
	r.holdsLittle(before)
	r.end()
}

// holdsLittle is for when few small messages are in flight.
func (r *running) holdsLittle(before int64) {
	r.t.Helper()
	if grown := liveHeap() - before; grown > 2*smallWindow {
		r.t.Errorf("%d messages hold %d KiB of memory; the window has %d KiB", r.inFlight(), grown>>10, smallWindow>>10)
	} else {
		r.t.Logf("%d KiB", grown>>10)
	}
}

// toPartition0 has records be written to partition 0 whatever their keys.
func (w *world) toPartition0() {
	w.t.Helper()
	opts, err := w.brokers.Kafka(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.client, err = kgo.NewClient(append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(w.client.Close)
}

func TestWhatWaitsForABatchHoldsNoMoreMemoryThanTheWindowSays(t *testing.T) {
	w := embeddedWorld(t)
	var settled atomic.Int64
	beside, free := make(chan []*stepwell.Message, 1), make(chan struct{})
	r := w.start(batched(func(ctx context.Context, b *stepwell.Batch) error {
		for _, m := range b.Messages() {
			if len(m.Value) == large {
				settled.Add(1)
			}
		}
		if first := b.Messages()[0]; len(first.Value) < large {
			select {
			case beside <- b.Messages():
			default:
			}
			select {
			case <-free:
			case <-ctx.Done():
			}
		}
		return nil
	}), settings{"CONCURRENCY": "8", "BATCH_SIZE": "300", "BATCH_WAIT": "200ms", "WINDOW_BYTES": strconv.Itoa(smallWindow)})
	small := func() *kgo.Record { return &kgo.Record{Key: []byte("hangs"), Value: make([]byte, 100)} }
	// Which keys are in the lane that hangs nobody can say before.
	keys := map[string]bool{}
	first := []*kgo.Record{small()}
	for i := range 50 {
		key := strconv.Itoa(i)
		keys[key] = true
		first = append(first, &kgo.Record{Key: []byte(key), Value: make([]byte, large)})
	}
	w.toPartition0()
	w.produce(first...)
	for _, m := range <-beside {
		delete(keys, string(m.Key))
	}
	eventually(t, "what is beside it is settled", func() bool { return settled.Load() == 50 })
	var key []byte
	for k := range keys {
		key = []byte(k)
	}
	before := liveHeap()
	for range rounds {
		records := []*kgo.Record{small()}
		for range 90 {
			records = append(records, &kgo.Record{Key: key, Value: make([]byte, large)})
		}
		w.produce(records...)
	}
	eventually(t, "all that is large is settled", func() bool { return settled.Load() == 50+90*rounds })
	r.holdsLittle(before)
	close(free)
	r.end()
}
