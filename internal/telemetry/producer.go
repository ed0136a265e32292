package telemetry

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Producer measures the records that the user's functions write to Kafka.
type Producer struct {
	i            instruments
	tracer       trace.Tracer
	count        metric.MeasurementOption
	sent, failed []metric.RecordOption
}

// Producer returns what measures them. Ask once.
func (t *Telemetry) Producer() *Producer {
	if t == nil {
		return nil
	}
	send := []attribute.KeyValue{semconv.MessagingSystemKafka, semconv.MessagingOperationName("send"), semconv.MessagingOperationTypeSend}
	set := func(kvs ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(kvs...))
	}
	return &Producer{
		i: t.instruments, tracer: t.tracer, count: set(send[:2]...),
		sent: []metric.RecordOption{set(send...)}, failed: []metric.RecordOption{set(append(send, semconv.ErrorTypeOther)...)},
	}
}

// Send begins the writing of so many records. carry are the headers that lead from a record to the
// trace of ctx, none where there are no spans; end is to be called with what came of it.
func (p *Producer) Send(ctx context.Context, records int) (carry map[string]string, end func(error)) {
	if p == nil {
		return nil, func(error) {}
	}
	began, span := time.Now(), trace.Span(nil)
	if p.tracer != nil {
		ctx, span = p.tracer.Start(ctx, "send", trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
			semconv.MessagingSystemKafka,
			semconv.MessagingOperationName("send"),
			semconv.MessagingOperationTypeSend,
			semconv.MessagingBatchMessageCount(records),
		))
		headers := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, headers)
		carry = headers
	}
	return carry, func(err error) {
		outcome := p.sent
		if err == nil {
			p.i.sent.Add(context.Background(), int64(records), p.count)
		} else {
			outcome = p.failed
		}
		p.i.operation.Record(context.Background(), time.Since(began).Seconds(), outcome...)
		switch {
		case span == nil:
		case err == nil:
			span.End()
		default:
			Ended{Failed: true, Error: fmt.Sprint(err)}.end(span)
		}
	}
}
