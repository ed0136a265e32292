package actor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/internal/call"
)

// lastPart is the part of SHUTDOWN_TIMEOUT that handlers do not get: for confirms, commits, and the
// user's stop function.
func lastPart(cfg *config.Config) time.Duration {
	return min(5*time.Second, cfg.Shutdown.Timeout/5)
}

// leaving is the part of it in which a reader commits and leaves its group: three seconds of five.
func leaving(cfg *config.Config) time.Duration { return lastPart(cfg) * 3 / 5 }

// grace is the part of it that a call may take to return which was cancelled: two fifths, and a
// second at most.
func grace(cfg *config.Config) time.Duration { return min(time.Second, lastPart(cfg)*2/5) }

// closing is the part of SHUTDOWN_TIMEOUT that the user's functions do not get: for connections,
// HTTP and telemetry.
func (a *Actor) closing() time.Duration {
	return min(time.Second, a.cfg.Shutdown.Timeout/10)
}

// stopBegins starts the budget of the stop, unless it runs already. The stop function's goroutine
// reads it later, once it was told to stop.
func (a *Actor) stopBegins() {
	if a.over.IsZero() {
		a.over = time.Now().Add(a.cfg.Shutdown.Timeout)
		a.log.Info("stop", "budget", a.cfg.Shutdown.Timeout)
	}
}

var errStartHangs = errors.New("did not return in its part of the stop's budget though its context had ended: its goroutine is left behind")

// startFunction calls the user's start function. Once ctx has ended, since the actor is to stop or
// a part of it failed, it may return for as long as the stop lasts.
func (a *Actor) startFunction(ctx context.Context) error {
	if a.app.Start == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	returned := called(func() error {
		return a.app.Start(ctx, &Env{Config: a.cfg, Logger: a.log, producer: a.producer, jobs: newJobs(a.cfg, a.streams), shared: a.shared})
	})
	select {
	case err := <-returned:
		return inStart(err)
	case <-ctx.Done():
	}
	a.stopBegins()
	select {
	case err := <-returned:
		return inStart(err)
	case <-time.After(time.Until(a.over) - a.closing()):
		return inStart(errStartHangs)
	}
}

// called calls a function of the user's and sends its error. The goroutine is left behind if the
// function never returns; where that ends it, only the deferred call runs.
func called(function func() error) <-chan error {
	returned := make(chan error, 1)
	go func() {
		err := call.ErrGoexit
		defer func() { returned <- err }()
		err = caught(function)
	}()
	return returned
}

// caught calls a function of the user's, whose panic is its error: the rest of the actor is to stop
// in order. So is that of its error's methods.
func caught(function func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %s\n%s", call.TextOf(p), debug.Stack())
		}
	}()
	err = function()
	_, _ = fmt.Sprint(err), errors.Is(err, context.Canceled) // whoever asks later would meet the panic of its methods
	return err
}

func inStart(err error) error {
	if err != nil {
		return fmt.Errorf("start function: %w", err)
	}
	return nil
}

// stopFunction waits until everything above it is gone, then calls the user's with what is left of
// the budget, unless the start function failed: what that had opened by then is its own to close,
// and a stop function need not look for what is not there.
func (a *Actor) stopFunction(ctx context.Context) error {
	<-ctx.Done()
	if a.app.Stop == nil || !a.started.Load() {
		return nil
	}
	budget, cancel := context.WithDeadline(context.WithoutCancel(ctx), a.over.Add(-a.closing()))
	defer cancel()
	if err := <-called(func() error { return a.app.Stop(budget) }); err != nil {
		return fmt.Errorf("stop function: %w", err)
	}
	return nil
}
