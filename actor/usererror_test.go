package actor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

// wild is an error whose methods do what is wild to do.
type wild struct {
	error
	in string
	do func()
}

func (w wild) act(method string) {
	if w.in == method {
		w.do()
	}
}

func (w wild) Error() string              { w.act("Error"); return w.error.Error() }
func (w wild) Unwrap() error              { w.act("Unwrap"); return w.error }
func (w wild) Is(error) bool              { w.act("Is"); return false }
func (w wild) As(any) bool                { w.act("As"); return false }
func (w wild) ErrorType() string          { w.act("ErrorType"); return "" }
func (w wild) DeadGroup() string          { w.act("DeadGroup"); return "" }
func (w wild) LogValue() slog.Value       { w.act("LogValue"); return slog.StringValue("wild") }
func (w wild) Format(s fmt.State, _ rune) { w.act("Format"); _, _ = io.WriteString(s, w.error.Error()) }

// holder is an error as one writes it: its methods take a pointer, which is nil.
type holder struct{ inner error }

func (h *holder) Error() string { return h.inner.Error() }
func (h *holder) Unwrap() error { return h.inner }

func TestNoPanicOfAnErrorsMethodsEndsTheProcess(t *testing.T) {
	t.Parallel()
	tests := map[string]func() error{
		"a nil holder":       func() error { return (*holder)(nil) },
		"dead, a nil holder": func() error { return stepwell.DeadLetter((*holder)(nil)) },
	}
	for _, method := range []string{"Error", "Unwrap", "Is", "As", "ErrorType", "DeadGroup", "LogValue", "Format"} {
		err := wild{errFlaky, method, func() { panic(wild{errFlaky, "Error", func() { panic("again") }}) }}
		tests[method] = func() error { return err }
		tests["joined, "+method] = func() error { return errors.Join(err, stepwell.Skip("not so")) }
		tests["dead, "+method] = func() error { return fmt.Errorf("around: %w", stepwell.DeadLetter(err)) }
	}
	exporter := tracetest.NewInMemoryExporter()
	app := orders(func(_ context.Context, m *stepwell.Message) error { return tests[string(m.Value)]() })
	app.Telemetry = actor.Telemetry{Tracer: sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))}
	w := embeddedWorld(t)
	r := w.start(app, settings{"RETRY_COUNT": "1", "RETRY_DELAY": "1ms", "LOG_LEVEL": "debug"})
	for name := range tests {
		w.produce(values(name)...)
	}
	for _, m := range r.deadCount(len(tests)) {
		if m["error"] == "" || m["error_type"] == "" {
			t.Errorf("%v died without a word: %v", m["value"], m)
		}
	}
	r.end()
}

func TestTheDeadSetTellsAllThatTheHandlerSaid(t *testing.T) {
	tests := map[string]struct {
		err                error
		text, reason, kind string
	}{
		"around":        {fmt.Errorf("charge 7: %w", stepwell.DeadLetter(errFlaky)), "charge 7: the service is away", stepwell.ReasonDeadLetter, "*errors.errorString"},
		"around none":   {fmt.Errorf("charge 7: %w", stepwell.DeadLetter(nil)), "charge 7: dead letter", stepwell.ReasonDeadLetter, "stepwell.DeadLetter"},
		"later, none":   {fmt.Errorf("charge 7: %w", stepwell.RetryAfter(nil, time.Minute)), "charge 7: retry after 1m0s", stepwell.ReasonExhausted, "stepwell.RetryAfter"},
		"beside":        {errors.Join(errors.New("audit"), stepwell.DeadLetter(errFlaky)), "audit the service is away", stepwell.ReasonDeadLetter, "*errors.joinError"},
		"skip, failure": {errors.Join(stepwell.Skip("a test"), errFlaky), "skipped: a test the service is away", stepwell.ReasonExhausted, "*errors.joinError"},
		"skip, dead":    {errors.Join(stepwell.Skip("a test"), stepwell.DeadLetter(errFlaky)), "skipped: a test the service is away", stepwell.ReasonDeadLetter, "*errors.joinError"},
	}
	onOneRabbitMQ(t, func(t *testing.T, w *world) {
		r := w.start(orders(func(_ context.Context, m *stepwell.Message) error { return tests[string(m.Value)].err }), settings{"RETRY_COUNT": "0"})
		for name := range tests {
			w.produce(values(name)...)
		}
		for _, m := range r.deadCount(len(tests)) {
			want := tests[fmt.Sprint(m["value"])]
			if m["error"] != want.text || m["reason"] != want.reason || m["error_type"] != want.kind {
				t.Errorf("%v: %v %v %q", m["value"], m["reason"], m["error_type"], m["error"])
			}
		}
	})
}

func TestAPanicInAStartOrStopFunctionIsTheErrorOfRun(t *testing.T) {
	t.Parallel()
	panics := func() error { panic(errFlaky) }
	for name, app := range map[string]actor.App{
		"start function":               {Start: func(context.Context, *actor.Env) error { return panics() }},
		"stop function":                {Stop: func(context.Context) error { return panics() }},
		"start function, by its error": {Start: func(context.Context, *actor.Env) error { return wild{errFlaky, "Is", func() { panic(errFlaky) }} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := embeddedWorld(t)
			app.Streams = orders(func(context.Context, *stepwell.Message) error { return nil }).Streams
			r := w.start(app, nil)
			if app.Stop != nil {
				r.ready()
			}
			r.stop()
			<-r.ended
			function, _, _ := strings.Cut(name, ",")
			if r.err == nil || !hasAll(r.err.Error(), function, "panic: the service is away", "usererror_test.go") {
				t.Errorf("Run: %v", r.err)
			}
		})
	}
}
