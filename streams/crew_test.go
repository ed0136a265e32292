package streams

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
)

// An idle worker is to hold nothing: one message keeps all that was fetched with it in memory.
func TestAnIdleWorkerKeepsNoMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = slabSize/2 + 3
		var seen []weak.Pointer[stepwell.Message]
		r, err := New(Config{Stream: "orders", Group: Group{ID: "g"}, Topics: []string{"orders.v1"}},
			func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
				seen = append(seen, weak.Make(m))
				return task.Settled
			})
		if err != nil {
			t.Fatal(err)
		}
		r.life = t.Context()
		p := newPartition(r.parts.shared, topicPartition{"orders.v1", 7})
		var records []*kgo.Record
		for offset := range int64(messages) {
			records = append(records, &kgo.Record{Topic: "orders.v1", Partition: 7, Offset: offset, Value: []byte("a value")})
		}
		p.append(&kgo.FetchPartition{Records: records}, [16]byte{}, 0)
		p.roster.Offer()
		synctest.Wait() // the worker has nothing to do
		runtime.GC()
		for i, m := range seen {
			if m.Value() != nil {
				t.Errorf("message %d of %d is kept", i, len(seen))
			}
		}
		if len(seen) != messages {
			t.Errorf("%d handled, want %d", len(seen), messages)
		}
		over, dismiss := context.WithCancel(t.Context())
		dismiss()
		r.crew.Run(over)
	})
}

// A stretch of one message had nothing behind it when it began, so that nobody watched it.
func TestWhatIsFetchedDuringASlowCallOfAnotherKeyDoesNotWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, second := make(chan struct{}), make(chan struct{})
		r, err := New(Config{Stream: "orders", Group: Group{ID: "g"}, Topics: []string{"orders.v1"}, Calls: Calls{Concurrency: 2, Order: OrderKey}},
			func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
				if m.Origin.Offset == 0 {
					<-release
				} else {
					close(second)
				}
				return task.Settled
			})
		if err != nil {
			t.Fatal(err)
		}
		r.life = t.Context()
		p := newPartition(r.parts.shared, topicPartition{"orders.v1", 7})
		fetched := func(offset int64) {
			p.append(&kgo.FetchPartition{Records: []*kgo.Record{{Topic: "orders.v1", Partition: 7, Offset: offset, Key: []byte{byte(offset)}}}}, [16]byte{}, 0)
			p.roster.Offer()
		}
		over, dismiss := context.WithCancel(t.Context())
		var crew sync.WaitGroup
		crew.Go(func() { r.crew.Run(over) })
		time.Sleep(time.Second) // the watch sleeps
		fetched(0)
		synctest.Wait()
		fetched(1)
		select {
		case <-second:
		case <-time.After(time.Second):
			t.Error("the second waits for the first")
		}
		close(release)
		synctest.Wait()
		dismiss()
		crew.Wait()
	})
}
