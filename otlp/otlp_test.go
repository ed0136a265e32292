package otlp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stepwell/stepwell/otlp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collector notes what is exported to it, by path.
type collector struct {
	url  string
	mu   sync.Mutex
	took map[string]string
}

func newCollector(t *testing.T) *collector {
	c := &collector{took: map[string]string{}}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.took[r.URL.Path] += string(body)
	}))
	t.Cleanup(s.Close)
	c.url = s.URL
	return c
}

func (c *collector) at(path string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.took[path]
}

// environment has these variables and no other of OpenTelemetry's.
func environment(t *testing.T, variables map[string]string) {
	for _, name := range []string{
		"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES",
	} {
		t.Setenv(name, variables[name])
	}
}

func TestOnlyTheSignalsThatTheEnvironmentAsksForHaveProviders(t *testing.T) {
	c := newCollector(t)
	tests := []struct {
		name            string
		variables       map[string]string
		traces, metrics bool
	}{
		{"nothing is said", nil, false, false},
		{"one endpoint for all", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.url}, true, true},
		{"an endpoint for traces", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": c.url}, true, false},
		{"an endpoint for metrics", map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": c.url}, false, true},
		{"an endpoint, but no metrics", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.url, "OTEL_METRICS_EXPORTER": "none"}, true, false},
		{"an endpoint, but no traces", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.url, "OTEL_TRACES_EXPORTER": "none"}, false, true},
		{"an endpoint, but all is off", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.url, "OTEL_SDK_DISABLED": "true"}, false, false},
		{"traces by gRPC", map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, true, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			environment(t, test.variables)
			tracer, meter, shutdown, err := otlp.Telemetry(t.Context(), "shipping")
			if err != nil {
				t.Fatal(err)
			}
			if (tracer != nil) != test.traces || (meter != nil) != test.metrics {
				t.Errorf("tracer %v, meter %v", tracer, meter)
			}
			if err := shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSpansAndMetricsArriveUnderTheServicesName(t *testing.T) {
	for wanted, name := range map[string]string{"shipping": "", "billing": "billing"} {
		t.Run(wanted, func(t *testing.T) {
			c := newCollector(t)
			environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.url, "OTEL_SERVICE_NAME": name})
			tracer, meter, shutdown, err := otlp.Telemetry(t.Context(), "shipping")
			if err != nil {
				t.Fatal(err)
			}
			_, span := tracer.Tracer("test").Start(t.Context(), "process orders")
			span.End()
			retries, err := meter.Meter("test").Int64Counter("stepwell.retries")
			if err != nil {
				t.Fatal(err)
			}
			retries.Add(t.Context(), 1)
			if err := shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			for path, what := range map[string]string{"/v1/traces": "process orders", "/v1/metrics": "stepwell.retries"} {
				if got := c.at(path); !strings.Contains(got, what) || !strings.Contains(got, wanted) {
					t.Errorf("%s of %s did not come to %s: %q", what, wanted, path, got)
				}
			}
		})
	}
}

func TestAWrongVariableIsNamedAndLeavesNothingRunning(t *testing.T) {
	tests := []struct{ name, variable, value string }{
		{"an unknown exporter of traces", "OTEL_TRACES_EXPORTER", "jaeger"},
		{"an unknown exporter of metrics", "OTEL_METRICS_EXPORTER", "statsd"},
		{"unreadable attributes", "OTEL_RESOURCE_ATTRIBUTES", "no equals sign"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newCollector(t)
			environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.url, test.variable: test.value})
			_, _, _, err := otlp.Telemetry(t.Context(), "shipping")
			if err == nil || !strings.Contains(err.Error(), test.variable) {
				t.Errorf("error %v, want one that names %s", err, test.variable)
			}
		})
	}
}

func TestACollectorThatIsAwayDelaysTheEndNoLongerThanItsContext(t *testing.T) {
	environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
	tracer, _, shutdown, err := otlp.Telemetry(t.Context(), "shipping")
	if err != nil {
		t.Fatalf("a collector that is away: %v", err)
	}
	_, span := tracer.Tracer("test").Start(t.Context(), "process orders")
	span.End()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := shutdown(ctx); err == nil {
		t.Error("what could not be exported was said to be")
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the end took %v", took)
	}
}
