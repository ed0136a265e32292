package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	watermillkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	kafkago "github.com/segmentio/kafka-go"
)

func kafkaGo(ctx context.Context, j job, m *meter) error {
	r := kafkago.NewReader(kafkago.ReaderConfig{
		Brokers: []string{j.Kafka}, GroupID: j.ConsumerGroup, Topic: j.Topic,
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
		m.inOrder(int32(record.Partition), record.Offset)
	}
}

func watermillLoop(ctx context.Context, j job, m *meter) error {
	s, err := watermillReader(j)
	if err != nil {
		return err
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
		m.inOrder(partition, offset)
		message.Ack()
	}
	return nil
}
