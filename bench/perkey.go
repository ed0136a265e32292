package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// perKeyByHand is the program that somebody writes for whom partitions are not enough: a queue for
// each key.
func perKeyByHand(concurrency int) func(context.Context, job, *meter) error {
	return func(ctx context.Context, j job, all *meter) error {
		m := newSlowMeter(all, slowTime)
		defer m.note(concurrency)
		client, err := kgo.NewClient(kgo.SeedBrokers(j.Kafka), kgo.ConsumerGroup(j.ConsumerGroup), kgo.ConsumeTopics(j.Topic),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AutoCommitMarks())
		if err != nil {
			return fmt.Errorf("kafka client: %w", err)
		}
		defer client.Close()
		const window = 10_000
		k := &perKey{
			client: client, room: make(chan struct{}, window), ready: make(chan *keyQueue, window), // there are never more queues than records
			queues: map[string]*keyQueue{}, settled: map[int32]*prefix{},
		}
		running, ctx := errgroup.WithContext(ctx)
		for range concurrency {
			running.Go(func() error { return k.work(ctx, m) })
		}
		running.Go(func() error { return k.read(ctx) })
		return running.Wait()
	}
}

type perKey struct {
	client *kgo.Client
	room   chan struct{}  // an element for each record in flight
	ready  chan *keyQueue // those of which no record is being handled

	mu      sync.Mutex
	queues  map[string]*keyQueue
	settled map[int32]*prefix
}

// keyQueue exists while its key has records in flight.
type keyQueue struct {
	key     string
	records []*kgo.Record
}

// prefix is what may be committed of a partition.
type prefix struct {
	next int64
	done map[int64]bool // beyond it
}

func (p *prefix) settle(offset int64) (moved bool) {
	p.done[offset] = true
	for p.done[p.next] {
		delete(p.done, p.next)
		p.next++
		moved = true
	}
	return moved
}

func (k *perKey) read(ctx context.Context) error {
	for {
		fetches := k.client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("poll: %w", err)
		}
		for records := fetches.RecordIter(); !records.Done(); {
			select {
			case k.room <- struct{}{}:
				k.add(records.Next())
			case <-ctx.Done():
				return nil
			}
		}
	}
}

func (k *perKey) add(r *kgo.Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.settled[r.Partition] == nil {
		k.settled[r.Partition] = &prefix{next: r.Offset, done: map[int64]bool{}}
	}
	q, known := k.queues[string(r.Key)]
	if !known {
		q = &keyQueue{key: string(r.Key)}
		k.queues[q.key] = q
		defer func() { k.ready <- q }()
	}
	q.records = append(q.records, r)
}

func (k *perKey) work(ctx context.Context, m slowMeter) error {
	for {
		select {
		case q := <-k.ready:
			k.mu.Lock()
			r := q.records[0]
			k.mu.Unlock()
			m.handle(r.Partition, r.Offset, r.Key)
			k.done(q, r)
			<-k.room
		case <-ctx.Done():
			return nil
		}
	}
}

// done takes a record off its queue, and commits in the background what it was the last to hold up.
func (k *perKey) done(q *keyQueue, r *kgo.Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.settled[r.Partition]; p.settle(r.Offset) {
		k.client.MarkCommitOffsets(map[string]map[int32]kgo.EpochOffset{r.Topic: {r.Partition: {Epoch: r.LeaderEpoch, Offset: p.next}}})
	}
	if q.records = q.records[1:]; len(q.records) > 0 {
		k.ready <- q
		return
	}
	delete(k.queues, q.key)
}
