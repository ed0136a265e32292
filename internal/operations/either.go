package operations

import (
	"context"
	"slices"
	"sync"
)

// Either has operations in records that all processes share, and where these cannot be had, or
// nobody can run what is in them, since a right or the queue is missing, in this process: that is
// no worse than without records, and each operation says so ([State].Alone).
type Either struct {
	// Shared runs those in records, Alone those of this process. Each has its own; only the lease
	// of a dead set keeps the two apart there.
	Shared, Alone *Runner
	// Missing is why there are no records, which nobody can wait for; nil: there are, or there may
	// be in a moment.
	Missing func() error
	// Impossible is why no process can run those in records; see [Election.Impossible]. Nil: it is
	// not asked.
	Impossible func(ctx context.Context) error
}

// Run runs both until ctx ends.
func (e *Either) Run(ctx context.Context) error {
	var alone sync.WaitGroup
	defer alone.Wait()
	alone.Go(func() { _ = e.Alone.Run(ctx) }) // it ends with ctx, and not before
	return e.Shared.Run(ctx)
}

// of is the runner that knows the operation.
func (e *Either) of(ctx context.Context, id string) *Runner {
	if _, err := e.Alone.cfg.Store.Load(ctx, id); err == nil {
		return e.Alone
	}
	return e.Shared
}

// Ask begins an operation; see [Runner.Ask]. One that was asked for here, with that key, is found
// here, also when there are records by now.
func (e *Either) Ask(ctx context.Context, request Request, rate Rate, key string) (Operation, bool, error) {
	if key != "" && e.of(ctx, idOf(key)) == e.Alone {
		return e.Alone.Ask(ctx, request, rate, key)
	}
	if why := e.withoutRecords(ctx); why != nil {
		return e.Alone.ask(ctx, request, State{Rate: rate, Alone: why.Error()}, key)
	}
	return e.Shared.Ask(ctx, request, rate, key)
}

// withoutRecords is why what is asked for now is kept in this process; nil: it is kept in records.
func (e *Either) withoutRecords(ctx context.Context) error {
	if why := e.Missing(); why != nil || e.Impossible == nil {
		return why
	}
	return e.Impossible(ctx)
}

// Sample counts what an operation would act on; see [Runner.Sample].
func (e *Either) Sample(ctx context.Context, request Request) (Sample, error) {
	return e.Shared.Sample(ctx, request)
}

// Find returns an operation; see [Runner.Find].
func (e *Either) Find(ctx context.Context, id string) (Operation, error) {
	return e.of(ctx, id).Find(ctx, id)
}

// Change changes an operation; see [Runner.Change].
func (e *Either) Change(ctx context.Context, id string, c Change) (Operation, error) {
	return e.of(ctx, id).Change(ctx, id, c)
}

// List returns all operations that are kept, the newest first.
func (e *Either) List(ctx context.Context) ([]Operation, error) {
	here, alone := e.Alone.List(ctx)
	all, err := e.Shared.List(ctx)
	if err != nil && e.Missing() == nil {
		return nil, err
	}
	all = append(all, here...)
	slices.SortFunc(all, newestFirst)
	return all, alone
}

// RunningOn is the id of the operation that runs on that dead set; empty: none is known to.
func (e *Either) RunningOn(t Target) string {
	if id := e.Alone.RunningOn(t); id != "" {
		return id
	}
	return e.Shared.RunningOn(t)
}
