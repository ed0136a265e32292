package rabbit

import (
	"context"
	"slices"

	"github.com/stepwell/stepwell/internal/queue"
)

// bound are the queues that are bound to an exchange of somebody else's, unless they are only
// compared.
func (t *topology) bound() []queue.Spec {
	if t.b.config.DeclareOnlyCheck {
		return nil
	}
	return slices.DeleteFunc(t.kept(), func(s queue.Spec) bool { return len(s.Keys) == 0 })
}

// bindAgain binds them once more. An exchange that is deleted and made anew has no bindings, and
// nobody is told: its messages would go nowhere, while all looks well.
func (t *topology) bindAgain(ctx context.Context, s *session) {
	const part = "bindings"
	specs := t.bound()
	if s == nil || len(specs) == 0 {
		return
	}
	switch err := t.heal(ctx, s, specs); {
	case err == nil:
		t.b.trouble.clear(part)
	case ctx.Err() == nil && s.alive():
		t.b.trouble.set(part, err.Error())
	}
}
