package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	kfakeJob = "kfake"
	// batchRecords is how many records a batch of kfake has: about what a producer under load makes of such records.
	batchRecords = 1000
)

// serveKfake is the child that is the broker. It serves copies of one batch for ever, so that it needs little of the machine that the cases
// are measured on.
func serveKfake() error {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, kfakeTopic),
		kfake.SyntheticFetch(kfake.SyntheticBatch{Records: batchRecords, RecordBytes: valueBytes}))
	if err != nil {
		return fmt.Errorf("kfake: %w", err)
	}
	defer cluster.Close()
	if err := json.NewEncoder(os.Stdout).Encode(cluster.ListenAddrs()[0]); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin) // until the parent is done, or gone
	return err
}

const kfakeTopic = "records.v1"

// source is where a case reads from.
type source interface {
	// open returns an address and a topic that has enough records, for one case; closed is called after it.
	open(ctx context.Context) (address, topic string, closed func() error, err error)
	// end is called after the last case.
	end(ctx context.Context, groups []string) error
}

// fresh is a kfake process for each case.
type fresh struct{}

func (fresh) open(ctx context.Context) (address, topic string, closed func() error, err error) {
	p, err := spawn(ctx, job{Case: kfakeJob}, "GOGC=200")
	if err != nil {
		return "", "", nil, err
	}
	if err := p.read(&address); err != nil {
		_ = p.end() // what it said is the error
		return "", "", nil, fmt.Errorf("kfake: %w", err)
	}
	return address, kfakeTopic, p.end, nil
}

func (fresh) end(context.Context, []string) error { return nil }

// cluster is a real one, with one topic for all cases.
type cluster struct {
	address, topic string
	client         *kgo.Client
}

func newCluster(ctx context.Context, address, topic string, records int64) (*cluster, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0))
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	c := &cluster{address, topic, client}
	made, err := kadm.NewClient(client).CreateTopic(ctx, partitions, 1, nil, topic)
	if err == nil {
		err = made.Err
	}
	if err != nil {
		client.Close()
		return nil, fmt.Errorf("create topic %s: %w", topic, err)
	}
	return c, c.fill(ctx, records)
}

// fill produces a little more than records, since partitions are not read at the same pace.
func (c *cluster) fill(ctx context.Context, records int64) error {
	value := make([]byte, valueBytes)
	for i := range value {
		value[i] = byte('a' + i%26)
	}
	const chunk = 8000
	for sent := int64(0); sent < records+partitions*countStep; sent += chunk {
		batch := make([]*kgo.Record, chunk)
		for i := range batch {
			batch[i] = &kgo.Record{Partition: int32(i % partitions), Value: value}
		}
		if err := c.client.ProduceSync(ctx, batch...).FirstErr(); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
	}
	return nil
}

func (c *cluster) open(context.Context) (address, topic string, closed func() error, err error) {
	return c.address, c.topic, func() error { return nil }, nil
}

func (c *cluster) end(ctx context.Context, groups []string) error {
	defer c.client.Close()
	admin := kadm.NewClient(c.client)
	_, _ = admin.DeleteGroups(ctx, groups...) // without members they expire anyway
	if _, err := admin.DeleteTopics(ctx, c.topic); err != nil {
		return fmt.Errorf("delete topic %s: %w", c.topic, err)
	}
	return nil
}
