package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/actor"
)

// bare is what anybody writes who needs no more than this: autocommit, the client's defaults.
func bare(ctx context.Context, j job, m *meter) error {
	return poll(ctx, j, func(r *kgo.Record) { m.inOrder(r.Partition, r.Offset) })
}

// bareTuned is the same loop with the fetches that the actor's reader comes to by itself, its pool
// of records, and the actor's garbage collection: what is left between the two is what the actor
// does.
func bareTuned(ctx context.Context, j job, m *meter) error {
	defer actor.TuneGC(slog.New(slog.DiscardHandler), windowBytes)()
	return poll(ctx, j, func(r *kgo.Record) {
		m.inOrder(r.Partition, r.Offset)
		r.Recycle()
	}, tuned(j)...)
}

// tuned are the fetches and the pool of records that the actor's reader has.
func tuned(j job) []kgo.Opt {
	const windowMessages, overhead = 10_000, 10 // of a record in its batch
	whole := int32(windowMessages * (j.Feed.ValueBytes + len(keyOf(j.Feed, 0)) + overhead))
	return []kgo.Opt{kgo.FetchMaxBytes(whole), kgo.FetchMaxPartitionBytes(whole / 2), kgo.FetchMaxWait(500 * time.Millisecond), kgo.WithPools(&recordPool{})}
}

func poll(ctx context.Context, j job, handle func(*kgo.Record), more ...kgo.Opt) error {
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(j.Kafka), kgo.ConsumerGroup(j.ConsumerGroup), kgo.ConsumeTopics(j.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}, more...)...)
	if err != nil {
		return fmt.Errorf("kafka client: %w", err)
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("poll: %w", err)
		}
		fetches.EachRecord(handle)
	}
}

// recordPool lends the client memory for records.
type recordPool struct{ free sync.Pool }

var _ kgo.PoolRecords = (*recordPool)(nil)

// GetRecords is called by the client for each batch.
func (p *recordPool) GetRecords(n int) []kgo.Record {
	if s, ok := p.free.Get().(*[]kgo.Record); ok && cap(*s) >= n {
		return *s
	}
	return make([]kgo.Record, n)
}

// PutRecords is called when all records of a batch are recycled.
func (p *recordPool) PutRecords(s []kgo.Record) { p.free.Put(&s) }
