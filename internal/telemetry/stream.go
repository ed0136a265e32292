package telemetry

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/stepwell/stepwell"
)

// Stream measures one stream, or a channel of it. Its attribute sets are made once, so that a call
// costs no allocation.
type Stream struct {
	name string // as spans have it
	who  []attribute.KeyValue
	i    instruments
	// tracer is nil where nobody takes spans.
	tracer    trace.Tracer
	durations *durations // nil where the user's provider takes the metrics
	// verdicts and the options below have their attributes, made once: to make them takes longer
	// than to count.
	verdicts [stepwell.Kinds][]metric.RecordOption
	add      []metric.AddOption
	// poll and send are the operations of Kafka and RabbitMQ; refused is a send that failed.
	poll, send []metric.AddOption
	sent       []metric.RecordOption
	refused    []metric.RecordOption
	failed     failed
}

// Stream returns what measures a stream that reads Kafka. Ask for each stream once.
func (t *Telemetry) Stream(id string) *Stream {
	s := t.measure(id, semconv.MessagingSystemKafka, streamAttribute(id))
	s.Consumed(0)
	s.Lost(0)
	s.Expired(0)
	return s
}

// Queue returns what measures a stream whose messages come from RabbitMQ alone.
func (t *Telemetry) Queue(id string) *Stream {
	return t.measure(id, semconv.MessagingSystemRabbitMQ, streamAttribute(id))
}

// Channel returns what measures a channel of a stream. Ask for each channel once.
func (t *Telemetry) Channel(stream, channel string) *Stream {
	return t.measure(stream+" "+channel, semconv.MessagingSystemKafka, streamAttribute(stream), channelAttribute(channel))
}

func streamAttribute(id string) attribute.KeyValue { return attribute.String("stepwell.stream", id) }

func channelAttribute(name string) attribute.KeyValue {
	return attribute.String("stepwell.channel", name)
}

// measure makes what measures a handler that has this name in spans, and these attributes, for
// messages of that system.
func (t *Telemetry) measure(name string, system attribute.KeyValue, who ...attribute.KeyValue) *Stream {
	if t == nil {
		return nil
	}
	s := &Stream{name: name, who: who, i: t.instruments, tracer: t.tracer}
	// Clip, here and below: two appends to one slice that has room would write over one another.
	base := append(slices.Clip(who), system, semconv.MessagingOperationName("process"))
	var sets [stepwell.Kinds]attribute.Set
	for k := stepwell.Done; k < stepwell.Kinds; k++ {
		sets[k] = attribute.NewSet(append(slices.Clip(base), attribute.String("stepwell.verdict", k.String()))...)
		s.verdicts[k] = []metric.RecordOption{metric.WithAttributeSet(sets[k])}
	}
	s.failed.base = base
	if t.producer != nil {
		s.durations = newDurations(sets, attribute.NewSet(who...), &s.failed)
		t.producer.add(s.durations)
	}
	option := func(more ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(append(slices.Clip(more), who...)...))
	}
	send := []attribute.KeyValue{semconv.MessagingSystemRabbitMQ, semconv.MessagingOperationName("send"), semconv.MessagingOperationTypeSend}
	s.add = []metric.AddOption{option()}
	s.poll = []metric.AddOption{option(semconv.MessagingSystemKafka, semconv.MessagingOperationName("poll"))}
	s.send = []metric.AddOption{option(send[:2:2]...)}
	s.sent = []metric.RecordOption{option(send...)}
	s.refused = []metric.RecordOption{option(append(slices.Clip(send), semconv.ErrorTypeOther)...)}
	s.begin()
	return s
}

// begin makes all counters 0: what appears with its first event has no increase for Prometheus.
// Those of what was read from Kafka are for [Telemetry.Stream] alone: elsewhere they stay 0 for
// ever.
func (s *Stream) begin() {
	ctx := context.Background()
	for _, c := range []metric.Int64Counter{s.i.enqueued, s.i.retries, s.i.inPlace, s.i.orderGivenUp, s.i.duplicate, s.i.dropped, s.i.fallback, s.i.replayed, s.i.deleted} {
		c.Add(ctx, 0, s.add...)
	}
	if s.durations == nil {
		s.i.skipped.Add(ctx, 0, s.add...)
	}
	s.i.sent.Add(ctx, 0, s.send...)
	for _, reason := range []string{
		stepwell.ReasonExhausted, stepwell.ReasonDeadLetter, stepwell.ReasonDecode, stepwell.ReasonUndecodable,
		stepwell.ReasonTooLarge, stepwell.ReasonGone, stepwell.ReasonCrashLoop,
	} {
		s.i.died.Add(ctx, 0, s.because(reason))
	}
}

// because is not made once: deaths are rare, and reasons may be those of another version.
func (s *Stream) because(reason string) metric.MeasurementOption {
	return metric.WithAttributes(append(slices.Clip(s.who), attribute.String("stepwell.reason", reason))...)
}

// Handled counts n calls of the handler that took d each, with their verdict. Calls that run at the
// same time are cheapest with different lanes.
func (s *Stream) Handled(ctx context.Context, lane, n int, d time.Duration, verdict stepwell.Kind) {
	if s == nil {
		return
	}
	if failure(verdict) {
		for range n {
			s.Failed(ctx, d, verdict, "")
		}
		return
	}
	if s.durations != nil {
		s.durations.record(lane, n, d, verdict)
		return
	}
	for range n {
		s.i.process.Record(ctx, d.Seconds(), s.verdicts[verdict]...)
	}
	if verdict == stepwell.Skipped {
		s.i.skipped.Add(ctx, int64(n), s.add...)
	}
}

// Consumed counts records read from Kafka.
func (s *Stream) Consumed(n int64) {
	if s != nil {
		s.i.consumed.Add(context.Background(), n, s.poll...)
	}
}

// Retried counts a failure that was stored to be tried again.
func (s *Stream) Retried() {
	if s == nil {
		return
	}
	s.i.retries.Add(context.Background(), 1, s.add...)
	s.i.sent.Add(context.Background(), 1, s.send...)
}

// HandedOver counts a message that was stored for this channel.
func (s *Stream) HandedOver() {
	if s == nil {
		return
	}
	s.i.sent.Add(context.Background(), 1, s.send...)
}

// Enqueued counts a message that was stored and that no handler had before.
func (s *Stream) Enqueued() {
	if s == nil {
		return
	}
	s.i.enqueued.Add(context.Background(), 1, s.add...)
	s.i.sent.Add(context.Background(), 1, s.send...)
}

// RetriedInPlace counts a failure whose message rests in the process until it is tried again.
func (s *Stream) RetriedInPlace() {
	s.count(1, func(i *instruments) metric.Int64Counter { return i.inPlace })
}

// OrderGivenUp counts a message that was to rest in place and goes through the queues, since its
// waits would be too long.
func (s *Stream) OrderGivenUp() {
	s.count(1, func(i *instruments) metric.Int64Counter { return i.orderGivenUp })
}

// Died counts a message that came to the dead set.
func (s *Stream) Died(reason string) {
	if s == nil {
		return
	}
	s.i.died.Add(context.Background(), 1, s.because(reason))
	s.i.sent.Add(context.Background(), 1, s.send...)
}

// TakenOver counts a message that was taken over before it came to the dead set.
func (s *Stream) TakenOver() {
	s.count(1, func(i *instruments) metric.Int64Counter { return i.fallback })
}

// Duplicate counts a message that was settled already.
func (s *Stream) Duplicate() {
	s.count(1, func(i *instruments) metric.Int64Counter { return i.duplicate })
}

// Lost counts records that Kafka deleted before they were read.
func (s *Stream) Lost(n int64) {
	s.count(n, func(i *instruments) metric.Int64Counter { return i.lost })
}

// Expired counts records older than MAX_AGE.
func (s *Stream) Expired(n int64) {
	s.count(n, func(i *instruments) metric.Int64Counter { return i.expired })
}

// Dropped counts a failed message that ON_FAILURE=drop dropped.
func (s *Stream) Dropped() { s.count(1, func(i *instruments) metric.Int64Counter { return i.dropped }) }

// Replayed counts messages replayed from the dead set.
func (s *Stream) Replayed(n int64) {
	s.count(n, func(i *instruments) metric.Int64Counter { return i.replayed })
}

// Deleted counts messages deleted from the dead set.
func (s *Stream) Deleted(n int64) {
	s.count(n, func(i *instruments) metric.Int64Counter { return i.deleted })
}

func (s *Stream) count(n int64, of func(*instruments) metric.Int64Counter) {
	if s == nil {
		return
	}
	of(&s.i).Add(context.Background(), n, s.add...)
}
