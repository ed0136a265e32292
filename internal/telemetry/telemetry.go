// Package telemetry has the actor's metrics and spans. Its methods work on nil, which measures
// nothing.
//
// Names follow OpenTelemetry's semantic conventions for messaging where those have one. Labels are
// bounded: streams, verdicts, reasons and queues, never keys, offsets or ids.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

const scope = "github.com/stepwell/stepwell"

// Options say where measurements go.
type Options struct {
	// App is the service's name where OTEL_SERVICE_NAME gives none.
	App string
	// TracerProvider takes spans. Nil: there are none, at no cost.
	TracerProvider trace.TracerProvider
	// MeterProvider takes metrics. Nil: they are at Handler alone.
	MeterProvider metric.MeterProvider
}

// Telemetry makes what streams measure with.
type Telemetry struct {
	tracer trace.Tracer // nil: no spans
	// instruments are shared by all streams, which differ in their attributes.
	instruments instruments
	// handler is for /metrics.
	handler  http.Handler
	producer *producer // nil where the user's provider takes the metrics
	shutdown func(context.Context) error
	// observation is that of Observe; nil: there is none. Shutdown takes it back, so that no gauge
	// looks at an actor that is gone.
	observation metric.Registration
}

// New makes the instruments.
func New(o Options) (*Telemetry, error) {
	t := &Telemetry{shutdown: func(context.Context) error { return nil }, handler: http.HandlerFunc(elsewhere)}
	if o.TracerProvider != nil {
		t.tracer = o.TracerProvider.Tracer(scope)
	}
	provider := o.MeterProvider
	if provider == nil {
		// A registry of our own: two actors in one process do not meet in it.
		registry := prometheus.NewRegistry()
		registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		// Handler durations are counted by ourselves, see durations, and only the exporter asks for
		// them.
		t.producer = &producer{}
		exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo(), otelprometheus.WithProducer(t.producer))
		if err != nil {
			return nil, fmt.Errorf("prometheus exporter: %w", err)
		}
		from, err := resource.New(context.Background(), resource.WithAttributes(semconv.ServiceName(o.App)), resource.WithTelemetrySDK(), resource.WithFromEnv())
		if err != nil && !errors.Is(err, resource.ErrPartialResource) { // what is readable of OTEL_RESOURCE_ATTRIBUTES will do for target_info
			return nil, fmt.Errorf("describe the service: %w", err)
		}
		sdk := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter), sdkmetric.WithResource(from))
		provider, t.shutdown = sdk, sdk.Shutdown
		t.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	}
	var err error
	t.instruments, err = newInstruments(provider.Meter(scope))
	if err != nil {
		return nil, fmt.Errorf("instruments: %w", err)
	}
	return t, nil
}

// elsewhere answers who asks for metrics that a provider of the user's takes.
func elsewhere(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "the metrics of this actor go to the MeterProvider that its code names", http.StatusNotFound)
}

// Handler serves the metrics to Prometheus, or says that they go elsewhere.
func (t *Telemetry) Handler() http.Handler {
	if t == nil {
		return nil
	}
	return t.handler
}

// Shutdown ends what New began.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	var err error
	if t.observation != nil {
		err = t.observation.Unregister()
	}
	return errors.Join(err, t.shutdown(ctx))
}
