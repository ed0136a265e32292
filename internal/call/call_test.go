package call

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/internal/telemetry"
)

// worker calls on one lane, as the reader's and the retries' do.
type worker struct {
	*Caller
	lane  int
	began time.Time
}

func (w *worker) Running() (int, time.Time) { return w.lane, w.began }
func (w *worker) Rest(ctx context.Context, _ int64, d time.Duration, _ *stepwell.Message) bool {
	return task.Sleep(ctx, d)
}
func (w *worker) RestUntil(ctx context.Context, _ int64, over <-chan struct{}, _ *stepwell.Message) {
	task.Wait(ctx, over)
}

// next is a call in a row: another one may follow.
func (w *worker) next(ctx context.Context, m *stepwell.Message) (*Answer, bool) {
	return w.Call(ctx, m, task.NewTicket(nil, 0, w))
}

// single is a call that is measured alone.
func (w *worker) single(ctx context.Context, m *stepwell.Message) (*Answer, bool) {
	w.began = time.Now()
	defer func() { took := time.Since(w.began); w.Ended(w.lane, took, took) }()
	return w.next(ctx, m)
}

// newWorker measures as it does in production.
func newWorker(t testing.TB, handler stepwell.Handler) *worker {
	t.Helper()
	measured, err := telemetry.New(telemetry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = measured.Shutdown(context.Background()) })
	c := New(Config{Handler: handler, Timeout: time.Minute, Telemetry: measured.Stream("orders"), Lanes: 2})
	return &worker{Caller: c, lane: 1, began: time.Now()}
}

func TestAHandlersContextTellsWhenAndWhyItEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(t, func(ctx context.Context, _ *stepwell.Message) error {
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
		if a, ok := w.single(t.Context(), &stepwell.Message{}); a != nil || !ok {
			t.Errorf("answer %v", a)
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
			w := newWorker(t, func(ctx context.Context, _ *stepwell.Message) error {
				if kept = ctx; test.asked {
					ctx.Done()
				}
				return nil
			})
			parent := context.WithValue(t.Context(), key{}, "value")
			_, _ = w.single(parent, &stepwell.Message{})
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

// A handler that kept its context, and did not ask for Done, has it end with the calls in a row of
// which its own was one.
func TestCallsInARowThatDoNotAskForDoneShareAContext(t *testing.T) {
	var kept []context.Context
	var answer error
	ask := false
	w := newWorker(t, func(ctx context.Context, _ *stepwell.Message) error {
		kept = append(kept, ctx)
		if ask {
			ctx.Done()
		}
		return answer
	})
	parent, other := t.Context(), context.WithValue(t.Context(), key{}, "other")
	call := func(ctx context.Context) {
		if _, ok := w.next(ctx, &stepwell.Message{}); !ok {
			t.Error("no verdict")
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
	w.began = w.began.Add(time.Millisecond)
	call(other)
	if a, _ := kept[8].Deadline(); !a.Before(w.began.Add(time.Minute)) {
		t.Errorf("deadline %v", a)
	}
	alive(false, false, false, false, false, false, false, false, false, true)
	w.Ended(1, time.Millisecond, 0)
	alive(false, false, false, false, false, false, false, false, false, false)
}

type key struct{}

func TestTheOldestCallIsSeenWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var w *worker
		w = newWorker(t, func(context.Context, *stepwell.Message) error {
			time.Sleep(time.Hour)
			if got := w.Oldest(); got.Sub(began).Abs() > time.Microsecond {
				t.Errorf("the oldest call began at %v, want %v", got, began)
			}
			return nil
		})
		_, _ = w.single(t.Context(), &stepwell.Message{})
		if got := w.Oldest(); !got.IsZero() {
			t.Errorf("a call since %v, though none runs", got)
		}
	})
}
