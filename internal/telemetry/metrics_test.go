package telemetry_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/telemetry"
)

// a day is some of everything that can be counted.
func day(t *testing.T, in *telemetry.Telemetry) {
	t.Helper()
	s := in.Stream("orders")
	s.Consumed(100)
	s.Consumed(0)
	s.Handled(t.Context(), 0, 1, time.Millisecond, stepwell.Done)
	s.Handled(t.Context(), 1, 1, time.Millisecond, stepwell.Skipped)
	s.Handled(t.Context(), -1, 1, time.Millisecond, stepwell.Skipped)
	s.Publish("orders.v1:0:7", "", "")(nil)
	s.Retried()
	s.Retried()
	s.Publish("orders.v1:0:8", "", "")(errors.New("the broker is away"))
	s.Died(stepwell.ReasonExhausted)
	s.Duplicate()
	s.Lost(7)
	s.Expired(8)
	s.Dropped()
	s.Replayed(9)
	s.Deleted(10)
}

func TestEachEventIsCountedUnderItsStream(t *testing.T) {
	in := newTelemetry(t, telemetry.Options{App: "shipping"})
	day(t, in)
	text := scrape(in)
	for _, want := range []string{
		`messaging_client_consumed_messages_total{messaging_operation_name="poll",messaging_system="kafka",stepwell_stream="orders"} 100`,
		`messaging_client_sent_messages_total{messaging_operation_name="send",messaging_system="rabbitmq",stepwell_stream="orders"} 3`,
		`messaging_client_operation_duration_seconds_count{messaging_operation_name="send",messaging_operation_type="send",messaging_system="rabbitmq",stepwell_stream="orders"} 1`,
		`messaging_client_operation_duration_seconds_count{error_type="_OTHER",messaging_operation_name="send",messaging_operation_type="send",messaging_system="rabbitmq",stepwell_stream="orders"} 1`,
		`stepwell_messages_skipped_total{stepwell_stream="orders"} 2`,
		`stepwell_retries_total{stepwell_stream="orders"} 2`,
		`stepwell_dead_set_died_total{stepwell_reason="exhausted",stepwell_stream="orders"} 1`,
		`stepwell_duplicates_total{stepwell_stream="orders"} 1`,
		`stepwell_records_lost_total{stepwell_stream="orders"} 7`,
		`stepwell_records_expired_total{stepwell_stream="orders"} 8`,
		`stepwell_messages_dropped_total{stepwell_stream="orders"} 1`,
		`stepwell_dead_set_replayed_total{stepwell_stream="orders"} 9`,
		`stepwell_dead_set_deleted_total{stepwell_stream="orders"} 10`,
		`service_name="shipping"`, `go_goroutines `, `process_cpu_seconds_total `,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

func TestCountersAreZeroBeforeTheirFirstEvent(t *testing.T) {
	in := newTelemetry(t, telemetry.Options{})
	in.Stream("orders")
	text := scrape(in)
	for _, name := range []string{
		"stepwell_retries", "stepwell_duplicates", "stepwell_records_lost", "stepwell_records_expired", "stepwell_messages_dropped",
		"stepwell_messages_skipped", "stepwell_dead_set_replayed", "stepwell_dead_set_deleted",
	} {
		if want := name + `_total{stepwell_stream="orders"} 0`; !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	for _, reason := range []string{"exhausted", "dead_letter", "decode", "undecodable", "too_large", "gone", "crash_loop"} {
		if want := `stepwell_dead_set_died_total{stepwell_reason="` + reason + `",stepwell_stream="orders"} 0`; !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	if want := `stepwell_verdict="done"} 0`; !strings.Contains(text, want) {
		t.Errorf("no %s", want)
	}
}

// A 0 that nothing can move says that all is well, and of what.
func TestWhatReadsNothingFromKafkaHasNoCountersOfIt(t *testing.T) {
	in := newTelemetry(t, telemetry.Options{})
	in.Queue("payments")
	in.Channel("orders", "slow")
	text := scrape(in)
	for _, name := range []string{"messaging_client_consumed_messages_total", "stepwell_records_lost_total", "stepwell_records_expired_total"} {
		if strings.Contains(text, name+"{") {
			t.Errorf("there is %s", name)
		}
	}
	if want := `stepwell_retries_total{stepwell_stream="payments"} 0`; !strings.Contains(text, want) {
		t.Errorf("no %s in\n%s", want, text)
	}
}

func TestCallsOfEveryKindAreCountedUnderTheNameOfTheirVerdict(t *testing.T) {
	own, given := newTelemetry(t, telemetry.Options{}), sdkmetric.NewManualReader()
	theirs := newTelemetry(t, telemetry.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(given))})
	for _, in := range []*telemetry.Telemetry{own, theirs} {
		s := in.Stream("orders")
		for k := stepwell.Done; k < stepwell.Kinds; k++ {
			s.Handled(t.Context(), 0, int(k), time.Millisecond, k)
		}
	}
	text := scrape(own)
	for k := stepwell.Done; k < stepwell.Kinds; k++ {
		if want := fmt.Sprintf("stepwell_verdict=\"%v\"} %d\n", k, k); !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	var got metricdata.ResourceMetrics
	if err := given.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	shown := fmt.Sprintf("%+v", got)
	for k := stepwell.Done; k < stepwell.Kinds; k++ {
		if !strings.Contains(shown, k.String()) {
			t.Errorf("no %v for the user's provider", k)
		}
	}
}

func TestFailuresAreToldApartByAFewTypesOfErrors(t *testing.T) {
	for name, o := range map[string]telemetry.Options{
		"own": {}, "given": {MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))},
	} {
		in := newTelemetry(t, o)
		s := in.Stream("orders")
		for i := range 1000 {
			s.Failed(t.Context(), time.Millisecond, stepwell.Dead, fmt.Sprintf("*type.of%d", i))
		}
		if name == "given" {
			continue
		}
		text := scrape(in)
		if n := strings.Count(text, "messaging_process_duration_seconds_count{error_type="); n != 33 {
			t.Errorf("%d series, want 32 types and what is left", n)
		}
		for _, want := range []string{`count{error_type="*type.of0",`, `count{error_type="_OTHER",`, `stepwell_verdict="dead"} 968`} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s", want)
			}
		}
	}
}

func TestAProviderOfTheUsersGetsTheSameMetricsAndThePageSaysSo(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	theirs := newTelemetry(t, telemetry.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
	day(t, theirs)
	if err := theirs.Observe(look); err != nil {
		t.Fatal(err)
	}
	var got metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range got.ScopeMetrics[0].Metrics {
		names[m.Name] = true
	}
	ours := newTelemetry(t, telemetry.Options{})
	day(t, ours)
	if err := ours.Observe(look); err != nil {
		t.Fatal(err)
	}
	page := scrape(ours)
	for name := range names {
		if !strings.Contains(page, "\n"+strings.ReplaceAll(name, ".", "_")) {
			t.Errorf("%s is not on our own page", name)
		}
	}
	if len(names) != 28 {
		t.Errorf("%d metrics, want 28: %v", len(names), names)
	}
	w := httptest.NewRecorder()
	theirs.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != 404 || !strings.Contains(w.Body.String(), "MeterProvider") {
		t.Errorf("the page answers %d %q", w.Code, w.Body)
	}
}

func look() telemetry.Snapshot {
	return telemetry.Snapshot{RabbitMQ: true, RabbitMQUp: true, Streams: map[string]telemetry.StreamSnapshot{
		"orders":  {Ready: true, Lag: new(int64(1)), Inflight: 2, WindowMessages: 3, WindowBytes: 4, Suspects: 2, Paused: true, Stuck: true, Queues: map[string]int{"a.orders.instant": 5, "a.orders.dead_set": 6}, DeadSet: "a.orders.dead_set"},
		"parcels": {Lag: new(int64), Queues: map[string]int{"a.parcels.instant": 7}, DeadSet: "a.parcels.dead_set"},
	}}
}

func TestGaugesShowWhatIsKnownNow(t *testing.T) {
	in := newTelemetry(t, telemetry.Options{})
	shot := telemetry.Snapshot{}
	if err := in.Observe(func() telemetry.Snapshot { return shot }); err != nil {
		t.Fatal(err)
	}
	if got := gauges(in); len(got) != 0 {
		t.Errorf("with nothing known: %v", got)
	}
	shot = look()
	want := []string{
		`stepwell_consumer_lag{stepwell_stream="orders"} 1`,
		`stepwell_consumer_lag{stepwell_stream="parcels"} 0`,
		`stepwell_dead_set_messages{stepwell_stream="orders"} 6`,
		`stepwell_handler_inflight{stepwell_stream="orders"} 2`,
		`stepwell_handler_inflight{stepwell_stream="parcels"} 0`,
		`stepwell_paused{stepwell_stream="orders"} 1`,
		`stepwell_paused{stepwell_stream="parcels"} 0`,
		`stepwell_queue_messages{stepwell_queue="a.orders.dead_set",stepwell_stream="orders"} 6`,
		`stepwell_queue_messages{stepwell_queue="a.orders.instant",stepwell_stream="orders"} 5`,
		`stepwell_queue_messages{stepwell_queue="a.parcels.instant",stepwell_stream="parcels"} 7`,
		`stepwell_rabbitmq_up 1`,
		`stepwell_stream_ready{stepwell_stream="orders"} 1`,
		`stepwell_stream_ready{stepwell_stream="parcels"} 0`,
		`stepwell_stuck{stepwell_stream="orders"} 1`,
		`stepwell_stuck{stepwell_stream="parcels"} 0`,
		`stepwell_suspects{stepwell_stream="orders"} 2`,
		`stepwell_suspects{stepwell_stream="parcels"} 0`,
		`stepwell_window_bytes{stepwell_stream="orders"} 4`,
		`stepwell_window_bytes{stepwell_stream="parcels"} 0`,
		`stepwell_window_messages{stepwell_stream="orders"} 3`,
		`stepwell_window_messages{stepwell_stream="parcels"} 0`,
	}
	if got := gauges(in); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	shot.Streams["calls"] = telemetry.StreamSnapshot{}
	if got := gauges(in); slices.ContainsFunc(got, func(line string) bool {
		return strings.HasPrefix(line, `stepwell_consumer_lag{stepwell_stream="calls"}`)
	}) {
		t.Errorf("a lag that nobody knows is shown: %v", got)
	}
	shot.RabbitMQUp, shot.Shared = false, true
	if got := gauges(in); !slices.Contains(got, "stepwell_rabbitmq_up 0") || !slices.Contains(got, "stepwell_shared_records_up 0") {
		t.Errorf("RabbitMQ is gone, and not: %v", got)
	}
}

func gauges(in *telemetry.Telemetry) (lines []string) {
	for line := range strings.Lines(scrape(in)) {
		if strings.HasPrefix(line, "stepwell_") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func TestLabelsStayFewHoweverManyMessagesThereAre(t *testing.T) {
	in := newTelemetry(t, telemetry.Options{})
	s := in.Stream("orders")
	series := func(from int) int {
		for i := from; i < from+1000; i++ {
			s.Handled(t.Context(), i, 1, time.Duration(i)*time.Millisecond, stepwell.Retry)
			s.Publish(fmt.Sprintf("orders.v1:0:%d", i), "", "")(fmt.Errorf("error %d", i))
			s.Retried()
		}
		return strings.Count(scrape(in), "orders")
	}
	if first, second := series(0), series(1000); first != second {
		t.Errorf("%d series after 1000 messages, %d after 2000", first, second)
	}
}

func TestNoTelemetryMeasuresNothingAndBreaksNothing(t *testing.T) {
	var none *telemetry.Telemetry
	day(t, none)
	ctx, end := none.Stream("orders").Process(t.Context(), &stepwell.Message{}, telemetry.TraceContext{})
	end(telemetry.Ended{})
	if ctx != t.Context() || none.Stream("orders").Trace(ctx) != (telemetry.TraceContext{}) || none.Handler() != nil {
		t.Error("nothing made something")
	}
	if err := errors.Join(none.Observe(look), none.Shutdown(t.Context())); err != nil {
		t.Error(err)
	}
}

func TestACallAllocatesNothing(t *testing.T) {
	in := newTelemetry(t, telemetry.Options{})
	s := in.Stream("orders")
	ctx, m := t.Context(), &stepwell.Message{}
	allocs := testing.AllocsPerRun(1000, func() {
		handling, end := s.Process(ctx, m, telemetry.TraceContext{})
		s.Handled(handling, 3, 1, time.Millisecond, stepwell.Done)
		end(telemetry.Ended{})
	})
	if allocs != 0 {
		t.Errorf("%.1f allocations a call", allocs)
	}
}

func BenchmarkHandled(b *testing.B) {
	theirs := telemetry.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))}
	for name, o := range map[string]telemetry.Options{"own": {}, "given": theirs} {
		in, err := telemetry.New(o)
		if err != nil {
			b.Fatal(err)
		}
		s := in.Stream(name)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			ctx := b.Context()
			b.RunParallel(func(pb *testing.PB) {
				for lane := 0; pb.Next(); lane = (lane + 1) & 7 {
					s.Handled(ctx, lane, 1, 3*time.Microsecond, stepwell.Done)
				}
			})
		})
	}
}

func scrape(in *telemetry.Telemetry) string {
	w := httptest.NewRecorder()
	in.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}
