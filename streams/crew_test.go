package streams

import (
	"context"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
)

// An idle worker is to hold nothing: one message keeps all that was fetched with it in memory.
func TestAnIdleWorkerKeepsNoMessage(t *testing.T) {
	const messages = stretchSize/2 + 3
	var seen []weak.Pointer[stepwell.Message]
	r, err := New(Config{Stream: "orders", Group: "g", Topics: []string{"orders.v1"}},
		func(_ context.Context, m *stepwell.Message, _ Ticket) Outcome {
			seen = append(seen, weak.Make(m))
			return Settled
		})
	if err != nil {
		t.Fatal(err)
	}
	r.life = t.Context()
	p := newPartition(r, topicPartition{"orders.v1", 7})
	var records []*kgo.Record
	for offset := range int64(messages) {
		records = append(records, &kgo.Record{Topic: "orders.v1", Partition: 7, Offset: offset, Value: []byte("a value")})
	}
	p.append(&kgo.FetchPartition{Records: records}, [16]byte{}, 0)
	c := r.crew
	c.offer(p)
	within(t, 2*time.Second, "the worker has nothing to do", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.asleep) == 1 && p.window.Len() == 0
	})
	runtime.GC()
	for i, m := range seen {
		if m.Value() != nil {
			t.Errorf("message %d of %d is kept", i, len(seen))
		}
	}
	if len(seen) != messages {
		t.Errorf("%d handled, want %d", len(seen), messages)
	}
	c.close()
	r.workers.Wait()
}
