package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
)

// recordFetch is how much a client that wants one record asks for; a broker sends a larger batch
// whole.
const recordFetch = 64 << 10

// ReadRecord reads the record at one position, with a client of its own that is closed when it
// returns; kafka are the options that lead to the cluster. found is false, without an error, where
// Kafka has no such record: it was deleted or compacted away, or its topic was. ctx bounds the wait
// for a cluster that cannot be reached.
func ReadRecord(ctx context.Context, kafka []kgo.Opt, at stepwell.Origin) (m stepwell.Message, found bool, err error) {
	client, err := kgo.NewClient(append(slices.Clone(kafka), kgo.WithContext(ctx), // a dial would wait longer otherwise
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.KeepControlRecords(), // never another record in its place
		kgo.FetchMaxBytes(recordFetch), kgo.FetchMaxPartitionBytes(recordFetch), kgo.MaxConcurrentFetches(1),
	)...)
	if err != nil {
		return m, false, fmt.Errorf("kafka client: %w", err)
	}
	defer client.Close()
	found, err = inLog(ctx, kadm.NewClient(client), at)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	if !found || err != nil {
		return m, false, err
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{at.Topic: {at.Partition: kgo.NewOffset().At(at.Offset)}})
	for {
		fetches := client.PollRecords(ctx, 1)
		for _, r := range fetches.Records() {
			if r.Offset != at.Offset || r.Attrs.IsControl() {
				return m, false, nil
			}
			var s slab
			return s.messages([]*kgo.Record{r})[0], true, nil
		}
		err := fetches.Err()
		if gone(err) {
			return m, false, nil
		}
		again := err == nil || kerr.IsRetriable(err) && task.Sleep(ctx, backoff(1)) // some errors come at once, again and again
		if !again || ctx.Err() != nil {
			return m, false, fmt.Errorf("read %s/%d at %d: %w", at.Topic, at.Partition, at.Offset, errors.Join(err, ctx.Err()))
		}
	}
}

// inLog says whether the offset lies in the log. A read at its end would wait for what is produced
// next.
func inLog(ctx context.Context, admin *kadm.Client, at stepwell.Origin) (bool, error) {
	start, ok, err := listed(ctx, admin.ListStartOffsets, at)
	if err != nil || !ok || at.Offset < start {
		return false, err
	}
	end, ok, err := listed(ctx, admin.ListEndOffsets, at)
	return ok && at.Offset < end, err
}

type lister func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error)

// listed is what the lister says of the position's partition; false where there is no such
// partition.
func listed(ctx context.Context, list lister, at stepwell.Origin) (int64, bool, error) {
	all, err := list(ctx, at.Topic)
	if err == nil {
		err = all.Error()
	}
	o, ok := all.Lookup(at.Topic, at.Partition)
	switch {
	case ok && o.Err == nil:
		return o.Offset, true, nil
	case ok && !gone(o.Err):
		err = o.Err
	case gone(err), err == nil:
		return 0, false, nil
	}
	return 0, false, fmt.Errorf("find %s/%d in Kafka: %w", at.Topic, at.Partition, err)
}

// gone says that what was asked for is not there.
func gone(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.OffsetOutOfRange)
}
