package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/streams"
)

// readerAlone is the actor's reader without the actor: what lies between it and stepwell's case is the price of a handler call.
func readerAlone(ctx context.Context, j job, m *meter) error {
	r, err := streams.New(streams.Config{
		Stream: stream, Group: j.Group, Topics: []string{j.Topic}, Kafka: []kgo.Opt{kgo.SeedBrokers(j.Kafka)},
	}, func(_ context.Context, msg *stepwell.Message, _ streams.Ticket) streams.Outcome {
		m.count(msg.Origin.Partition, msg.Origin.Offset)
		return streams.Settled
	})
	if err != nil {
		return fmt.Errorf("new reader: %w", err)
	}
	return r.Run(ctx, context.WithoutCancel(ctx))
}
