package actor

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"
)

// together runs functions side by side. One that fails ends the context of all. Unlike an errgroup
// it keeps all errors, in the order in which they came: where parts are stopped together, the first
// that returns need not be the one that names the cause.
type together struct {
	group *errgroup.Group

	mu   sync.Mutex // guards errs
	errs []error
}

func newTogether(ctx context.Context) (*together, context.Context) {
	group, ctx := errgroup.WithContext(ctx)
	return &together{group: group}, ctx
}

func (t *together) run(f func() error) {
	t.group.Go(func() error {
		err := f()
		if err != nil {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.errs = append(t.errs, err)
		}
		return err
	})
}

// wait returns when all have.
func (t *together) wait() error {
	_ = t.group.Wait() // its error is one of them
	return errors.Join(t.errs...)
}
