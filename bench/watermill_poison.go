package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	watermillamqp "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	watermillkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	amqp "github.com/rabbitmq/amqp091-go"
)

// poisonQueue is a router of watermill: what fails goes through its middleware PoisonQueue to
// RabbitMQ, confirmed, and a second handler tries what lies there, at once, since there is no
// delay.
func poisonQueue(every int64) func(context.Context, job, *meter) error {
	return func(ctx context.Context, j job, m *meter) (err error) {
		q, err := openQueues(j, retryDelay)
		if err != nil {
			return err
		}
		q.delay, q.deadSet = q.instant, q.instant // it has one queue only
		defer func() { err = errors.Join(err, q.delete()) }()
		router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
		if err != nil {
			return fmt.Errorf("router: %w", err)
		}
		kafka, err := watermillReader(j)
		if err != nil {
			return err
		}
		cfg := watermillamqp.NewDurableQueueConfig(q.url)
		cfg.Queue.Arguments = amqp.Table{"x-queue-type": "quorum"}
		cfg.Publish.ConfirmDelivery, cfg.Publish.Mandatory, cfg.Publish.ChannelPoolSize = true, true, 8
		cfg.Consume.Qos.PrefetchCount = handPrefetch
		publisher, err := watermillamqp.NewPublisher(cfg, watermill.NopLogger{})
		if err != nil {
			return fmt.Errorf("publisher: %w", err)
		}
		defer publisher.Close()
		subscriber, err := watermillamqp.NewSubscriber(cfg, watermill.NopLogger{})
		if err != nil {
			return fmt.Errorf("subscriber: %w", err)
		}
		poison, err := middleware.PoisonQueue(publisher, q.instant)
		if err != nil {
			return fmt.Errorf("poison queue: %w", err)
		}
		router.AddNoPublisherHandler("first", j.Topic, kafka, firstTryOf(every, m)).AddMiddleware(poison)
		router.AddNoPublisherHandler("second", q.instant, subscriber, secondTryOf(m))
		return router.Run(ctx)
	}
}

func firstTryOf(every int64, m *meter) message.NoPublishHandlerFunc {
	return func(msg *message.Message) error {
		partition, ok := watermillkafka.MessagePartitionFromCtx(msg.Context())
		offset, okToo := watermillkafka.MessagePartitionOffsetFromCtx(msg.Context())
		if !ok || !okToo {
			return errors.New("a message without partition or offset")
		}
		m.ordered(partition, offset)
		if !fails(every, offset, 1) {
			m.once(partition, offset)
			return nil
		}
		msg.Metadata.Set("partition", strconv.Itoa(int(partition)))
		msg.Metadata.Set("offset", strconv.FormatInt(offset, 10))
		return errFirstTry
	}
}

func secondTryOf(m *meter) message.NoPublishHandlerFunc {
	return func(msg *message.Message) error {
		partition, err := strconv.Atoi(msg.Metadata.Get("partition"))
		offset, errToo := strconv.ParseInt(msg.Metadata.Get("offset"), 10, 64)
		if err := errors.Join(err, errToo); err != nil {
			m.blame("messages lost their metadata")
			return nil
		}
		m.once(int32(partition), offset)
		return nil
	}
}

// watermillReader is a subscriber of a group that begins with the first record.
func watermillReader(j job) (*watermillkafka.Subscriber, error) {
	cfg := watermillkafka.DefaultSaramaSubscriberConfig()
	cfg.Consumer.Offsets.Initial = sarama.OffsetOldest
	s, err := watermillkafka.NewSubscriber(watermillkafka.SubscriberConfig{
		Brokers: []string{j.Kafka}, ConsumerGroup: j.ConsumerGroup, Unmarshaler: watermillkafka.DefaultMarshaler{}, OverwriteSaramaConfig: cfg,
	}, watermill.NopLogger{})
	if err != nil {
		return nil, fmt.Errorf("subscriber: %w", err)
	}
	return s, nil
}
