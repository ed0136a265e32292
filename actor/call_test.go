package actor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/telemetry"
	"github.com/stepwell/stepwell/streams"
)

// newDispatch is that of a stream that measures as it does in production.
func newDispatch(t testing.TB, handler stepwell.Handler) *dispatch {
	t.Helper()
	measured, err := telemetry.New(telemetry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = measured.Shutdown(context.Background()) })
	return &dispatch{caller: caller{handler: handler, timeout: time.Minute, telemetry: measured.Stream("orders"), calls: newCalls(1)}}
}

func succeed(context.Context, *stepwell.Message) error { return nil }

// BenchmarkDispatch is what a message costs between the stream's worker and its handler and back, when the handler succeeds.
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
			b.ReportAllocs()
			for b.Loop() {
				if d.first(ctx, m, streams.Ticket{}) != streams.Settled {
					b.Fatal("not settled")
				}
			}
		})
	}
}

// BenchmarkCallInARow is that for fast first tries, of which many have a context and a measurement together.
func BenchmarkCallInARow(b *testing.B) {
	d := newDispatch(b, succeed)
	m := &stepwell.Message{ID: "orders.v1:0:1", Stream: "orders", Value: make([]byte, 100), Attempt: 1}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	const row = 64
	b.ReportAllocs()
	for b.Loop() {
		at := timing{&d.calls.lanes[0], time.Now()}
		for range row {
			if run(ctx, d, m, firstTry{}, at) != settled {
				b.Fatal("not settled")
			}
		}
		d.ended(0, time.Since(at.began), 0)
	}
	b.ReportMetric(row, "calls/op")
}

func TestASuccessfulCallAllocatesNextToNothing(t *testing.T) {
	d := newDispatch(t, succeed)
	m := &stepwell.Message{ID: "orders.v1:0:1", Stream: "orders"}
	ctx := t.Context()
	n := testing.AllocsPerRun(100, func() {
		for range contextsAtOnce {
			d.first(ctx, m, streams.Ticket{})
		}
	})
	if n > 1 {
		t.Errorf("%v allocations for %d messages, want 1", n, contextsAtOnce)
	}
}

func TestAHandlersContextTellsWhenAndWhyItEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDispatch(t, func(ctx context.Context, _ *stepwell.Message) error {
			if at, ok := ctx.Deadline(); !ok || time.Until(at) != time.Minute {
				t.Errorf("deadline in %v", time.Until(at))
			}
			time.Sleep(time.Minute)
			if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("without a timer: %v", err)
			}
			<-ctx.Done()
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			if !errors.Is(child.Err(), context.DeadlineExceeded) || !errors.Is(context.Cause(child), errHandlerTimeout) {
				t.Errorf("ended with %v, cause %v", child.Err(), context.Cause(child))
			}
			return nil
		})
		if got := d.first(t.Context(), &stepwell.Message{}, streams.Ticket{}); got != streams.Settled {
			t.Errorf("outcome %v", got)
		}
	})
}

func TestAContextThatOutlivesItsCallHasEnded(t *testing.T) {
	for _, test := range []struct {
		name  string
		asked bool
	}{{"asked for Done during the call", true}, {"not asked", false}} {
		t.Run(test.name, func(t *testing.T) {
			var kept context.Context
			d := newDispatch(t, func(ctx context.Context, _ *stepwell.Message) error {
				if kept = ctx; test.asked {
					ctx.Done()
				}
				return nil
			})
			parent := context.WithValue(t.Context(), key{}, "value")
			d.first(parent, &stepwell.Message{}, streams.Ticket{})
			child, cancel := context.WithCancel(kept)
			defer cancel()
			<-kept.Done()
			<-child.Done()
			if !errors.Is(kept.Err(), context.Canceled) || !errors.Is(context.Cause(child), context.Canceled) || child.Value(key{}) != "value" {
				t.Errorf("err %v, cause %v, value %v", kept.Err(), context.Cause(child), child.Value(key{}))
			}
		})
	}
}

// A handler that kept its context, and did not ask for Done, has it end with the calls in a row of which its own was one.
func TestCallsInARowThatDoNotAskForDoneShareAContext(t *testing.T) {
	var kept []context.Context
	var answer error
	ask := false
	d := newDispatch(t, func(ctx context.Context, _ *stepwell.Message) error {
		kept = append(kept, ctx)
		if ask {
			ctx.Done()
		}
		return answer
	})
	d.inPlace.drop = true
	parent, other := t.Context(), context.WithValue(t.Context(), key{}, "other")
	began := time.Now()
	call := func(ctx context.Context) {
		if run(ctx, d, &stepwell.Message{}, firstTry{}, timing{&d.calls.lanes[0], began}) != settled {
			t.Error("not settled")
		}
	}
	alive := func(want ...bool) {
		t.Helper()
		for i, ctx := range kept {
			if (ctx.Err() == nil) != want[i] {
				t.Errorf("context of call %d ended with %v", i, ctx.Err())
			}
		}
	}
	call(parent)
	call(parent)
	if kept[0] != kept[1] {
		t.Error("two calls that nothing tells apart have a context each")
	}
	alive(true, true)
	ask = true
	call(parent)
	alive(false, false, false)
	ask = false
	call(parent)
	kept[3].Done() // by somebody who outlives the call
	alive(false, false, false, true)
	call(parent)
	alive(false, false, false, false, false)
	call(parent)
	call(other)
	alive(false, false, false, false, false, false, true)
	answer = errors.New("declined")
	call(other)
	answer = nil
	call(other)
	alive(false, false, false, false, false, false, false, false, true)
	began = began.Add(time.Millisecond)
	call(other)
	if a, _ := kept[8].Deadline(); !a.Before(began.Add(time.Minute)) {
		t.Errorf("deadline %v", a)
	}
	alive(false, false, false, false, false, false, false, false, false, true)
	d.ended(0, time.Millisecond, 0)
	alive(false, false, false, false, false, false, false, false, false, false)
}

type key struct{}

func TestTheOldestCallIsSeenWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var d *dispatch
		d = newDispatch(t, func(context.Context, *stepwell.Message) error {
			time.Sleep(time.Hour)
			if got := d.calls.oldest(); got.Sub(began).Abs() > time.Microsecond {
				t.Errorf("the oldest call began at %v, want %v", got, began)
			}
			return nil
		})
		d.first(t.Context(), &stepwell.Message{}, streams.Ticket{})
		if got := d.calls.oldest(); !got.IsZero() {
			t.Errorf("a call since %v, though none runs", got)
		}
	})
}
