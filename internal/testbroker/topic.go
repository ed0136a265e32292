package testbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// MakeTopic creates a topic with as many replicas as the brokers make by default, and waits until
// it can be written to.
func MakeTopic(ctx context.Context, client *kgo.Client, topic string, partitions int32, configs map[string]*string) error {
	made, err := kadm.NewClient(client).CreateTopic(ctx, partitions, -1, configs, topic)
	if err == nil {
		err = made.Err
	}
	if err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	return AwaitTopic(ctx, client, topic, partitions)
}

// RemakeTopic deletes a topic and makes it anew, and waits until the new log of each partition
// answers. A broker knows the new topic a moment before it has changed its logs: until then the old
// log takes what is written, and a record that the broker acknowledges goes with it. It is told by
// its end, so all partitions that are written to afterwards must have had records.
func RemakeTopic(ctx context.Context, client *kgo.Client, topic string, partitions int32) error {
	admin := kadm.NewClient(client)
	if _, err := admin.DeleteTopic(ctx, topic); err != nil {
		return fmt.Errorf("delete topic %s: %w", topic, err)
	}
	return poll(ctx, "topic "+topic+" made anew", func() error {
		made, err := admin.CreateTopic(ctx, partitions, -1, nil, topic)
		if err = errors.Join(err, made.Err); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return err
		}
		return areNew(ctx, admin, topic, partitions)
	})
}

// areNew returns what speaks against the logs being empty.
func areNew(ctx context.Context, admin *kadm.Client, topic string, partitions int32) error {
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err = errors.Join(err, ends.Error()); err != nil {
		return err
	}
	if known := len(ends[topic]); known != int(partitions) {
		return fmt.Errorf("%d partitions", known)
	}
	for id, end := range ends[topic] {
		if end.Offset != 0 {
			return fmt.Errorf("the log of partition %d ends at %d", id, end.Offset)
		}
	}
	return nil
}

// AwaitTopic waits until a broker knows the topic and who leads its partitions. That comes a moment
// after it was created, and a producer that is told too often that there is no such topic gives up.
func AwaitTopic(ctx context.Context, client *kgo.Client, topic string, partitions int32) error {
	return poll(ctx, "topic "+topic, func() error {
		known, err := describe(ctx, client, topic)
		if err == nil && !isLed(known, partitions) {
			err = errors.New("not all partitions have a leader")
		}
		return err
	})
}

// poll waits for a try that returns no error.
func poll(ctx context.Context, what string, try func() error) error {
	const pause = 10 * time.Millisecond
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}

// describe asks a broker, and not what the client remembers.
func describe(ctx context.Context, client *kgo.Client, name string) (topic kmsg.MetadataResponseTopic, err error) {
	wanted := kmsg.NewMetadataRequestTopic()
	wanted.Topic = kmsg.StringPtr(name)
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = append(req.Topics, wanted)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return topic, err
	}
	if len(resp.Topics) != 1 {
		return topic, fmt.Errorf("an answer about %d topics", len(resp.Topics))
	}
	return resp.Topics[0], nil
}

func isLed(topic kmsg.MetadataResponseTopic, partitions int32) bool {
	return topic.ErrorCode == 0 && len(topic.Partitions) == int(partitions) &&
		!slices.ContainsFunc(topic.Partitions, func(p kmsg.MetadataResponseTopicPartition) bool { return p.ErrorCode != 0 || p.Leader < 0 })
}
