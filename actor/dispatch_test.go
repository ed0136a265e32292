package actor

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/call"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/internal/telemetry"
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
