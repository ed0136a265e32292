package actor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/internal/operations"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/server"
)

// operator runs operations, and answers for them.
type operator interface {
	server.Operations
	Run(ctx context.Context) error
}

// newOperations makes what runs operations on all dead sets that there are.
func newOperations(a *Actor) operator {
	sets := map[operations.Target]operations.DeadSet{}
	for _, l := range linesOf(a.streams) {
		if l.deadSet != nil {
			sets[operations.Target{Stream: l.id, Channel: l.channel}] = chosenSet{l}
		}
	}
	alone := operations.Config{
		Store: operations.NewMemory(), Sets: sets, Outcomes: a.outcomes, Name: instance(), Logger: a.log,
		Alone: fmt.Sprintf("%s=false, or no stream retries", a.cfg.Variable("rabbitmq.records")),
	}
	if !keepsOperations(a) {
		return operations.New(alone)
	}
	shared := operations.Config{Store: operations.NewShared(a.shared.store), Sets: sets, Outcomes: a.outcomes, Name: instance(), Logger: a.log}
	election := &operations.Election{
		Records: a.shared.store, Broker: a.queues, Lease: a.cfg.App.Name + ".operations", Name: instance(), Logger: a.log,
	}
	shared.Election = election
	return &operations.Either{Shared: operations.New(shared), Alone: operations.New(alone), Missing: a.shared.missing, Impossible: election.Impossible}
}

// keepsOperations says whether operations outlive the process: in records that all processes share.
func keepsOperations(a *Actor) bool { return a.retries && a.cfg.RabbitMQ.Records }

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

// May refuses a replay where nobody would take what is replayed, and a sort where others may not
// find what is in pages. The other actions are possible wherever there is a dead set.
func (c chosenSet) May(ctx context.Context, r *operations.Request) error {
	of, is := c.line.served().(leftSet)
	switch {
	case r.Action == operations.Sort && !r.Force:
		return c.aloneWithPages(ctx)
	case !is:
		return nil
	case r.Action == operations.Replay:
		_, err := of.refuse()
		return err
	}
	return of.there()
}

// aloneWithPages is an error where other processes work the line off. Of these nobody can tell
// whether they know pages: one that does not shows, replays and deletes only what has arrived
// since. Consumers of the instant queue are all that can be seen of others; a process that only
// serves /v1 has none, and neither has one whose stream is paused, be it this one.
func (c chosenSet) aloneWithPages(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, depthLimit)
	defer cancel()
	consumers, err := c.line.broker.Consumers(ctx, c.line.retries.Topology().Instant)
	switch {
	case errors.Is(err, queue.ErrMissing):
		return nil // nobody consumes what is not there
	case err != nil:
		return forServer(fmt.Errorf("count who else handles these messages: %w", err))
	}
	if c.line.works && c.line.retries.on() && !c.line.retries.Status().Paused {
		consumers--
	}
	if consumers > 0 {
		return fmt.Errorf("%w: %d more handle messages of %s", server.ErrOthers, consumers, c.line.who())
	}
	return nil
}

// Sample counts what the request is about.
func (c chosenSet) Sample(ctx context.Context, r *operations.Request) (operations.Sample, error) {
	if operations.Sorts(r.Action) {
		return c.arrived(ctx, r.Action)
	}
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

// arrived counts what a sort would move, or its way back.
func (c chosenSet) arrived(ctx context.Context, action string) (operations.Sample, error) {
	depth, paged, err := c.line.deadSet.Pages().Count(ctx)
	if err != nil {
		return operations.Sample{}, forOperations(err)
	}
	found := operations.Sample{Depth: depth, Matched: depth - paged, Complete: true, AsOf: time.Now().UTC(), Groups: []any{}, Samples: []any{}}
	if action == operations.Unsort {
		found.Matched = paged
	}
	return found, nil
}

// sortTurn moves some messages into pages, or back.
func (c chosenSet) sortTurn(ctx context.Context, enough <-chan struct{}, r *operations.Request, most int) (operations.Turn, error) {
	var t deadset.Turn
	var err error
	if r.Action == operations.Sort {
		t, err = c.line.deadSet.Pages().Sort(ctx, enough, r.ID, most)
	} else {
		t, err = c.line.deadSet.Pages().Back(ctx, enough, most)
	}
	return operations.Turn{Matched: t.Done, Done: t.Done, LeftOut: operations.LeftOut(t.LeftOut), More: t.More}, forOperations(err)
}

// Turn acts on some of the messages that the request is about.
func (c chosenSet) Turn(ctx context.Context, enough <-chan struct{}, r *operations.Request, most int) (operations.Turn, error) {
	if operations.Sorts(r.Action) {
		return c.sortTurn(ctx, enough, r, most)
	}
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
	return operations.Turn{Unseen: t.Unseen, Matched: t.Matched, Done: t.Done, Begun: t.Begun, LeftOut: operations.LeftOut(t.LeftOut), More: t.More}, forOperations(err)
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
		Filter: of, Before: r.Before, Operation: r.ID, Canary: r.Canary > 0,
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
