package actor

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/telemetry"
	"github.com/stepwell/stepwell/server"
)

// newServer makes the HTTP server with everything it shows.
func (a *Actor) newServer() (*server.Server, error) {
	all := make(map[string]server.Stream, len(a.streams))
	for _, s := range a.streams {
		of := server.Stream{Control: s, DeadSet: s.served(), Channels: map[string]server.DeadSet{}}
		for _, c := range s.channels {
			of.Channels[c.channel] = c.served()
		}
		all[s.id] = of
	}
	return server.New(server.Config{
		Address: a.cfg.Server.Address, Access: access(a.cfg), Setting: a.cfg.Variable,
		App: a.cfg.App.Name, Console: a.cfg.Server.Console,
		BodyLimit:  int64(a.cfg.Server.BodyLimit),
		EditLimit:  editLimit(&a.cfg.DeadSet),
		Operations: a.operations, Pauses: a.pauses, Trash: a.cfg.DeadSet.Trash,
		Modes: a.cfg.Modes, NoAPI: modes{a.cfg}.noAPI(),
		Streams: all, Health: a.health, Metrics: a.telemetry.Handler(), User: a.app.HTTP, GuardUser: a.app.Guard, Logger: a.log,
	})
}

// editLimit is the largest body of an edit; 0: nobody edits.
func editLimit(of *config.DeadSet) int64 {
	if !of.Edit {
		return 0
	}
	return int64(of.EditLimit)
}

// access says who may use the server, and as whom.
func access(c *config.Config) server.Access {
	a := server.Access{UserHeader: c.Server.UserHeader, Insecure: c.Server.Insecure, Values: server.Role(c.DeadSet.Values)}
	for _, t := range c.Server.Access() {
		a.Tokens = append(a.Tokens, server.Token{Name: t.Name, Role: server.Role(t.Role), Secret: t.Secret})
	}
	return a
}

// closeDeadSets waits until all requests are over, and then until the last peeks have given back
// what they held. What is not back in time goes back with its connection, so that is no failure of
// the stop.
func (a *Actor) closeDeadSets(ctx context.Context) error {
	<-ctx.Done()
	budget, cancel := context.WithDeadline(context.WithoutCancel(ctx), a.over.Add(-a.closing()))
	defer cancel()
	for _, l := range linesOf(a.streams) {
		l.closeDeadSet(budget)
	}
	return nil
}

// served is the line's dead set as the server sees it; nil: there is none.
func (l *line) served() server.DeadSet {
	if l.deadSet == nil {
		return nil
	}
	of := deadSet{l.deadSet, l.telemetry, l.traceURL}
	if from, ok := l.retries.(*left); ok {
		return leftSet{of, from}
	}
	return of
}

// deadSet is a stream's dead set as the server sees it.
type deadSet struct {
	set       *deadset.Set
	telemetry *telemetry.Stream
	traceURL  string // with {trace_id} in place of a trace's id; empty: nobody said where
}

// Peek returns the oldest messages.
func (d deadSet) Peek(ctx context.Context, count int) (server.Page, error) {
	page, err := d.set.Peek(ctx, count)
	if err != nil {
		return server.Page{}, forServer(err)
	}
	return server.Page{Messages: anyOf(page.Messages), Depth: page.Depth}, nil
}

// Find lists messages for which a filter is true.
func (d deadSet) Find(ctx context.Context, q server.Query) (server.List, error) {
	return listOf(d.set.Find(ctx, deadset.Query(q)))
}

// FindTrash lists messages of the trash that keeps them so long.
func (d deadSet) FindTrash(ctx context.Context, keep time.Duration, q server.Query) (server.List, error) {
	return listOf(d.set.Trash(keep).Find(ctx, deadset.Query(q)))
}

// listOf is a list in the server's words.
func listOf(list deadset.List, err error) (server.List, error) {
	if err != nil {
		return server.List{}, forServer(err)
	}
	return server.List{
		Page:    server.Page{Messages: anyOf(list.Messages), Depth: list.Depth},
		Matched: list.Matched, Unsorted: list.Unsorted, Next: list.Next, AsOf: list.AsOf,
	}, nil
}

// Groups counts messages by what killed them.
func (d deadSet) Groups(ctx context.Context, of filter.Filter) (any, error) {
	causes, err := d.set.Groups(ctx, of)
	return causes, forServer(err)
}

// Export finds messages to be kept elsewhere.
func (d deadSet) Export(ctx context.Context, of filter.Filter) (server.Export, error) {
	x, err := d.set.Export(ctx, of)
	if err != nil {
		return server.Export{}, forServer(err)
	}
	return server.Export{Depth: x.Depth, Unsorted: x.Unsorted, Matched: x.Matched, Each: func(ctx context.Context, do func(any) error) error {
		return x.Each(ctx, func(e deadset.Entry) error { return do(e) })
	}}, nil
}

// Message shows one message.
func (d deadSet) Message(ctx context.Context, id string) (server.Detail, error) {
	one, err := d.set.Message(ctx, id)
	if err != nil {
		return server.Detail{}, forServer(err)
	}
	one.TraceURL = d.traceOf(one.TraceID)
	for i := range one.Tries {
		one.Tries[i].TraceURL = d.traceOf(one.Tries[i].TraceID)
	}
	shown := server.Detail{Message: one, Missing: one.ValueError}
	shown.Key, shown.Value = one.Bytes()
	return shown, nil
}

// traceOf leads to a trace; empty: there is none, or nobody said where.
func (d deadSet) traceOf(id string) string {
	if id == "" {
		return ""
	}
	return strings.ReplaceAll(d.traceURL, "{trace_id}", id)
}

// anyOf hands what was found to the server, which knows only that each becomes JSON.
func anyOf[T any](found []T) []any {
	all := make([]any, 0, len(found))
	for _, e := range found {
		all = append(all, e)
	}
	return all
}

// Replay gives the oldest messages a new budget.
func (d deadSet) Replay(ctx context.Context, count int) (server.Result, error) {
	r, err := d.set.Replay(ctx, count)
	d.telemetry.Replayed(int64(r.Done))
	return server.Result(r), forServer(err)
}

// ReplayAll gives the oldest messages a new budget, also those that killed the process.
func (d deadSet) ReplayAll(ctx context.Context, count int) (server.Result, error) {
	r, err := d.set.ReplayAll(ctx, count)
	d.telemetry.Replayed(int64(r.Done))
	return server.Result(r), forServer(err)
}

// Delete removes the oldest messages.
func (d deadSet) Delete(ctx context.Context, count int) (server.Result, error) {
	r, err := d.set.Delete(ctx, count)
	d.telemetry.Deleted(int64(r.Done))
	return server.Result(r), forServer(err)
}

// Trash moves the oldest messages into the trash that keeps them so long.
func (d deadSet) Trash(ctx context.Context, keep time.Duration, operation string, count int) (server.Result, error) {
	r, err := d.set.Trash(keep).Delete(ctx, operation, count)
	d.telemetry.Deleted(int64(r.Done))
	if errors.Is(err, deadset.ErrNoPage) && !errors.Is(err, queue.ErrUnavailable) {
		err = inWords{err, server.ErrNoTrash}
	}
	return server.Result(r), forServer(err)
}

// Edit replaces a message by an edited copy, and moves it into the trash that keeps it so long.
func (d deadSet) Edit(ctx context.Context, keep time.Duration, operation, id string, by server.Edit) (as string, err error) {
	as, err = d.set.Trash(keep).Edit(ctx, operation, id, deadset.Edit(by))
	switch {
	case err == nil:
		d.telemetry.Replayed(1)
	// What is not known to be done comes before why it is not.
	case errors.Is(err, deadset.ErrHalfEdited):
		err = inWords{err, server.ErrHalfEdited}
	case errors.Is(err, queue.ErrTooLarge):
		err = inWords{err, server.ErrTooLarge}
	case errors.Is(err, deadset.ErrCopies), errors.Is(err, deadset.ErrNoEdit),
		errors.Is(err, deadset.ErrNoPage) && !errors.Is(err, queue.ErrUnavailable):
		err = inWords{err, server.ErrNoEdit}
	default:
		err = forServer(err)
	}
	return as, err
}

// inWords is an error of the server's, or of operations, in the words of whoever met it.
type inWords struct {
	error
	is error
}

// Is says which.
func (e inWords) Is(target error) bool { return target == e.is }

// Unwrap returns the error itself.
func (e inWords) Unwrap() error { return e.error }

// forServer says in the server's words what is wrong with the queues.
func forServer(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, queue.ErrLeased):
		return inWords{err, server.ErrBusy}
	case errors.Is(err, deadset.ErrNotFound):
		return inWords{err, server.ErrNotFound}
	case errors.Is(err, deadset.ErrMoved):
		return inWords{err, server.ErrMoved}
	case errors.Is(err, deadset.ErrRefused):
		return inWords{err, server.ErrRefused}
	case errors.Is(err, queue.ErrUnavailable), errors.Is(err, queue.ErrClosed), errors.Is(err, context.DeadlineExceeded):
		return inWords{err, server.ErrUnavailable}
	}
	return err
}
