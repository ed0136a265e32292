package main

import (
	"context"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

const batchText = `Handlers that take many messages in one call. *polls* is a loop of franz-go that hands each poll whole to a function and commits by itself, with the fetches, the pool of records and the
garbage collection that the actor has; it keeps no lanes, no window and no mark of what runs when the process dies. In the cases of 5 ms a function, or batch, of at most 500 messages takes that long.
In the last two a call takes 1 ms, with one message or with 500. Eight partitions of kfake, without keys, but for those two and *kafka-…*, which read a real cluster with 1000 keys.`

const (
	batchSize  = 500
	batchTime  = 5 * time.Millisecond
	singleTime = time.Millisecond
)

func batchGroup() group {
	fast := feed{Synthetic: true, Partitions: 8, ValueBytes: 100}
	keyed := feed{Partitions: 8, ValueBytes: 100, Keys: 1000}
	return group{name: "batch", title: "Batches", text: batchText, columns: usual(), cases: []benchCase{
		{name: "polls", what: "poll loop, whole polls to a function", feed: fast, share: 2, run: wholePolls(0, 0)},
		{
			name: "batch", what: "actor, Batch of 500 that counts", base: "polls", feed: fast, share: 2,
			bars: []bar{atLeast(0.7, ofBase())}, run: inBatches(0),
		},
		{name: "kafka-polls", what: "poll loop, whole polls to a function; a real cluster", feed: keyed, share: 1.25, run: wholePolls(0, 0)},
		{
			name: "kafka-batch", what: "actor, Batch of 500 that counts, BATCH_WAIT=10ms; a real cluster", base: "kafka-polls", feed: keyed, share: 1.25,
			bars: []bar{atLeast(0.7, ofBase())}, run: inBatches(0, "BATCH_WAIT=10ms"), // the last batch waits for others as well
		},
		{name: "polls-5ms", what: "poll loop, 500 records to a function that takes 5 ms", feed: fast, share: 0.1, run: wholePolls(batchSize, batchTime)},
		{
			name: "batch-5ms", what: "actor, Batch of 500 that takes 5 ms", base: "polls-5ms", feed: fast, share: 0.1,
			bars: []bar{atLeast(0.95, ofBase())}, run: inBatches(batchTime),
		},
		{name: "single-1ms", what: "actor, a handler that takes 1 ms for each message, CONCURRENCY=16", feed: keyed, share: 0.02, run: oneByOne(singleTime)},
		{name: "batch-1ms", what: "actor, a Batch that takes 1 ms for 500, CONCURRENCY=1", base: "single-1ms", feed: keyed, share: 0.5, run: inBatches(singleTime)},
	}}
}

// wholePolls hands what a poll brings, at most so many records (0: any), to a function.
func wholePolls(most int, takes time.Duration) func(context.Context, job, *meter) error {
	return func(ctx context.Context, j job, m *meter) error {
		defer actor.TuneGC(slog.New(slog.DiscardHandler), windowBytes)()
		client, err := kgo.NewClient(append(tuned(j), kgo.SeedBrokers(j.Kafka), kgo.ConsumerGroup(j.ConsumerGroup), kgo.ConsumeTopics(j.Topic),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
		if err != nil {
			return fmt.Errorf("kafka client: %w", err)
		}
		defer client.Close()
		for {
			fetches := client.PollRecords(ctx, most)
			if ctx.Err() != nil {
				return nil
			}
			if err := fetches.Err(); err != nil {
				return fmt.Errorf("poll: %w", err)
			}
			records := fetches.Records()
			for _, r := range records {
				m.inOrder(r.Partition, r.Offset)
				r.Recycle()
			}
			pause(takes)
		}
	}
}

// inBatches is an actor whose batches take so long.
func inBatches(takes time.Duration, settings ...string) func(context.Context, job, *meter) error {
	return func(ctx context.Context, j job, m *meter) error {
		return runStream(ctx, j, actor.Stream{Batch: func(_ context.Context, b *stepwell.Batch) error {
			for _, msg := range b.Messages() {
				m.inOrder(msg.Origin.Partition, msg.Origin.Offset)
			}
			pause(takes)
			return nil
		}}, append(settings, "RETRY_ENABLED=false", fmt.Sprintf("BATCH_SIZE=%d", batchSize))...)
	}
}

// oneByOne is an actor whose calls take so long.
func oneByOne(takes time.Duration) func(context.Context, job, *meter) error {
	return func(ctx context.Context, j job, m *meter) error {
		return runActor(ctx, j, func(_ context.Context, msg *stepwell.Message) error {
			pause(takes)
			m.ordered(msg.Origin.Partition, msg.Origin.Offset)
			m.once(msg.Origin.Partition, msg.Origin.Offset)
			return nil
		}, "RETRY_ENABLED=false")
	}
}

// pause is the work of a call. It sleeps in the kernel: a sleep by Go's timers takes up to a tenth
// longer in a process in which other timers fire, which no call to a database does.
func pause(d time.Duration) {
	if d > 0 {
		of := syscall.NsecToTimespec(int64(d))
		_ = syscall.Nanosleep(&of, nil) // a signal may end it early
	}
}
