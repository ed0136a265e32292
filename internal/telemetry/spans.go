package telemetry

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/stepwell/stepwell"
)

// TraceContext is a W3C trace context as it travels with a message.
type TraceContext struct{ Parent, State string }

// Tracing tells whether anybody takes spans.
func (s *Stream) Tracing() bool { return s != nil && s.tracer != nil }

// Process begins the span of a handler call and returns what ends it. The span is linked to the
// record's creation context, and to the first try's where there was one: a trace of its own for
// each try, so that none lasts for hours.
func (s *Stream) Process(ctx context.Context, m *stepwell.Message, first TraceContext) (context.Context, func(Ended)) {
	if !s.Tracing() {
		return ctx, func(Ended) {}
	}
	ctx, span := s.tracer.Start(ctx, "process "+s.name, trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithLinks(links(m, first)...),
		trace.WithAttributes(origin(m)...),
		trace.WithAttributes(
			semconv.MessagingOperationName("process"),
			semconv.MessagingOperationTypeProcess,
			semconv.MessagingMessageID(m.ID),
			attribute.Int("stepwell.attempt", m.Attempt),
			attribute.Int("stepwell.replays", m.Replays),
		))
	return ctx, func(e Ended) { e.end(span) }
}

// origin is where the message was first: what was enqueued has never been in Kafka.
func origin(m *stepwell.Message) []attribute.KeyValue {
	if m.Origin.Topic == "" {
		return []attribute.KeyValue{semconv.MessagingSystemRabbitMQ}
	}
	return []attribute.KeyValue{
		semconv.MessagingSystemKafka,
		semconv.MessagingDestinationName(m.Origin.Topic),
		semconv.MessagingDestinationPartitionID(strconv.Itoa(int(m.Origin.Partition))),
		semconv.MessagingKafkaOffset(int(m.Origin.Offset)),
	}
}

// ProcessBatch begins the span of a call for many messages and returns what ends it. It has a link
// to the creation context of each message that has one, and to the calls that some had before.
func (s *Stream) ProcessBatch(ctx context.Context, messages []*stepwell.Message, before []TraceContext) (context.Context, func(Ended)) {
	if !s.Tracing() {
		return ctx, func(Ended) {}
	}
	var all []trace.Link
	for _, m := range messages {
		all = append(all, links(m, TraceContext{})...)
	}
	for _, first := range before { // behind them: of too many links the SDK keeps the last ones
		all = append(all, links(&stepwell.Message{}, first)...)
	}
	ctx, span := s.tracer.Start(ctx, "process "+s.name, trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithLinks(all...),
		trace.WithAttributes(
			semconv.MessagingSystemKafka,
			semconv.MessagingOperationName("process"),
			semconv.MessagingOperationTypeProcess,
			semconv.MessagingDestinationName(messages[0].Origin.Topic),
			semconv.MessagingBatchMessageCount(len(messages)),
		))
	return ctx, func(e Ended) { e.end(span) }
}

// Ended says how a call ended, in words that were made where panics are caught. Zero: it is done.
type Ended struct {
	// Error and ErrorType are those of a failure.
	Error, ErrorType string
	Failed           bool
	// Skipped is why the message was skipped.
	Skipped string
}

func (e Ended) end(span trace.Span) {
	switch {
	case e.Failed:
		span.SetAttributes(errorType(e.ErrorType))
		span.SetStatus(codes.Error, e.Error)
	case e.Skipped != "":
		span.SetAttributes(attribute.String("stepwell.skip_reason", e.Skipped))
	}
	span.End()
}

// errorType is the attribute of an error's type; _OTHER where it has none.
func errorType(of string) attribute.KeyValue {
	if of == "" {
		return semconv.ErrorTypeOther
	}
	return semconv.ErrorTypeKey.String(of)
}

// Publish begins the parking of a failed message, a child of the try that failed, and returns what
// ends it.
func (s *Stream) Publish(id, traceParent, traceState string) func(error) {
	if s == nil {
		return func(error) {}
	}
	began, span := time.Now(), trace.Span(nil)
	if s.Tracing() {
		_, span = s.tracer.Start(extract(TraceContext{traceParent, traceState}), "send "+s.name, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
			semconv.MessagingSystemRabbitMQ,
			semconv.MessagingOperationName("send"),
			semconv.MessagingOperationTypeSend,
			semconv.MessagingMessageID(id),
		))
	}
	return func(err error) {
		outcome := s.sent
		if err != nil {
			outcome = s.refused
		}
		s.i.operation.Record(context.Background(), time.Since(began).Seconds(), outcome...)
		switch {
		case span == nil:
		case err == nil:
			span.End()
		default:
			Ended{Failed: true, Error: fmt.Sprint(err)}.end(span) // Sprint survives an Error method that panics
		}
	}
}

// links leads to who wrote the record, by its headers, and to the first try. What is no valid trace
// context is no link.
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

// extract makes a context from text. Text that is no trace context makes one without a span.
func extract(c TraceContext) context.Context {
	return propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": c.Parent, "tracestate": c.State})
}

// Context is one in which a log line names the trace.
func Context(c TraceContext) context.Context {
	if c.Parent == "" {
		return context.Background()
	}
	return extract(c)
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
