package otlp_test

import (
	"context"
	"fmt"

	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/otlp"
)

// A program that exports its traces and metrics where the OTEL_* variables say.
func ExampleTelemetry() {
	tracer, meter, shutdown, err := otlp.Telemetry(context.Background(), "shipping")
	if err != nil {
		fmt.Println(err)
		return
	}
	actor.Main(actor.App{
		Name:      "shipping",
		Telemetry: actor.Telemetry{Tracer: tracer, Meter: meter},
		Stop:      shutdown, // exports what the last messages left
	})
}
