package telemetry_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/telemetry"
)

const (
	created = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	firstly = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-01"
)

func traced(t *testing.T) (*telemetry.Stream, *tracetest.InMemoryExporter) {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	t.Cleanup(func() { _ = provider.Shutdown(t.Context()) })
	return newTelemetry(t, telemetry.Options{TracerProvider: provider}).Stream("orders"), exporter
}

func TestATryIsATraceOfItsOwnLinkedToTheRecordsAndTheFirstTrys(t *testing.T) {
	s, exporter := traced(t)
	m := &stepwell.Message{
		ID: "orders.v1:3:7", Origin: stepwell.Origin{Topic: "orders.v1", Partition: 3, Offset: 7}, Attempt: 2,
		Headers: []stepwell.Header{{Key: "traceparent", Value: []byte(created)}, {Key: "tracestate", Value: []byte("vendor=1")}},
	}
	outer, endOuter := s.Process(t.Context(), m, telemetry.TraceContext{})
	_, end := s.Process(outer, m, telemetry.TraceContext{Parent: firstly})
	end(telemetry.Ended{Failed: true, Error: "the bank is away", ErrorType: "*bank.Error"})
	endOuter(telemetry.Ended{})
	spans := exporter.GetSpans()
	again, first := spans[0], spans[1]
	if again.Name != "process orders" || again.SpanKind != trace.SpanKindConsumer || again.Parent.IsValid() || again.SpanContext.TraceID() == first.SpanContext.TraceID() {
		t.Errorf("span %+v", again)
	}
	if again.Status.Code != codes.Error || again.Status.Description != "the bank is away" || first.Status.Code != codes.Unset {
		t.Errorf("status %+v and %+v", again.Status, first.Status)
	}
	var links []string
	for _, l := range again.Links {
		links = append(links, l.SpanContext.TraceID().String()+" "+l.SpanContext.TraceState().String())
	}
	if got := strings.Join(links, ", "); got != "4bf92f3577b34da6a3ce929d0e0e4736 vendor=1, aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa " {
		t.Errorf("linked to %s", got)
	}
	found := map[string]string{}
	for _, a := range again.Attributes {
		found[string(a.Key)] = a.Value.String()
	}
	for key, want := range map[string]string{
		"messaging.system": "kafka", "messaging.operation.name": "process", "messaging.operation.type": "process",
		"messaging.destination.name": "orders.v1", "messaging.destination.partition.id": "3", "messaging.kafka.offset": "7",
		"messaging.message.id": "orders.v1:3:7", "stepwell.attempt": "2", "error.type": "*bank.Error",
	} {
		if found[key] != want {
			t.Errorf("%s is %q, want %q", key, found[key], want)
		}
	}
}

func TestTheSpanOfASkippedMessageSaysWhy(t *testing.T) {
	s, exporter := traced(t)
	_, end := s.Process(t.Context(), &stepwell.Message{}, telemetry.TraceContext{})
	end(telemetry.Ended{Skipped: "a test order"})
	span := exporter.GetSpans()[0]
	if span.Status.Code != codes.Unset || !slices.Contains(span.Attributes, attribute.String("stepwell.skip_reason", "a test order")) {
		t.Errorf("status %v, attributes %v", span.Status, span.Attributes)
	}
}

func TestForeignTraceHeadersThatMakeNoSenseAreNoLinks(t *testing.T) {
	for _, value := range []string{"", "junk", strings.Repeat("0", 100_000), "00-00000000000000000000000000000000-0000000000000000-01"} {
		s, exporter := traced(t)
		m := &stepwell.Message{Headers: []stepwell.Header{{Key: "traceparent", Value: []byte(value)}}}
		_, end := s.Process(t.Context(), m, telemetry.TraceContext{Parent: value, State: value})
		end(telemetry.Ended{})
		if links := exporter.GetSpans()[0].Links; len(links) != 0 {
			t.Errorf("%d links for %.40q", len(links), value)
		}
	}
}

func TestParkingIsAChildOfTheTryThatFailed(t *testing.T) {
	s, exporter := traced(t)
	ctx, end := s.Process(t.Context(), &stepwell.Message{}, telemetry.TraceContext{})
	try := s.Trace(ctx)
	end(telemetry.Ended{})
	s.Publish("orders.v1:0:7", try.Parent, try.State)(mute{})
	spans := exporter.GetSpans()
	if got := spans[1]; got.Name != "send orders" || got.SpanKind != trace.SpanKindProducer || got.Parent.SpanID() != spans[0].SpanContext.SpanID() || got.Status.Code != codes.Error {
		t.Errorf("span %+v", got)
	}
}

// mute is an error that panics when it is asked what it says.
type mute struct{}

func (mute) Error() string { panic("no words") }

func TestLogsWithinASpanNameIt(t *testing.T) {
	s, _ := traced(t)
	ctx, end := s.Process(t.Context(), &stepwell.Message{}, telemetry.TraceContext{})
	defer end(telemetry.Ended{})
	of := trace.SpanContextFromContext(ctx)
	ids := " trace_id=" + of.TraceID().String() + " span_id=" + of.SpanID().String()
	tests := []struct {
		name string
		log  func(*slog.Logger) *slog.Logger
		want string
	}{
		{"plain", func(l *slog.Logger) *slog.Logger { return l }, "msg=paid order=7" + ids},
		{"with fields", func(l *slog.Logger) *slog.Logger { return l.With("app", "a") }, "msg=paid app=a order=7" + ids},
		{"in a group", func(l *slog.Logger) *slog.Logger { return l.With("app", "a").WithGroup("g").With("k", 1) }, "msg=paid app=a" + ids + " g.k=1 g.order=7"},
		{"in two", func(l *slog.Logger) *slog.Logger { return l.WithGroup("g").WithGroup("").WithGroup("h") }, "msg=paid" + ids + " g.h.order=7"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			log := test.log(slog.New(telemetry.LogHandler(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: timeless}))))
			log.InfoContext(ctx, "paid", "order", 7)
			if got := strings.TrimSpace(out.String()); got != "level=INFO "+test.want {
				t.Errorf("got  %s\nwant level=INFO %s", got, test.want)
			}
			out.Reset()
			log.Info("paid", "order", 7)
			if strings.Contains(out.String(), "trace_id") {
				t.Errorf("outside of any span: %s", &out)
			}
		})
	}
}

func timeless(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
