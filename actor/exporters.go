package actor

import (
	"fmt"
	"strings"
)

// unexported says which variables ask for an export that nobody does: nothing but package otlp
// reads them, and the app passes no provider for their signal. It is a list for the log, empty
// where all is well.
func unexported(t Telemetry, variable func(string) string) []string {
	if strings.EqualFold(variable("OTEL_SDK_DISABLED"), "true") {
		return nil
	}
	var warnings []string
	signals := []struct {
		what, exporter, endpoint string
		provided                 bool
	}{
		{"traces", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", t.Tracer != nil},
		{"metrics", "OTEL_METRICS_EXPORTER", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", t.Meter != nil},
	}
	for _, s := range signals {
		if s.provided || strings.EqualFold(variable(s.exporter), "none") {
			continue
		}
		for _, name := range []string{s.exporter, s.endpoint, "OTEL_EXPORTER_OTLP_ENDPOINT"} {
			if variable(name) != "" {
				warnings = append(warnings, fmt.Sprintf("%s is set, but no %s are exported: App.Telemetry has no provider for them; package otlp makes one", name, s.what))
				break
			}
		}
	}
	return warnings
}
