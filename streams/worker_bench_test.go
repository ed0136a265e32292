package streams

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
)

// BenchmarkWorkerLoop is what a record costs between the client and the handler: window, message, settling.
func BenchmarkWorkerLoop(b *testing.B) {
	const batch = 1000
	r, err := New(Config{Stream: "orders", Group: "g", Topics: []string{"orders.v1"}},
		func(context.Context, *stepwell.Message, Ticket) Outcome { return Settled })
	if err != nil {
		b.Fatal(err)
	}
	r.life = b.Context()
	p := newPartition(r, topicPartition{"orders.v1", 7})
	w := newWorker(newCrew(0, &r.workers))
	records := make([]*kgo.Record, batch)
	value := make([]byte, 100)
	for i := range records {
		records[i] = &kgo.Record{Topic: "orders.v1", Partition: 7, Key: value[:8], Value: value, Timestamp: time.Now()}
	}
	f := &kgo.FetchPartition{Records: records}
	var offset int64
	b.ReportAllocs()
	for b.Loop() {
		for _, rec := range records {
			rec.Offset = offset
			offset++
		}
		n, bytes := p.append(f, [16]byte{}, 0)
		r.load.add(n, bytes)
		for p.hasMore() {
			w.serve(p)
		}
	}
	b.ReportMetric(batch, "records/op")
	if c, _ := p.dirty(beyondLimit); c.at.offset != offset {
		b.Fatalf("settled to %d of %d", c.at.offset, offset)
	}
}
