package operations

import (
	"context"
	"time"
)

// A record of what is done at once is written in an end state from its first moment on. So it is
// nobody's to run, to resume or to wait for, in this release and in older ones, which show it; and
// it is forgotten with all others that are over.

// cutOff is what the record of something says that is done at once, until it is done.
const cutOff = "it was begun, and its end is not known: the process that did it may have been killed"

// Note does something at once, and keeps a record of it, which nobody runs. do is called once, with
// the id, and says how it ended and in which phase; what is returned is its error. The record is
// there before, as that of something cut off: so a kill leaves it behind. Where no record can be
// made do is not called, and the error says why.
func (r *Runner) Note(ctx context.Context, request Request, do func(ctx context.Context, id string) (Phase, error)) (Operation, error) {
	if r.isClosed() {
		return Operation{}, ErrClosed
	}
	return r.cfg.note(ctx, request, do)
}

func (c Config) note(ctx context.Context, request Request, do func(ctx context.Context, id string) (Phase, error)) (Operation, error) {
	request.ID = NewID(request.CreatedAt)
	at := State{Runner: c.Name, Alone: c.Alone, StartedAt: request.CreatedAt}.ending(Failed, cutOff, request.CreatedAt)
	if err := c.Store.Create(ctx, request, at); err != nil {
		return Operation{}, err
	}
	phase, err := do(ctx, request.ID)
	at = at.ending(phase, "", time.Now().UTC())
	at.Complete = true
	if err != nil {
		at.Why = err.Error()
	} else {
		at.Matched, at.Done = 1, 1
	}
	// Beyond a ctx that is over: it is done.
	if _, kept := c.Store.Change(context.WithoutCancel(ctx), request.ID, func(State) (State, error) { return at, nil }); kept != nil {
		c.Logger.Warn("what became of an operation could not be recorded", "operation", request.ID, "action", request.Action, "state", at.Phase, "error", kept)
	}
	return Operation{request, at}, err
}

// Note does something at once and keeps a record of it; see [Runner.Note].
func (e *Either) Note(ctx context.Context, request Request, do func(ctx context.Context, id string) (Phase, error)) (Operation, error) {
	why := e.withoutRecords(ctx)
	switch {
	case why == nil:
		return e.Shared.Note(ctx, request, do)
	case e.Alone.isClosed():
		return Operation{}, ErrClosed
	}
	alone := e.Alone.cfg
	alone.Alone = why.Error()
	return alone.note(ctx, request, do)
}
