package actor_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
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
			r.endsForGoexit(40 * time.Second)
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
	r.endsForGoexit(20 * time.Second)
}

// endsForGoexit waits until the actor has ended by itself, and wants its error to say why.
func (r *running) endsForGoexit(within time.Duration) {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(within):
		r.t.Fatal("the actor goes on")
	}
	if text := fmt.Sprint(r.err); !strings.Contains(text, "runtime.Goexit") {
		r.t.Errorf("the error says %q", text)
	}
}

// A call that never returns would else keep the process up, which takes nothing any more. Those
// that hang may be left behind first: the error names the message all the same.
func TestACallThatHangsBesideOneThatCallsGoexitDoesNotKeepTheActorUp(t *testing.T) {
	inBatches := func(handle stepwell.Handler) actor.App {
		return batched(func(ctx context.Context, b *stepwell.Batch) error { return handle(ctx, b.Messages()[0]) })
	}
	withOnDead := func(handle stepwell.Handler) actor.App {
		app := orders(handle)
		s := app.Streams["orders"]
		s.OnDead = func(ctx context.Context, m *stepwell.Message, _ error) error {
			m.Attempt = 0 // so that the table tells it from a try
			return handle(ctx, m)
		}
		app.Streams["orders"] = s
		return app
	}
	for what, c := range map[string]struct {
		hang []string // what, and at which try
		ends int      // at which try
		app  func(handler stepwell.Handler) actor.App
	}{
		"two first tries":             {[]string{"hangs at 1"}, 1, orders},
		"two second tries":            {[]string{"hangs at 2"}, 2, orders},
		"a first and a second try":    {[]string{"hangs at 1"}, 2, orders},
		"one of batches and a second": {[]string{"hangs at 1"}, 2, inBatches},
		"two batches":                 {[]string{"hangs at 1"}, 1, inBatches},
		"one of each beside a first":  {[]string{"hangs at 1", "lingers at 2"}, 1, orders},
		"one of each beside a second": {[]string{"hangs at 1", "lingers at 2"}, 2, orders},
		"an OnDead":                   {[]string{"hangs at 1"}, 0, withOnDead},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := embeddedWorld(t)
			forever := make(chan struct{})
			t.Cleanup(func() { close(forever) })
			var hanging sync.WaitGroup
			hanging.Add(len(c.hang))
			app, b := logged(c.app(func(_ context.Context, m *stepwell.Message) error {
				switch at := fmt.Sprintf("%s at %d", m.Value, m.Attempt); {
				case slices.Contains(c.hang, at):
					hanging.Done()
					<-forever
				case at == fmt.Sprintf("ends at %d", c.ends):
					hanging.Wait()
					runtime.Goexit()
				}
				return errFlaky
			}))
			r := w.start(app, settings{"ORDER": "none", "BATCH_SIZE": "1", "CONCURRENCY": "3", "HANDLER_TIMEOUT": "500ms", "SHUTDOWN_TIMEOUT": "3s"})
			w.produce(values("hangs", "lingers", "ends")...)
			r.endsForGoexit(40 * time.Second)
			if !b.said("ERROR", "runtime.Goexit", fmt.Sprintf(`"attempts":%d`, c.ends)) {
				t.Error("the log does not tell of the message")
			}
		})
	}
}

// It is neither parked nor tried again here: the error alone tells of it.
func TestNoTryIsSaidToHaveFailedWhereAHandlerCallsGoexit(t *testing.T) {
	ends := func() error {
		runtime.Goexit()
		return nil
	}
	withOnDead := orders(func(context.Context, *stepwell.Message) error { return errFlaky })
	s := withOnDead.Streams["orders"]
	s.OnDead = func(context.Context, *stepwell.Message, error) error { return ends() }
	withOnDead.Streams["orders"] = s
	for what, c := range map[string]struct {
		app   actor.App
		env   settings
		tries int // that are told
	}{
		"a handler":        {orders(func(context.Context, *stepwell.Message) error { return ends() }), nil, 0},
		"one that is held": {orders(func(context.Context, *stepwell.Message) error { return ends() }), settings{"RETRY_ENABLED": "false"}, 0},
		"a batch":          {batched(func(context.Context, *stepwell.Batch) error { return ends() }), nil, 0},
		"a batch that has marked one": {batched(func(_ context.Context, b *stepwell.Batch) error {
			b.Fail(b.Messages()[0], errFlaky)
			return ends()
		}), nil, 0},
		"an OnDead": {withOnDead, settings{"RETRY_COUNT": "0"}, 1},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := embeddedWorld(t)
			app, b := logged(c.app)
			r := w.start(app, c.env)
			w.produce(values("one", "two")...)
			r.endsForGoexit(20 * time.Second)
			if tries, _ := b.about(t, "a message failed"); len(tries) != c.tries || !b.said("ERROR", "a handler ended its goroutine with runtime.Goexit") {
				t.Errorf("the log: %s", b)
			}
		})
	}
}
