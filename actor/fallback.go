package actor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/internal/call"
	"github.com/stepwell/stepwell/internal/task"
)

// fallback is the OnDead of a stream or channel: it is called in place of the dead set.
type fallback struct {
	calls *call.Caller
	// last says that no try is left after the attempt failed.
	last func(attempt int) bool
}

// failedWith is the key of what the handler returned in the context of an OnDead.
type failedWith struct{}

// newFallback makes the caller of a stream's OnDead; nil: it has none.
func newFallback(onDead func(context.Context, *stepwell.Message, error) error, cfg config.Stream, consumerTimeout time.Duration) (*fallback, error) {
	switch {
	case onDead == nil:
		return nil, nil
	case !*cfg.Retry.Enabled:
		return nil, errors.New("OnDead is for streams whose failures go to a dead set: without retries none does")
	// A retry holds its delivery for the handler's time and OnDead's: both have to end well before
	// the broker gives up the consumer.
	case cfg.HandlerTimeout > consumerTimeout/4:
		return nil, fmt.Errorf("with OnDead, which has the handler's time once more, the handler's time-out of %s must be at most a quarter of "+
			"the broker's consumer time-out of %s", cfg.HandlerTimeout, consumerTimeout)
	}
	handler := func(ctx context.Context, m *stepwell.Message) error {
		err, _ := ctx.Value(failedWith{}).(error)
		return onDead(ctx, m, err)
	}
	return &fallback{calls: call.New(call.Config{
		Handler: handler, Timeout: cfg.HandlerTimeout, Lanes: 2 * cfg.Concurrency,
		Direct: func(string) error { return errors.New("OnDead cannot hand over") },
	})}, nil
}

// takeOver calls OnDead for a message that would die now. No answer means that it was taken over;
// else it is what the dead set is told. ok is as for [call.Caller.Call].
func (f *fallback) takeOver(ctx context.Context, came stepwell.Message, a *call.Answer, t task.Ticket) (_ *call.Answer, ok bool) {
	if f == nil || !a.Failed() || a.Kind != stepwell.Dead && !f.last(came.Attempt) {
		return a, true
	}
	// A handler that panicked returned nothing; its failure says what it threw.
	err := a.Err
	if err == nil {
		err = a.Failure
	}
	said, ok := f.calls.CallAnew(context.WithValue(ctx, failedWith{}, err), came.Clone(), t)
	if said == nil || !ok {
		return nil, ok
	}
	// A copy: the answer may be shown elsewhere, too.
	both := *a
	both.Failure = &call.Failure{
		Text: a.Failure.Text + "; OnDead: " + said.Failure.Text, Type: a.Failure.Type, Stack: a.Failure.Stack + said.Failure.Stack, Group: a.Failure.Group,
	}
	return &both, true
}
