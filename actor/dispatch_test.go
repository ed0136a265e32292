package actor

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/call"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/internal/telemetry"
	"github.com/stepwell/stepwell/retry"
)

// newDispatch is that of a stream that measures as it does in production.
func newDispatch(t testing.TB, handler stepwell.Handler) *dispatch {
	t.Helper()
	all, err := telemetry.New(telemetry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = all.Shutdown(context.Background()) })
	measured := all.Stream("orders")
	return &dispatch{
		calls:     call.New(call.Config{Handler: handler, Timeout: time.Minute, Lanes: 1, Telemetry: measured}),
		telemetry: measured,
	}
}

// worker is a goroutine of a source: it has lane 0.
type worker struct{ began time.Time }

func (w *worker) Running() (int, time.Time) { return 0, w.began }
func (*worker) Rest(ctx context.Context, _ int64, d time.Duration, _ *stepwell.Message) bool {
	return task.Sleep(ctx, d)
}
func (*worker) RestUntil(ctx context.Context, _ int64, over <-chan struct{}, _ *stepwell.Message) {
	task.Wait(ctx, over)
}

// ticket is for a call that begins now.
func (w *worker) ticket() task.Ticket {
	w.began = time.Now()
	return task.NewTicket(nil, 0, w)
}

func succeed(context.Context, *stepwell.Message) error { return nil }

// BenchmarkDispatch is what a call that is measured alone costs between its worker, which looks at
// the clock, and its handler and back, when the handler succeeds.
func BenchmarkDispatch(b *testing.B) {
	for _, variant := range []struct {
		name    string
		handler stepwell.Handler
	}{
		{"plain", succeed},
		{"handler that waits on its context", func(ctx context.Context, _ *stepwell.Message) error { ctx.Done(); return nil }},
	} {
		b.Run(variant.name, func(b *testing.B) {
			d := newDispatch(b, variant.handler)
			m := &stepwell.Message{ID: "orders.v1:0:1", Stream: "orders", Value: make([]byte, 100), Attempt: 1}
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			var w worker
			t := w.ticket()
			b.ReportAllocs()
			for b.Loop() {
				if d.fromLog(ctx, m, t) != task.Settled {
					b.Fatal("not settled")
				}
				d.calls.Ended(0, time.Microsecond, time.Microsecond)
			}
		})
	}
}

// parked is where messages come from that are settled once they are parked.
type parked struct {
	worker
	settled chan struct{}
}

func (p *parked) Settle(int64)                { p.settled <- struct{}{} }
func (*parked) Context() context.Context      { return context.Background() }
func (*parked) Trace() (parent, state string) { return "", "" }
func (*parked) Alone(int64) bool              { return false }

// BenchmarkFailure is what a first try that fails costs until it is confirmed in its delay queue,
// on queues in memory.
func BenchmarkFailure(b *testing.B) {
	away := errors.New("the bank answers 503")
	d := newDispatch(b, func(context.Context, *stepwell.Message) error { return away })
	d.failures = newFailureLog(slog.New(slog.DiscardHandler), config.Log{}, config.Stream{Retry: config.Retry{Enabled: new(true)}}, nil)
	d.calls.Tried = d.failures.tried
	ctx, cancel := context.WithCancel(b.Context())
	broker, running := memory.New(), sync.WaitGroup{}
	defer running.Wait()
	defer cancel()
	running.Go(func() { _ = broker.Run(ctx) })
	var err error
	if d.retrier, err = retry.New(retry.Config{
		App: "app", Stream: "orders", Broker: broker, Logger: slog.New(slog.DiscardHandler), Delays: []time.Duration{24 * time.Hour}, Telemetry: d.telemetry,
		Telling: retry.Telling{By: envelope.By("shipping-7d9c5bd6f4-x2x9k", "v1.8.0")},
	}); err != nil {
		b.Fatal(err)
	}
	if err := d.retrier.Declare(ctx); err != nil {
		b.Fatal(err)
	}
	m := &stepwell.Message{
		ID: "orders.v1:7:123456789", Stream: "orders", Key: []byte("customer-4711"), Value: make([]byte, 100), Time: time.Now(), Attempt: 1,
		Origin: stepwell.Origin{Topic: "orders.v1", Partition: 7, Offset: 123456789},
	}
	p := parked{settled: make(chan struct{}, 1)}
	b.ReportAllocs()
	for b.Loop() {
		p.began = time.Now()
		if d.fromLog(ctx, m, task.NewTicket(&p, 0, &p)) != task.Pending {
			b.Fatal("not parked")
		}
		<-p.settled
		d.calls.Ended(0, time.Microsecond, time.Microsecond)
	}
}

// BenchmarkCallInARow is that for fast first tries, of which many have a context and a measurement
// together.
func BenchmarkCallInARow(b *testing.B) {
	d := newDispatch(b, succeed)
	m := &stepwell.Message{ID: "orders.v1:0:1", Stream: "orders", Value: make([]byte, 100), Attempt: 1}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	const row = 64
	var w worker
	b.ReportAllocs()
	for b.Loop() {
		t := w.ticket()
		for range row {
			if o, _ := d.run(ctx, m, t); o != task.Settled {
				b.Fatal("not settled")
			}
		}
		d.calls.Ended(0, time.Since(w.began), 0)
	}
	b.ReportMetric(row, "calls/op")
}

func TestASuccessfulCallAllocatesNextToNothing(t *testing.T) {
	const contextsAtOnce = 32
	d := newDispatch(t, succeed)
	m := &stepwell.Message{ID: "orders.v1:0:1", Stream: "orders"}
	ctx := t.Context()
	var w worker
	n := testing.AllocsPerRun(100, func() {
		for range contextsAtOnce {
			d.fromLog(ctx, m, w.ticket())
			d.calls.Ended(0, time.Microsecond, 0)
		}
	})
	if n > 1 {
		t.Errorf("%v allocations for %d messages, want 1", n, contextsAtOnce)
	}
}

// saying is an error whose verdict is of this kind, also where no constructor makes such a one yet.
func saying(k stepwell.Kind) error {
	err := stepwell.DeadLetter(nil)
	reflect.ValueOf(err).Elem().FieldByName("Kind").SetInt(int64(k))
	return err
}

// A verdict that nobody thought of would end the process, and any other that gets the message.
func TestAVerdictOfEveryKindIsCarriedOut(t *testing.T) {
	var said error
	d := newDispatch(t, func(context.Context, *stepwell.Message) (err error) {
		err, said = said, nil // a message that was put off is called again
		return err
	})
	d.hold.drop = true
	var w worker
	for k := stepwell.Retry; k < stepwell.Kinds; k++ {
		ticket := w.ticket()
		for range 2 { // measured together
			said = saying(k)
			if got := d.fromLog(t.Context(), &stepwell.Message{ID: "orders.v1:0:1"}, ticket); got != task.Settled {
				t.Errorf("%v: %v", k, got)
			}
		}
		d.calls.Ended(0, time.Millisecond, time.Microsecond)
	}
}
