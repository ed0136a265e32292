package actor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/internal/operations"
	"github.com/stepwell/stepwell/server"
)

// newOperations makes the runner of operations on all dead sets that there are. What it keeps ends
// with the process.
func newOperations(lines []*line, log *slog.Logger) *operations.Runner {
	sets := map[operations.Target]operations.DeadSet{}
	for _, l := range lines {
		if l.deadSet != nil {
			sets[operations.Target{Stream: l.id, Channel: l.channel}] = chosenSet{l}
		}
	}
	return operations.New(operations.Config{Store: &operations.Memory{}, Sets: sets, Name: instance(), Logger: log})
}

// instance names this process for people.
func instance() string {
	name, err := os.Hostname()
	if err != nil {
		return fmt.Sprint("process ", os.Getpid())
	}
	return name
}

// untilStop is a part that ends when the stop begins, beside the drain of streams, and not only
// when those above it are gone: while no confirm comes a turn of an operation takes seconds to end,
// which nobody is to wait for after the drain has used up its time.
func untilStop(stop context.Context, run func(context.Context) error) func(context.Context) error {
	return func(part context.Context) error {
		ctx, cancel := context.WithCancel(part)
		defer cancel()
		defer context.AfterFunc(stop, cancel)()
		err := run(ctx)
		if err == nil && stop.Err() != nil {
			<-part.Done() // a part that ends by itself would be a failure
		}
		return err
	}
}

// chosenSet is the dead set of a line as operations see it.
type chosenSet struct{ line *line }

// May refuses a replay where nobody would take what is replayed.
func (c chosenSet) May(action string) error {
	of, is := c.line.served().(leftSet)
	switch {
	case !is:
		return nil
	case action == operations.Replay:
		_, err := of.refuse()
		return err
	}
	return of.there()
}

// Sample counts what the request is about.
func (c chosenSet) Sample(ctx context.Context, r *operations.Request) (operations.Sample, error) {
	chosen, err := c.choose(r)
	if err != nil {
		return operations.Sample{}, err
	}
	found, err := chosen.Sample(ctx)
	if err != nil {
		return operations.Sample{}, forOperations(err)
	}
	return operations.Sample{
		Matched: found.Matched, Bytes: found.Bytes, LeftOut: operations.LeftOut(found.LeftOut), Groups: anyOf(found.Groups), Samples: anyOf(found.Samples),
		Depth: found.Depth, Unsorted: found.Unsorted, Complete: found.Complete, AsOf: found.AsOf,
	}, nil
}

// Turn acts on some of the messages that the request is about.
func (c chosenSet) Turn(ctx context.Context, enough <-chan struct{}, r *operations.Request, most int) (operations.Turn, error) {
	chosen, err := c.choose(r)
	if err != nil {
		return operations.Turn{}, err
	}
	act, count := chosen.Replay, c.line.telemetry.Replayed
	if r.Action == operations.Delete {
		act, count = chosen.Delete, c.line.telemetry.Deleted
	}
	t, err := act(ctx, enough, most)
	count(int64(t.Done))
	return operations.Turn{Unseen: t.Unseen, Matched: t.Matched, Done: t.Done, LeftOut: operations.LeftOut(t.LeftOut), More: t.More}, forOperations(err)
}

// Waiting counts what waits to be handled where a replay puts its messages.
func (c chosenSet) Waiting(ctx context.Context) (int, error) {
	n, err := c.line.broker.Depth(ctx, c.line.retries.Topology().Instant)
	if err != nil {
		return 0, forOperations(fmt.Errorf("count what waits to be handled: %w", err))
	}
	return n, nil
}

// choose makes of a request what the dead set knows of it.
func (c chosenSet) choose(r *operations.Request) (deadset.Choice, error) {
	of, err := r.Select.Compile(r.CreatedAt)
	if err != nil {
		return deadset.Choice{}, err
	}
	return c.line.deadSet.Choose(deadset.Selection{
		Filter: of, Before: r.Before, Operation: r.ID,
		// A delete has no reason to leave them, and who names a message means it.
		CrashLoops: r.CrashLoops || r.Action == operations.Delete, Undated: r.Select.IDs != nil,
	})
}

// forOperations says in the words of operations what is wrong with the queues.
func forOperations(err error) error {
	err = forServer(err)
	switch {
	case errors.Is(err, server.ErrBusy), errors.Is(err, server.ErrUnavailable):
		return inWords{err, operations.ErrAway}
	case errors.Is(err, server.ErrRefused):
		return inWords{err, operations.ErrNever}
	}
	return err
}
