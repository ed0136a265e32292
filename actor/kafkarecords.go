package actor

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/streams"
)

// kafkaRecords are the records of Kafka by their position, for those too large for the queues.
type kafkaRecords struct {
	brokers Brokers
	extra   func() []kgo.Opt
}

// Record waits until it is known how to reach Kafka and reads one record.
func (r kafkaRecords) Record(ctx context.Context, at stepwell.Origin) (m stepwell.Message, found bool, err error) {
	kafka, err := r.brokers.Kafka(ctx)
	if err != nil {
		return m, false, err
	}
	return streams.ReadRecord(ctx, slices.Concat(kafka, r.extra()), at)
}
