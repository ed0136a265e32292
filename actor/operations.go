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
	var noPages error
	if a.cfg.DeadSet.Pages == 0 {
		noPages = fmt.Errorf("%w: %s=0", server.ErrNoPages, a.cfg.Variable("dead_set.pages"))
	}
	sets := map[operations.Target]operations.DeadSet{}
	for _, l := range linesOf(a.streams) {
		if l.deadSet != nil {
			sets[operations.Target{Stream: l.id, Channel: l.channel}] = chosenSet{l, noPages}
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
type chosenSet struct {
	line    *line
	noPages error // why a sort is refused; nil: it is not
}

// May refuses a replay where nobody would take what is replayed, and a sort where there may be no
// pages, or others may not find what is in them. The other actions are possible wherever there is
// a dead set.
func (c chosenSet) May(ctx context.Context, r *operations.Request) error {
	of, is := c.line.served().(leftSet)
	switch {
	case r.Action == operations.Sort && c.noPages != nil:
		return c.noPages
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
	found, err := chosen.sample(ctx)
	if err != nil {
		return operations.Sample{}, forOperations(err)
	}
	var room *int
	if r.Action == operations.Delete && !r.Forever {
		n, err := c.trash(r).Room(ctx)
		if err != nil {
			return operations.Sample{}, forOperations(err)
		}
		room = &n
	}
	return operations.Sample{
		Causes: causesOf(found.Groups), Room: room, Matched: found.Matched, Bytes: found.Bytes, LeftOut: operations.LeftOut(found.LeftOut), Groups: anyOf(found.Groups), Samples: anyOf(found.Samples),
		Depth: found.Depth, Unsorted: found.Unsorted, Complete: found.Complete, AsOf: found.AsOf,
	}, nil
}

// causesOf are the largest of these, for an operation to remember.
func causesOf(groups []*deadset.Group) (largest []operations.Cause) {
	for _, g := range groups[:min(len(groups), operations.MaxCauses)] {
		largest = append(largest, operations.Cause{Group: g.Group, Error: g.Error, Count: g.Count})
	}
	return largest
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
	return operations.Turn{Begun: t.Done, Done: t.Done, LeftOut: operations.LeftOut(t.LeftOut), More: t.More}, forOperations(err)
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
	t, err := chosen.turn(ctx, enough, most)
	return operations.Turn{Unseen: t.Unseen, Begun: t.Begun, Done: t.Done, LeftOut: operations.LeftOut(t.LeftOut), More: t.More}, forOperations(err)
}

// Waiting counts what waits to be handled where a replay puts its messages. It does not wait for a
// broker that is away: the operation says so, and obeys.
func (c chosenSet) Waiting(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, depthLimit)
	defer cancel()
	n, err := c.line.broker.Depth(ctx, c.line.retries.Topology().Instant)
	if err != nil {
		return 0, forOperations(fmt.Errorf("count what waits to be handled: %w", err))
	}
	return n, nil
}

// trash is the one that a delete or a restore is about, which keeps messages as long as the request
// says: another process may have another setting.
func (c chosenSet) trash(r *operations.Request) deadset.Trash {
	return c.line.deadSet.Trash(time.Duration(r.Trash))
}

// choice is what a request is about: how to look at it, and what to do.
type choice struct {
	sample func(ctx context.Context) (deadset.Sample, error)
	turn   func(ctx context.Context, enough <-chan struct{}, most int) (deadset.Turn, error)
}

// errNoTrash: a request says neither that what it deletes is gone nor that it is kept.
var errNoTrash = inWords{errors.New("the request does not say for how long what is deleted is kept"), operations.ErrNever}

// choose makes of a request what the dead set, or its trash, knows of it.
func (c chosenSet) choose(r *operations.Request) (choice, error) {
	of, err := r.Select.Compile(r.CreatedAt)
	if err != nil {
		return choice{}, err
	}
	if r.Trash == 0 && (r.Action == operations.Restore || r.Action == operations.Delete && !r.Forever) {
		return choice{}, errNoTrash
	}
	sel := deadset.Selection{
		Filter: of, Before: r.Before, Operation: r.ID, Canary: r.Canary > 0, MovedBy: r.Select.Operation,
		// Only a replay has a reason to leave them, and who names a message means it. What was
		// deleted may come back, whatever it is.
		CrashLoops: r.CrashLoops || r.Action != operations.Replay, Undated: r.Select.IDs != nil || r.Action == operations.Restore,
	}
	if r.Action == operations.Restore {
		back, err := c.trash(r).Choose(sel)
		return choice{back.Sample, back.Restore}, err
	}
	chosen, err := c.line.deadSet.Choose(sel)
	if err != nil {
		return choice{}, err
	}
	act, count := chosen.Replay, c.line.telemetry.Replayed
	if r.Action == operations.Delete {
		act, count = chosen.Delete, c.line.telemetry.Deleted
		if !r.Forever {
			act = func(ctx context.Context, enough <-chan struct{}, most int) (deadset.Turn, error) {
				return chosen.Trash(ctx, c.trash(r), enough, most)
			}
		}
	}
	return choice{chosen.Sample, func(ctx context.Context, enough <-chan struct{}, most int) (deadset.Turn, error) {
		t, err := act(ctx, enough, most)
		count(int64(t.Done))
		return t, err
	}}, nil
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
