package testbroker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
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

// AwaitTopic waits until brokers know the topic and who leads its partitions. That comes a moment after it was created, and a producer that is
// told too often that there is no such topic gives up.
func AwaitTopic(ctx context.Context, client *kgo.Client, topic string, partitions int32) error {
	const pause = 10 * time.Millisecond
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		known, err := kadm.NewClient(client).ListTopics(ctx, topic)
		if err == nil && isLed(known[topic], partitions) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for topic %s: %w", topic, errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}

func isLed(topic kadm.TopicDetail, partitions int32) bool {
	if topic.Err != nil || len(topic.Partitions) != int(partitions) {
		return false
	}
	for _, p := range topic.Partitions {
		if p.Err != nil || p.Leader < 0 {
			return false
		}
	}
	return true
}
