// Package otlp exports an actor's traces and metrics as the standard OTEL_* variables say. It
// brings gRPC and protobuf into the program, so it is a package of its own: who does not import it
// does not link them.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Telemetry returns the providers for actor.App.Telemetry, and a function that exports what is left
// and ends them: call it in App.Stop, since actor.Main does not return. service is the service's
// name where OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES give none; by convention, that of the
// app.
//
// A signal is exported when its variable OTEL_TRACES_EXPORTER or OTEL_METRICS_EXPORTER says how
// (otlp, console, none; for metrics also prometheus, which opens a port of its own), or when
// OTEL_EXPORTER_OTLP_ENDPOINT or the signal's own endpoint says where to. Otherwise its provider is
// nil and nothing is dialled: the actor then makes no spans, and shows its metrics at /metrics.
// Metrics that are exported are not at /metrics, and cost each handler call a fraction of a
// microsecond; OTEL_METRICS_EXPORTER=none keeps them there while traces are exported.
//
// The error names the variable that is wrong. A collector that cannot be reached is no error,
// neither here nor later: what it misses is lost.
func Telemetry(ctx context.Context, service string) (trace.TracerProvider, metric.MeterProvider, func(context.Context) error, error) {
	p := &providers{}
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil, p.shutdown, nil
	}
	from, err := describe(ctx, service)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := errors.Join(p.addTraces(ctx, from), p.addMetrics(ctx, from)); err != nil {
		return nil, nil, nil, errors.Join(err, p.shutdown(ctx))
	}
	return p.tracer, p.meter, p.shutdown, nil
}

// providers are those that are wanted. The interfaces are nil where there is none.
type providers struct {
	tracer trace.TracerProvider
	meter  metric.MeterProvider
	ends   []func(context.Context) error
}

func (p *providers) addTraces(ctx context.Context, from *resource.Resource) error {
	const exporter = "OTEL_TRACES_EXPORTER"
	if !wanted(exporter, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") {
		return nil
	}
	e, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return fmt.Errorf("export traces, %s=%q: %w", exporter, os.Getenv(exporter), err)
	}
	if autoexport.IsNoneSpanExporter(e) {
		return nil
	}
	// A batch is sent in the background: a collector that is away must hold up no handler.
	sdk := sdktrace.NewTracerProvider(sdktrace.WithBatcher(e), sdktrace.WithResource(from))
	p.tracer, p.ends = sdk, append(p.ends, sdk.Shutdown)
	return nil
}

// addMetrics makes the provider of metrics, where a variable asks for one; nil stands for the
// actor's own.
func (p *providers) addMetrics(ctx context.Context, from *resource.Resource) error {
	const exporter = "OTEL_METRICS_EXPORTER"
	if !wanted(exporter, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") {
		return nil
	}
	r, err := autoexport.NewMetricReader(ctx)
	if err != nil {
		return fmt.Errorf("export metrics, %s=%q: %w", exporter, os.Getenv(exporter), err)
	}
	if autoexport.IsNoneMetricReader(r) {
		return nil
	}
	sdk := sdkmetric.NewMeterProvider(sdkmetric.WithReader(r), sdkmetric.WithResource(from))
	p.meter, p.ends = sdk, append(p.ends, sdk.Shutdown)
	return nil
}

func (p *providers) shutdown(ctx context.Context) error {
	var errs []error
	// One that fails keeps no other from sending what it has.
	for _, end := range p.ends {
		errs = append(errs, end(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("end the export of traces and metrics: %w", err)
	}
	return nil
}

// wanted tells whether one of the signal's variables, or the one for all signals, asks for an
// exporter. An empty variable is as good as none.
func wanted(exporter, endpoint string) bool {
	return os.Getenv(exporter) != "" || os.Getenv(endpoint) != "" || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != ""
}

// describe says where everything comes from; what the environment says wins.
func describe(ctx context.Context, service string) (*resource.Resource, error) {
	r, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceName(service)), resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("describe the service, OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return r, nil
}
