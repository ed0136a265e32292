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
