package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	watermillkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// bare is the baseline: what anybody writes who needs no more than this.
func bare(ctx context.Context, j job, m *meter) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(j.Kafka), kgo.ConsumerGroup(j.Group), kgo.ConsumeTopics(j.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return fmt.Errorf("kafka client: %w", err)
	}
	defer client.Close()
	handle := func(r *kgo.Record) { m.count(r.Partition, r.Offset) }
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

func kafkaGo(ctx context.Context, j job, m *meter) error {
	r := kafkago.NewReader(kafkago.ReaderConfig{
		Brokers: []string{j.Kafka}, GroupID: j.Group, Topic: j.Topic,
		StartOffset: kafkago.FirstOffset, CommitInterval: time.Second, MinBytes: 1, MaxBytes: 10 << 20,
	})
	defer r.Close()
	for {
		record, err := r.ReadMessage(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("read: %w", err)
		}
		m.count(int32(record.Partition), record.Offset)
	}
}

func watermillLoop(ctx context.Context, j job, m *meter) error {
	cfg := watermillkafka.DefaultSaramaSubscriberConfig()
	cfg.Consumer.Offsets.Initial = sarama.OffsetOldest
	s, err := watermillkafka.NewSubscriber(watermillkafka.SubscriberConfig{
		Brokers: []string{j.Kafka}, ConsumerGroup: j.Group, Unmarshaler: watermillkafka.DefaultMarshaler{}, OverwriteSaramaConfig: cfg,
	}, watermill.NopLogger{})
	if err != nil {
		return fmt.Errorf("subscriber: %w", err)
	}
	defer s.Close()
	messages, err := s.Subscribe(ctx, j.Topic)
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	for message := range messages {
		partition, ok := watermillkafka.MessagePartitionFromCtx(message.Context())
		offset, okToo := watermillkafka.MessagePartitionOffsetFromCtx(message.Context())
		if !ok || !okToo {
			return errors.New("a message without partition or offset")
		}
		m.count(partition, offset)
		message.Ack()
	}
	return nil
}
