package testbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// MakeTopic creates a topic with as many replicas as the brokers make by default, and waits until it can be written to.
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

// AwaitTopic waits until a broker knows the topic and who leads its partitions. That comes a moment after it was created, and a producer that is
// told too often that there is no such topic gives up.
func AwaitTopic(ctx context.Context, client *kgo.Client, topic string, partitions int32) error {
	const pause = 10 * time.Millisecond
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		known, err := describe(ctx, client, topic)
		if err == nil && isLed(known, partitions) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for topic %s: %w", topic, errors.Join(ctx.Err(), err))
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
