package telemetry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Snapshot is what the gauges show.
type Snapshot struct {
	// RabbitMQ says whether there is one to speak of.
	RabbitMQ, RabbitMQUp bool
	// Shared says whether the process uses what all processes share, SharedUp that it reads that.
	Shared, SharedUp bool
	// Modes says of each part of an actor whether this process runs it.
	Modes   map[string]bool
	Streams map[string]StreamSnapshot
}

// StreamSnapshot is what the gauges show of one stream.
type StreamSnapshot struct {
	Inflight, WindowMessages, WindowBytes, Suspects int64
	Ready, Paused, Stuck                            bool
	// Lag is nil where it is not known: it is left out, since a 0 would say that nothing waits.
	Lag *int64
	// Partitions are those of this member: no more than its topics have.
	Partitions []PartitionLag
	// Queues are depths by queue name; a depth that is not known is not in it.
	Queues map[string]int
	// DeadSet names the one of Queues that is the dead set.
	DeadSet string
	// Channels are those of the stream, by name. They read nothing from Kafka.
	Channels map[string]StreamSnapshot
}

// PartitionLag is the lag of one partition.
type PartitionLag struct {
	Topic     string
	Partition int32
	Lag       int64
}

// gauges are observed together, from one Snapshot, so that their numbers are of one moment.
type gauges struct {
	up, shared, mode, ready, lag, partitionLag, inflight, messages, bytes, suspects, paused, stuck, queues, deadSet metric.Int64ObservableGauge
}

// Observe asks look at each collection. What is 0 or 1 has no unit: Prometheus would call it a
// ratio.
func (t *Telemetry) Observe(look func() Snapshot) error {
	if t == nil {
		return nil
	}
	g, all, err := newGauges(t.instruments.meter)
	if err != nil {
		return fmt.Errorf("gauges: %w", err)
	}
	t.observation, err = t.instruments.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		g.observe(o, look())
		return nil
	}, all...)
	if err != nil {
		return fmt.Errorf("gauges: %w", err)
	}
	return nil
}

func newGauges(m metric.Meter) (g gauges, all []metric.Observable, err error) {
	var errs []error
	for _, d := range []struct {
		to               *metric.Int64ObservableGauge
		name, unit, what string
	}{
		{&g.up, "stepwell.rabbitmq.up", "", "1 when RabbitMQ can be used."},
		{&g.shared, "stepwell.shared_records.up", "", "1 when this process reads what all processes share."},
		{&g.mode, "stepwell.mode", "", "1 for a part of the actor that runs in this process."},
		{&g.ready, "stepwell.stream.ready", "", "0 while the stream waits for something, or its source cannot be used, as /readyz says of it."},
		{&g.lag, "stepwell.consumer.lag", "{message}", "Records of this member's partitions that are not settled; of a queue as source: messages ready in it."},
		{&g.partitionLag, "stepwell.partition.lag", "{message}", "Records of a partition of this member that are not settled."},
		{&g.inflight, "stepwell.handler.inflight", "{message}", "Handler calls under way."},
		{&g.messages, "stepwell.window.messages", "{message}", "Messages that were read from Kafka, or picked up from the queue that is the source, and are not settled."},
		{&g.bytes, "stepwell.window.bytes", "By", "Bytes of the messages that were read from Kafka and are not settled."},
		{&g.suspects, "stepwell.suspects", "{message}", "Messages that may have ended the process and run one at a time."},
		{&g.paused, "stepwell.paused", "", "1 while the stream is held back in this process, by a pause of it or of the whole app."},
		{&g.stuck, "stepwell.stuck", "", "1 when the stream has lag and makes no progress, or a handler runs far past its time-out."},
		{&g.queues, "stepwell.queue.messages", "{message}", "Messages ready in a queue."},
		{&g.deadSet, "stepwell.dead_set.messages", "{message}", "Messages in the dead set."},
	} {
		*d.to, err = m.Int64ObservableGauge(d.name, metric.WithUnit(d.unit), metric.WithDescription(d.what))
		errs = append(errs, err)
		all = append(all, *d.to)
	}
	return g, all, errors.Join(errs...)
}

func (g *gauges) observe(o metric.Observer, shot Snapshot) {
	if shot.RabbitMQ {
		o.ObserveInt64(g.up, number(shot.RabbitMQUp))
	}
	if shot.Shared {
		o.ObserveInt64(g.shared, number(shot.SharedUp))
	}
	for mode, runs := range shot.Modes {
		o.ObserveInt64(g.mode, number(runs), metric.WithAttributes(attribute.String("stepwell.mode", mode)))
	}
	for id, s := range shot.Streams {
		stream := streamAttribute(id)
		of := metric.WithAttributes(stream)
		o.ObserveInt64(g.ready, number(s.Ready), of)
		if s.Lag != nil {
			o.ObserveInt64(g.lag, *s.Lag, of)
		}
		for _, p := range s.Partitions {
			o.ObserveInt64(g.partitionLag, p.Lag, metric.WithAttributes(stream,
				attribute.String("messaging.destination.name", p.Topic), attribute.String("messaging.destination.partition.id", strconv.Itoa(int(p.Partition)))))
		}
		o.ObserveInt64(g.paused, number(s.Paused), of)
		o.ObserveInt64(g.messages, s.WindowMessages, of)
		o.ObserveInt64(g.bytes, s.WindowBytes, of)
		g.handler(o, s, stream)
		for name, channel := range s.Channels {
			g.handler(o, channel, stream, channelAttribute(name))
		}
	}
}

// handler observes what streams and channels have: a handler and its queues.
func (g *gauges) handler(o metric.Observer, s StreamSnapshot, who ...attribute.KeyValue) {
	of := metric.WithAttributes(who...)
	o.ObserveInt64(g.inflight, s.Inflight, of)
	o.ObserveInt64(g.suspects, s.Suspects, of)
	o.ObserveInt64(g.stuck, number(s.Stuck), of)
	// A depth that could not be read is left out: a 0 would say that the dead set is empty.
	if depth, known := s.Queues[s.DeadSet]; known {
		o.ObserveInt64(g.deadSet, int64(depth), of)
	}
	for queue, depth := range s.Queues {
		o.ObserveInt64(g.queues, int64(depth), metric.WithAttributes(append(slices.Clip(who), attribute.String("stepwell.queue", queue))...))
	}
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
