package actor_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

func TestAHandlerThatCallsGoexitEndsTheActorWithAnErrorAndNothingIsLost(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		const n = 60
		for _, attempt := range []int{1, 2} {
			w.produce(several(fmt.Sprintf("good at %d", attempt), n)...)
			w.produce(values(fmt.Sprintf("bad at %d", attempt))...)
			w.produce(several(fmt.Sprintf("better at %d", attempt), n)...)
			var healed atomic.Bool
			y := newTally()
			app := orders(func(ctx context.Context, m *stepwell.Message) error {
				_ = y.handler(failsOnce)(ctx, m)
				switch {
				case strings.HasPrefix(string(m.Value), "bad") && m.Attempt == attempt && !healed.Load():
					runtime.Goexit()
				case strings.HasPrefix(string(m.Value), "bad") && m.Attempt == 1:
					return errFlaky
				}
				return nil
			})
			r := w.start(app, settings{"RETRY_COUNT": "2", "CONCURRENCY": "3"})
			select {
			case <-r.ended:
			case <-time.After(40 * time.Second):
				t.Fatal("the actor goes on")
			}
			if text := fmt.Sprint(r.err); !strings.Contains(text, "runtime.Goexit") {
				t.Errorf("the error says %q", text)
			}
			healed.Store(true)
			again := w.start(app, settings{"RETRY_COUNT": "2", "KAFKA_SESSION_TIMEOUT": "6s", "CRASH_PROBATION": "7s"})
			eventually(t, "all is done", func() bool {
				tried, _ := y.count()
				return tried == 2*n+1 && y.triesOf(fmt.Sprintf("bad at %d", attempt)) >= 3 && w.committed() == int64(attempt)*(2*n+1)
			})
			again.end()
		}
	})
}

func TestAStreamThatFailsWaitsForTheCallsOfOthersNoLongerThanAStopDoes(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	held := make(chan struct{}, 1)
	r := w.start(actor.App{Streams: actor.Streams{
		"orders": {Handler: func(context.Context, *stepwell.Message) error {
			<-held
			runtime.Goexit()
			return nil
		}},
		"others": {Handler: func(ctx context.Context, _ *stepwell.Message) error {
			held <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}},
	}}, settings{"STREAMS_OTHERS_TOPICS": w.topic, "SHUTDOWN_TIMEOUT": "2s"})
	w.produce(values("one")...)
	select {
	case <-r.ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the actor waits for a call that waits for its end")
	}
	if text := fmt.Sprint(r.err); !strings.Contains(text, "runtime.Goexit") {
		t.Errorf("the error says %q", text)
	}
}

// A call that returns never would else keep the process up, which takes nothing any more.
func TestACallThatHangsBesideOneThatCallsGoexitDoesNotKeepTheActorUp(t *testing.T) {
	inBatches := func(handle stepwell.Handler) actor.App {
		return batched(func(ctx context.Context, b *stepwell.Batch) error { return handle(ctx, b.Messages()[0]) })
	}
	for what, c := range map[string]struct {
		hangs, ends string
		app         func(handler stepwell.Handler) actor.App
	}{
		"two first tries":             {"hangs at 1", "ends at 1", orders},
		"two second tries":            {"hangs at 2", "ends at 2", orders},
		"a first and a second try":    {"hangs at 1", "ends at 2", orders},
		"one of batches and a second": {"hangs at 1", "ends at 2", inBatches},
		"two batches":                 {"hangs at 1", "ends at 1", inBatches},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := embeddedWorld(t)
			forever, hanging := make(chan struct{}), make(chan struct{})
			t.Cleanup(func() { close(forever) })
			app, b := logged(c.app(func(_ context.Context, m *stepwell.Message) error {
				switch fmt.Sprintf("%s at %d", m.Value, m.Attempt) {
				case c.hangs:
					close(hanging)
					<-forever
				case c.ends:
					<-hanging
					runtime.Goexit()
				}
				return errFlaky
			}))
			r := w.start(app, settings{"ORDER": "none", "BATCH_SIZE": "1", "CONCURRENCY": "3", "HANDLER_TIMEOUT": "500ms", "SHUTDOWN_TIMEOUT": "3s"})
			w.produce(keyed("a", "hangs")...)
			w.produce(keyed("b", "ends")...)
			select {
			case <-r.ended:
			case <-time.After(20 * time.Second):
				t.Fatal("the actor goes on")
			}
			if text := fmt.Sprint(r.err); !strings.Contains(text, "runtime.Goexit") {
				t.Errorf("the error says %q", text)
			}
			if !b.said("ERROR", "runtime.Goexit", `"attempts":`+c.ends[len(c.ends)-1:]) {
				t.Error("the log does not tell of the message")
			}
		})
	}
}
