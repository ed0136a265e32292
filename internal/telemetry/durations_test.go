package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/telemetry"
)

// calls of handlers, some of them just at a bucket's boundary. Each duration is a sum of powers of
// two, so that no sum is rounded.
func calls() map[stepwell.Kind][]time.Duration {
	return map[stepwell.Kind][]time.Duration{
		stepwell.Done:       {0, 10 * time.Microsecond, 10*time.Microsecond + 1, 250 * time.Millisecond, 500 * time.Millisecond},
		stepwell.Retry:      {time.Second, 300 * time.Second, 301 * time.Second},
		stepwell.Skipped:    {5 * time.Millisecond},
		stepwell.Snoozed:    {250 * time.Millisecond},
		stepwell.HandedOver: {10 * time.Microsecond},
	}
}

func TestDurationsAreShownAsOpenTelemetryWouldShowThem(t *testing.T) {
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := newTelemetry(t, telemetry.Options{}), newTelemetry(t, telemetry.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))})
	for _, in := range []*telemetry.Telemetry{ours, theirs} {
		for _, id := range []string{"orders", "parcels"} {
			s := in.Stream(id)
			for verdict, all := range calls() {
				for lane, took := range all {
					s.Handled(t.Context(), lane-1, 1, took, verdict)
				}
			}
		}
	}
	got, want := process(t, ours.Handler()), process(t, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	if got != want || strings.Count(want, "_count") != 10 {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestNoDurationIsLostBetweenLanes(t *testing.T) {
	in := newTelemetry(t, telemetry.Options{})
	s := in.Stream("orders")
	var workers sync.WaitGroup
	for lane := range 40 {
		workers.Go(func() {
			for range 1000 {
				s.Handled(t.Context(), lane, 1, time.Millisecond, stepwell.Done)
			}
		})
	}
	workers.Wait()
	text := process(t, in.Handler())
	for _, want := range []string{`_count{messaging_operation_name="process",messaging_system="kafka",stepwell_stream="orders",stepwell_verdict="done"} 40000`, `"done"} 40` + "\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

func newTelemetry(t *testing.T, o telemetry.Options) *telemetry.Telemetry {
	t.Helper()
	in, err := telemetry.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Shutdown(t.Context()) })
	return in
}

// process is what is shown of the durations.
func process(t *testing.T, metrics http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	var found strings.Builder
	for line := range strings.Lines(w.Body.String()) {
		if strings.Contains(line, "messaging_process_duration") {
			found.WriteString(line)
		}
	}
	return found.String()
}
