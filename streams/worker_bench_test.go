package streams

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/crew"
	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/task"
)

// BenchmarkWorkerLoop is what a record costs between the client and the handler: window, message,
// settling.
func BenchmarkWorkerLoop(b *testing.B) {
	const batch = 1000
	handle := func(context.Context, *stepwell.Message, task.Ticket) task.Outcome { return task.Settled }
	r, err := New(Config{Stream: "orders", Group: Group{ID: "g"}, Topics: []string{"orders.v1"}}, handle)
	if err != nil {
		b.Fatal(err)
	}
	r.life = b.Context()
	r.parts.crew = crew.New(crew.Config{Handle: handle}) // without places: nobody helps
	p := newPartition(r.parts.shared, topicPartition{"orders.v1", 7})
	serve := r.parts.crew.Inline()
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
		for p.roster.More() {
			serve(p.roster)
		}
	}
	b.ReportMetric(batch, "records/op")
	if c, _ := p.dirty(ledger.MetadataLimit); c.At.Offset != offset {
		b.Fatalf("settled to %d of %d", c.At.Offset, offset)
	}
}
