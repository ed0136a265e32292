package actor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/retry"
	"github.com/stepwell/stepwell/server"
)

// left are the queues of a line whose retries are off: what waits there from before is told of, and
// its dead set is served. Where no RabbitMQ is configured there are none.
type left struct {
	line     *line
	topology retry.Topology
	setting  string // that turned them off
	// found are the queues that were there at the start; nil before it is known.
	found atomic.Pointer[[]string]
}

// newLeft names the queues that the stream would have, by the settings of its retries as they are
// now.
func (a *Actor) newLeft(l *line) *left {
	of := l.cfg.Retry
	topology, err := retry.NewTopology(a.cfg.App.Name, l.id, budgetOf(of), of.DelayQueues, of.Jitter)
	if err != nil { // such delays were never queues
		topology, _ = retry.NewTopology(a.cfg.App.Name, l.id, nil, 1, 0) // it refuses delays only
	}
	return &left{line: l, topology: topology, setting: a.cfg.Variable("retry.enabled")}
}

func (*left) on() bool { return false }

// Declare makes nothing: no failure needs a place.
func (*left) Declare(context.Context) error { return nil }

// leftPause is how far apart looks at what waits are: beside this process others may have retries
// still, and leave some behind when they end.
const leftPause = time.Minute

func (l *left) work(stop, _ context.Context) error {
	if l.line.broker == nil {
		return nil
	}
	names := l.all()
	for told := 0; ; {
		found, waiting, n := l.look(stop, names)
		if stop.Err() != nil {
			return nil
		}
		if l.found.Load() == nil {
			names = found
			l.found.Store(&names)
		}
		if n > told {
			l.line.log.Warn("messages from before wait in the stream's queues, and its retries are off: nobody handles them. The dead set can be looked "+
				"at and deleted from; the rest waits until retries are on", "queues", strings.Join(waiting, " "), "setting", l.setting)
		}
		told = n
		if !task.Sleep(stop, leftPause) {
			return nil
		}
	}
}

func (*left) Close()                       {}
func (*left) Pause()                       {}
func (*left) Resume()                      {}
func (*left) Status() retry.Status         { return retry.Status{} }
func (*left) Number(string, int32, uint32) {}

// FindRungs finds no more than there were at the start: nobody here makes any. Its error says that
// nobody knows yet what that was.
func (l *left) FindRungs(context.Context) error {
	if l.line.broker != nil && l.found.Load() == nil {
		return errNotFound
	}
	return nil
}

var errNotFound = errors.New("RabbitMQ has not told yet which queues of the stream are there")

func (l *left) Topology() retry.Topology { return l.topology }

// Gone says so of queues of free waits, which may be deleted once they are empty.
func (l *left) Gone(name string) bool { return slices.Contains(l.topology.AllRungs(), name) }

// all are the names of all queues that the stream can have.
func (l *left) all() []string {
	var all []string
	for _, spec := range l.topology.Specs() {
		all = append(all, spec.Name)
	}
	for _, rung := range l.topology.AllRungs() {
		if !slices.Contains(all, rung) {
			all = append(all, rung)
		}
	}
	return all
}

// look finds out which queues are there, as soon as RabbitMQ can be asked, and what waits in them:
// n messages.
func (l *left) look(ctx context.Context, names []string) (found, waiting []string, n int) {
	found = []string{}
	for _, name := range names {
		depth, err := l.line.depth(ctx, name)
		if err == nil {
			found = append(found, name)
		}
		if depth > 0 {
			waiting = append(waiting, fmt.Sprintf("%s=%d", name, depth))
			n += depth
		}
	}
	return found, waiting, n
}

// names are the queues that are there, as far as is known.
func (l *left) names() []string {
	if l.found.Load() == nil {
		return nil
	}
	return *l.found.Load()
}

// leftSet is the dead set of such a stream as the server sees it.
type leftSet struct {
	deadSet
	left *left
}

// there is an error where there is no dead set.
func (d leftSet) there() error {
	if d.left.found.Load() != nil && !slices.Contains(d.left.names(), d.left.topology.DeadSet) {
		return server.ErrRetryOff
	}
	return nil // or it is not known: who looks is told why
}

// Peek returns the oldest messages.
func (d leftSet) Peek(ctx context.Context, count int) (server.Page, error) {
	if err := d.there(); err != nil {
		return server.Page{}, err
	}
	return d.deadSet.Peek(ctx, count)
}

// Find lists messages for which a filter is true.
func (d leftSet) Find(ctx context.Context, q server.Query) (server.List, error) {
	if err := d.there(); err != nil {
		return server.List{}, err
	}
	return d.deadSet.Find(ctx, q)
}

// Groups counts messages by what killed them.
func (d leftSet) Groups(ctx context.Context, of filter.Filter) (any, error) {
	if err := d.there(); err != nil {
		return nil, err
	}
	return d.deadSet.Groups(ctx, of)
}

// Export finds messages to be kept elsewhere.
func (d leftSet) Export(ctx context.Context, of filter.Filter) (server.Export, error) {
	if err := d.there(); err != nil {
		return server.Export{}, err
	}
	return d.deadSet.Export(ctx, of)
}

// Message shows one message.
func (d leftSet) Message(ctx context.Context, id string) (server.Detail, error) {
	if err := d.there(); err != nil {
		return server.Detail{}, err
	}
	return d.deadSet.Message(ctx, id)
}

// Delete removes the oldest messages.
func (d leftSet) Delete(ctx context.Context, count int) (server.Result, error) {
	if err := d.there(); err != nil {
		return unknownLeft(), err
	}
	return d.deadSet.Delete(ctx, count)
}

// Trash moves the oldest messages into the trash.
func (d leftSet) Trash(ctx context.Context, keep time.Duration, operation string, count int) (server.Result, error) {
	if err := d.there(); err != nil {
		return unknownLeft(), err
	}
	return d.deadSet.Trash(ctx, keep, operation, count)
}

// FindTrash lists messages of the trash.
func (d leftSet) FindTrash(ctx context.Context, keep time.Duration, q server.Query) (server.List, error) {
	if err := d.there(); err != nil {
		return server.List{}, err
	}
	return d.deadSet.FindTrash(ctx, keep, q)
}

// Replay is refused: nobody would take what comes to the instant queue.
func (d leftSet) Replay(context.Context, int) (server.Result, error) { return d.refuse() }

// ReplayAll is refused likewise.
func (d leftSet) ReplayAll(context.Context, int) (server.Result, error) { return d.refuse() }

// Edit is refused likewise.
func (d leftSet) Edit(context.Context, time.Duration, string, string, server.Edit) (string, error) {
	_, err := d.refuse()
	return "", err
}

func (d leftSet) refuse() (server.Result, error) {
	if err := d.there(); err != nil {
		return unknownLeft(), err
	}
	return unknownLeft(), fmt.Errorf("%w; a replay needs %s=true", server.ErrReplayOff, d.left.setting)
}

// unknownLeft is the result where nobody looked how many are there.
func unknownLeft() server.Result { return server.Result{Left: deadset.Unknown} }

// leftBound is the queue that a stream has where it has an exchange, and the setting that would say
// so.
type leftBound struct{ queue, setting string }

// tell says of a stream without an exchange that the queue is still there: it is bound, and fills,
// and nobody else would tell.
func (b leftBound) tell(stop context.Context, l *line) {
	depth, err := l.depth(stop, b.queue)
	if err == nil {
		l.log.Warn("the queue of an exchange that the stream had is still there: this process does not consume it, and it fills for as long as it is bound. "+
			"Unbind it, have it worked off by a process with the exchange, and delete it", "queue", b.queue, "messages", depth, "setting", b.setting)
	}
}
