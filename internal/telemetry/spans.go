package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/stepwell/stepwell"
)

// TraceContext is a W3C trace context as it travels with a message.
type TraceContext struct{ Parent, State string }

// Tracing tells whether anybody takes spans.
func (s *Stream) Tracing() bool { return s != nil && s.tracer != nil }

// Process begins the span of a handler call and returns what ends it. The span is linked to the record's creation context, and to the first
// try's where there was one: a trace of its own for each try, so that none lasts for hours.
func (s *Stream) Process(ctx context.Context, m *stepwell.Message, first TraceContext) (context.Context, func(error)) {
	if !s.Tracing() {
		return ctx, func(error) {}
	}
	ctx, span := s.tracer.Start(ctx, "process "+s.id, trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithLinks(links(m, first)...),
		trace.WithAttributes(
			attribute.String("messaging.system", "kafka"),
			attribute.String("messaging.operation.name", "process"),
			attribute.String("messaging.operation.type", "process"),
			attribute.String("messaging.destination.name", m.Origin.Topic),
			attribute.Int("messaging.destination.partition.id", int(m.Origin.Partition)),
			attribute.Int64("messaging.kafka.offset", m.Origin.Offset),
			attribute.String("messaging.message.id", m.ID),
			attribute.Int("stepwell.attempt", m.Attempt),
			attribute.Int("stepwell.replays", m.Replays),
		))
	return ctx, func(err error) { end(span, err) }
}

// Publish begins the span of parking a failed message, a child of the try that failed, and returns what ends it.
func (s *Stream) Publish(id, traceParent, traceState string) func(error) {
	if !s.Tracing() {
		return func(error) {}
	}
	_, span := s.tracer.Start(extract(TraceContext{traceParent, traceState}), "send "+s.id, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		attribute.String("messaging.system", "rabbitmq"),
		attribute.String("messaging.operation.name", "send"),
		attribute.String("messaging.operation.type", "send"),
		attribute.String("messaging.message.id", id),
	))
	return func(err error) { end(span, err) }
}

func end(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

func links(m *stepwell.Message, first TraceContext) []trace.Link {
	var all []trace.Link
	parent, _ := m.Header("traceparent")
	state, _ := m.Header("tracestate")
	for _, c := range []TraceContext{{string(parent), string(state)}, first} {
		if l := trace.LinkFromContext(extract(c)); l.SpanContext.IsValid() {
			all = append(all, l)
		}
	}
	return all
}

func extract(c TraceContext) context.Context {
	return propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": c.Parent, "tracestate": c.State})
}

// Trace is the trace context of ctx, empty where there is none.
func (s *Stream) Trace(ctx context.Context) TraceContext {
	if !s.Tracing() {
		return TraceContext{}
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return TraceContext{carrier["traceparent"], carrier["tracestate"]}
}
