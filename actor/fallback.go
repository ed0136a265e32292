package actor

import (
	"context"
	"errors"

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

// newFallback makes the caller of a stream's OnDead; nil: it has none. The configuration has seen
// to it that there is a dead set, and time for both.
func newFallback(onDead func(context.Context, *stepwell.Message, error) error, cfg config.Stream, deserted func(m *stepwell.Message, n int)) *fallback {
	if onDead == nil {
		return nil
	}
	handler := func(ctx context.Context, m *stepwell.Message) error {
		err, _ := ctx.Value(failedWith{}).(error)
		return onDead(ctx, m, err)
	}
	return &fallback{calls: call.New(call.Config{
		Handler: handler, Timeout: cfg.HandlerTimeout, Lanes: 2 * cfg.Concurrency,
		Direct: func(string) error { return errors.New("OnDead cannot hand over") }, Deserted: deserted,
	})}
}

// takeOver calls OnDead for a message that would die now. No answer means that it was taken over;
// else it is what the dead set is told. ok is as for [call.Caller.Call].
func (f *fallback) takeOver(ctx context.Context, came stepwell.Message, a *call.Answer, t task.Ticket) (_ *call.Answer, ok bool) {
	if f == nil || !a.Failed() || a.Kind != stepwell.Dead && !f.last(came.Attempt) {
		return a, true
	}
	// Messages of a batch die one after another, which may take long: once they are not ours any
	// more, no further call is begun, and who has them by now makes it.
	if of, _ := t.Place(); ctx.Err() != nil || of != nil && of.Calls().Err() != nil {
		return nil, false
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
	if said.Failure.Text == a.Failure.Text && said.Failure.Stack == "" { // it returned what it was given
		return a, true
	}
	// A copy: the answer may be shown elsewhere, too.
	both := *a
	both.Failure = &call.Failure{
		Text: a.Failure.Text + "; OnDead: " + said.Failure.Text, Type: a.Failure.Type, Stack: a.Failure.Stack + said.Failure.Stack, Group: a.Failure.Group,
	}
	return &both, true
}
