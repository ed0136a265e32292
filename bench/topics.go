package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// topics are those of a real cluster, made when they are first needed and deleted with the group.
type topics struct {
	address, prefix string
	made            map[content]string
}

// content is what a topic has: exactly so many records, so that who reads them all has nothing else
// to do.
type content struct {
	feed    feed
	records int64
}

// open returns a topic that has so many records.
func (t *topics) open(ctx context.Context, f feed, records int64) (string, error) {
	if name, ok := t.made[content{f, records}]; ok {
		return name, nil
	}
	name := fmt.Sprintf("%s.%d", t.prefix, len(t.made))
	client, err := t.client(f, name)
	if err != nil {
		return "", err
	}
	defer client.Close()
	made, err := kadm.NewClient(client).CreateTopic(ctx, int32(f.Partitions), 1, nil, name)
	if err = errors.Join(err, made.Err); err != nil {
		return "", fmt.Errorf("create topic %s: %w", name, err)
	}
	t.made[content{f, records}] = name
	return name, fill(ctx, client, f, records)
}

func (t *topics) client(f feed, name string) (*kgo.Client, error) {
	codec := kgo.NoCompression()
	if f.Zstd {
		codec = kgo.ZstdCompression()
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(t.address), kgo.DefaultProduceTopic(name), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codec), kgo.MaxBufferedRecords(100_000))
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	return client, nil
}

// fill produces the records of a feed.
func fill(ctx context.Context, client *kgo.Client, f feed, records int64) error {
	value := make([]byte, f.ValueBytes)
	for i := range value {
		value[i] = byte('a' + i%26)
	}
	random := rand.NewChaCha8([32]byte{})
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	for i := range records {
		if f.Zstd {
			value = slices.Clone(value) // the client keeps the one before
			_, _ = random.Read(value[:f.ValueBytes/100])
		}
		r := &kgo.Record{Partition: int32(i % int64(f.Partitions)), Value: value, Key: keyOf(f, i)}
		if f.small(i / int64(f.Partitions)) {
			r.Value = value[:100]
		}
		client.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				fail(err)
			}
		})
	}
	if err := errors.Join(client.Flush(ctx), context.Cause(ctx)); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	return nil
}

func keyOf(f feed, i int64) []byte {
	if f.Keys == 0 {
		return nil
	}
	return binary.BigEndian.AppendUint32(nil, uint32(i%int64(f.Keys)))
}

// end deletes the topics and the groups that read them.
func (t *topics) end(ctx context.Context, groups []string) error {
	if len(t.made) == 0 {
		return nil
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(t.address))
	if err != nil {
		return fmt.Errorf("kafka client: %w", err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	_, _ = admin.DeleteGroups(ctx, groups...) // without members they expire anyway
	for c, name := range t.made {
		if _, err := admin.DeleteTopics(ctx, name); err != nil {
			return fmt.Errorf("delete topic %s: %w", name, err)
		}
		delete(t.made, c)
	}
	return nil
}
