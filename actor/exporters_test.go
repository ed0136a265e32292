package actor_test

import (
	"slices"
	"strings"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/stepwell/stepwell/actor"
)

func TestAVariableThatAsksForAnExportNobodyDoesIsWarnedOfAtStart(t *testing.T) { // not parallel: it sets variables
	const endpoint, traces, metrics = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"
	both := actor.Telemetry{Tracer: sdktrace.NewTracerProvider(), Meter: sdkmetric.NewMeterProvider()}
	tests := map[string]struct {
		env       map[string]string
		telemetry actor.Telemetry
		want      []string
	}{
		"nothing is set":                       {nil, actor.Telemetry{}, nil},
		"an endpoint":                          {map[string]string{endpoint: "http://c:4317"}, actor.Telemetry{}, []string{endpoint + " is set, but no traces", endpoint + " is set, but no metrics"}},
		"an endpoint, for traces alone":        {map[string]string{endpoint: "http://c:4317", metrics: "none"}, actor.Telemetry{}, []string{endpoint + " is set, but no traces"}},
		"an exporter":                          {map[string]string{traces: "otlp"}, actor.Telemetry{}, []string{traces + " is set, but no traces"}},
		"a signal's own endpoint":              {map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c"}, actor.Telemetry{}, []string{"METRICS_ENDPOINT is set, but no metrics"}},
		"no exporter":                          {map[string]string{traces: "none", metrics: "none"}, actor.Telemetry{}, nil},
		"an endpoint, and all is exported":     {map[string]string{endpoint: "http://c:4317"}, both, nil},
		"an endpoint, and traces are":          {map[string]string{endpoint: "http://c:4317"}, actor.Telemetry{Tracer: both.Tracer}, []string{endpoint + " is set, but no metrics"}},
		"an endpoint, and all is switched off": {map[string]string{endpoint: "http://c:4317", "OTEL_SDK_DISABLED": "true"}, actor.Telemetry{}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for k, v := range test.env {
				t.Setenv(k, v)
			}
			w := embeddedWorld(t)
			app, log := logged(orders(failing(&calls{})))
			app.Telemetry = test.telemetry
			w.start(app, nil).end()
			var warned []string
			for _, line := range log.lines(t) {
				if text := line["msg"].(string); line["level"] == "WARN" && strings.Contains(text, "OTEL_") {
					warned = append(warned, text)
				}
			}
			if !slices.EqualFunc(warned, test.want, strings.Contains) {
				t.Errorf("warned %q, want %q", warned, test.want)
			}
		})
	}
}
