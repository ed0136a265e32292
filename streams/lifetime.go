package streams

import "context"

// lifetime is how an assignment ends: first nothing of it runs any more, or else its calls are
// cancelled; then it is no longer ours to settle.
type lifetime struct {
	// owned ends when the partition is no longer ours to settle: what was not sent by then is the
	// next owner's to send.
	owned  context.Context
	disown context.CancelCauseFunc
	// handling is the context of handler calls. It ends with owned, and earlier when a drain has no
	// more time.
	handling    context.Context
	cancelCalls context.CancelCauseFunc

	done   chan struct{} // closed when nothing of it runs, or will
	over   bool          // done is closed; the partition's lock guards it
	awaits *partition    // the assignment before, while calls of it run; likewise guarded
}

func newLifetime(life context.Context) (l lifetime) {
	l.done = make(chan struct{})
	l.owned, l.disown = context.WithCancelCause(life)
	l.handling, l.cancelCalls = context.WithCancelCause(l.owned)
	return l
}

// Context ends, with a cause, when the partition is no longer ours.
func (l *lifetime) Context() context.Context { return l.owned }

// Calls is the context of handlers.
func (l *lifetime) Calls() context.Context { return l.handling }

// isDone says that nothing of it runs, or will.
func (l *lifetime) isDone() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}
