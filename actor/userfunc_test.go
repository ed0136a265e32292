package actor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

func done(context.Context, *stepwell.Message) error { return nil }

func TestTheStopFunctionHasWhatTheStreamsLeaveOfTheBudget(t *testing.T) {
	for name, test := range map[string]struct {
		handler     stepwell.Handler
		budget      string
		least, most time.Duration
	}{
		"quick handlers":                 {done, "25s", 20 * time.Second, 24 * time.Second},
		"a handler that uses its part":   {func(ctx context.Context, _ *stepwell.Message) error { <-ctx.Done(); return ctx.Err() }, "5s", -time.Second, 500 * time.Millisecond},
		"quick handlers, a small budget": {done, "5s", 2 * time.Second, 4500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := embeddedWorld(t)
			handling := make(chan struct{}, 1)
			app := orders(func(ctx context.Context, m *stepwell.Message) error {
				handling <- struct{}{}
				return test.handler(ctx, m)
			})
			left := make(chan time.Duration, 1)
			app.Stop = func(ctx context.Context) error {
				at, _ := ctx.Deadline()
				left <- time.Until(at)
				return nil
			}
			r := w.start(app, settings{"SHUTDOWN_TIMEOUT": test.budget})
			w.produce(values("x")...)
			<-handling
			r.end()
			if got := <-left; got < test.least || got > test.most {
				t.Errorf("the stop function had %v, want %v to %v", got, test.least, test.most)
			}
		})
	}
}

func TestAStopFunctionThatDoesNotReturnIsNamed(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	hang := make(chan struct{})
	defer close(hang)
	app := orders(done)
	app.Stop = func(context.Context) error { <-hang; return nil }
	r := w.start(app, settings{"SHUTDOWN_TIMEOUT": "1s"})
	r.ready()
	r.stop()
	within(t, 10*time.Second, "the actor ends", func() bool {
		select {
		case <-r.ended:
			return true
		default:
			return false
		}
	})
	if r.err == nil || !strings.Contains(r.err.Error(), "stop function") {
		t.Errorf("Run: %v", r.err)
	}
}

func TestAStopThatComesDuringTheStartFunctionEndsItsContextAndWaitsNoLongerThanTheBudget(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	for name, test := range map[string]struct {
		start       func(context.Context) error
		stops       bool // the stop function is called
		says        string
		least, most time.Duration
	}{
		"it hangs":                       {func(context.Context) error { <-hang; return nil }, false, "start function: did not return", 5 * time.Second, 18 * time.Second},
		"it returns the context's error": {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, false, "", 0, 5 * time.Second},
		"it returns its own error":       {func(ctx context.Context) error { <-ctx.Done(); return errors.New("half done") }, false, "start function: half done", 0, 5 * time.Second},
		"it returns nil":                 {func(ctx context.Context) error { <-ctx.Done(); return nil }, true, "", 0, 5 * time.Second},
		"it calls Goexit":                {func(ctx context.Context) error { <-ctx.Done(); runtime.Goexit(); return nil }, false, "start function: the function called runtime.Goexit", 0, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := embeddedWorld(t)
			app := orders(done)
			starting := make(chan struct{})
			stopped := false
			app.Start = func(ctx context.Context, _ *actor.Env) error { close(starting); return test.start(ctx) }
			app.Stop = func(context.Context) error { stopped = true; return nil }
			r := w.start(app, settings{"SHUTDOWN_TIMEOUT": "10s"})
			<-starting
			began := time.Now()
			r.stop()
			<-r.ended
			if took := time.Since(began); took < test.least || took > test.most {
				t.Errorf("the stop took %v, want %v to %v", took, test.least, test.most)
			}
			if test.says == "" && r.err != nil || test.says != "" && (r.err == nil || !strings.Contains(r.err.Error(), test.says)) {
				t.Errorf("Run: %v, want %q", r.err, test.says)
			}
			if stopped != test.stops {
				t.Errorf("the stop function was called: %v", stopped)
			}
		})
	}
}

// A start function whose context goes on never returns here: it is left behind, and the stop
// function is not called.
func TestAPartThatFailsEndsTheContextOfTheStartFunction(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		returns func(context.Context) error
		stops   bool // the stop function is called
	}{
		"which returns its error": {context.Context.Err, false},
		"which returns nil":       {func(context.Context) error { return nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := embeddedWorld(t)
			first := w.start(orders(done), nil)
			first.ready()
			app := orders(done)
			stopped := false
			app.Start = func(ctx context.Context, _ *actor.Env) error {
				<-ctx.Done()
				return test.returns(ctx)
			}
			app.Stop = func(context.Context) error { stopped = true; return nil }
			second := w.start(app, settings{"SERVER_ADDRESS": first.actor.Address(), "SHUTDOWN_TIMEOUT": "5s"})
			<-second.ended
			if text := fmt.Sprint(second.err); !strings.Contains(text, "http") || strings.Contains(text, "did not return") {
				t.Errorf("Run: %s", text)
			}
			if stopped != test.stops {
				t.Errorf("the stop function was called: %v", stopped)
			}
		})
	}
}

func TestAStopFunctionThatCallsGoexitIsAnErrorOfRun(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	app := orders(done)
	app.Stop = func(context.Context) error { runtime.Goexit(); return nil }
	r := w.start(app, nil)
	r.ready()
	r.stop()
	<-r.ended
	if text := fmt.Sprint(r.err); !strings.Contains(text, "stop function: the function called runtime.Goexit") {
		t.Errorf("Run: %s", text)
	}
}

// unprintable is an error that package fmt cannot print either.
type unprintable struct{}

func (unprintable) Error() string { panic(unprintable{}) }

func TestAStartFunctionWhoseErrorOrPanicCannotBePrintedEndsTheActorAndNotTheProcess(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func() error{
		"returned": func() error { return unprintable{} },
		"thrown":   func() error { panic(unprintable{}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := embeddedWorld(t)
			app := orders(done)
			app.Start = func(context.Context, *actor.Env) error { return start() }
			r := w.start(app, nil)
			<-r.ended
			if text := fmt.Sprint(r.err); !strings.Contains(text, "start function: panic: a actor_test.unprintable that cannot be printed") {
				t.Errorf("Run: %s", text)
			}
		})
	}
}
