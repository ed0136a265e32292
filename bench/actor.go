package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

func stepwellAlone(ctx context.Context, j job, m *meter) error {
	return runActor(ctx, j, m, "RETRY_ENABLED=false")
}

func stepwellRetries(ctx context.Context, j job, m *meter) error {
	return runActor(ctx, j, m, "RABBITMQ_URL="+j.RabbitMQ)
}

// runActor is an actor as anybody would write it, with the defaults.
func runActor(ctx context.Context, j job, m *meter, more ...string) error {
	app := actor.App{
		Name: j.App,
		Streams: actor.Streams{stream: {Handler: func(_ context.Context, msg *stepwell.Message) error {
			m.count(msg.Origin.Partition, msg.Origin.Offset)
			return nil
		}}},
		Logger: slog.New(slog.DiscardHandler),
	}
	cfg, err := actor.Load(app, append([]string{
		"KAFKA_BROKERS=" + j.Kafka, "STREAMS_RECORDS_TOPICS=" + j.Topic, "STREAMS_RECORDS_GROUP=" + j.Group, "SERVER_ADDRESS=off",
	}, append(more, j.Environ...)...))
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	a, err := actor.New(cfg, app)
	if err != nil {
		return fmt.Errorf("new actor: %w", err)
	}
	return a.Run(ctx)
}

// stream is the stream-id of the actors.
const stream = "records"
