package operations

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// Errors that a person is answered with.
var (
	// ErrClosed: the runner's Run has ended.
	ErrClosed = errors.New("operations are over: the process stops")
	// ErrOver: the operation is over, and nothing of it can be changed.
	ErrOver = errors.New("the operation is over")
	// ErrForeign: a newer release knows more of the operation, and that must not be overwritten.
	ErrForeign = errors.New("this process does not know all of such an operation: it can only cancel it, a newer release can do more")
	// ErrOtherWish: the idempotency key was used for something else.
	ErrOtherWish = errors.New("this Idempotency-Key was used for another request")
)

// maxAtOnce is on how many dead sets operations run at a time, one on each.
const maxAtOnce = 4

// Config is what a Runner needs.
type Config struct {
	Store Store
	// Sets are the dead sets that there are.
	Sets map[Target]DeadSet
	// Outcomes knows what became of replayed messages. Nil: nobody asks, and there is no canary.
	Outcomes Outcomes
	// Name is that of this process, for people.
	Name string
	// Alone is why operations end with this process, which each of them says; empty: they do not.
	Alone string
	// Logger is told of each end. Nil: slog's default.
	Logger *slog.Logger
	// Election says which of the processes that share the Store runs operations. Nil: there is one.
	Election Elected
}

// Elected has one process lead at a time; see [Election].
type Elected interface {
	Await(ctx context.Context, hurry <-chan struct{})
	Lead(ctx context.Context, serve func(ctx context.Context, term int64))
	// Refused is why this process may not lead, and none does; nil: it is not so.
	Refused() error
}

// Runner runs operations. Its methods may be called from any goroutine.
type Runner struct {
	cfg Config
	// hurry has a token when something was asked for here; left has one when a run is over. closed
	// is closed when Run is.
	hurry, left, closed chan struct{}

	// mu guards the fields below, and the fields of each live operation. Nobody who has it waits
	// for anything.
	mu sync.Mutex
	// live are those that run here, by their ids.
	live map[string]*live
}

// New makes a Runner. It does nothing before Run.
func New(cfg Config) *Runner {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	return &Runner{cfg: cfg, hurry: make(chan struct{}, 1), left: make(chan struct{}, 1), closed: make(chan struct{}), live: map[string]*live{}}
}

// Run runs what is asked for until ctx ends; then it waits for the turns that are under way, which
// begin with nothing more.
func (r *Runner) Run(ctx context.Context) error {
	defer close(r.closed)
	for ctx.Err() == nil {
		changed := r.cfg.Store.Changed()
		if r.isNeeded() {
			r.lead(ctx)
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil
}

// lead runs operations if it is this process that does, and they are not run by then.
func (r *Runner) lead(ctx context.Context) {
	if r.cfg.Election == nil {
		r.serve(ctx, 0)
		return
	}
	r.cfg.Election.Await(ctx, r.hurry)
	if ctx.Err() == nil && r.isNeeded() {
		r.cfg.Election.Lead(ctx, r.serve)
	}
}

// token puts one into a channel that has room for one.
func token(into chan<- struct{}) {
	select {
	case into <- struct{}{}:
	default: // there is one
	}
}

// open are the operations that are not over, in the order in which they wait.
func (r *Runner) open() ([]Operation, error) {
	all, err := r.cfg.Store.List()
	all = slices.DeleteFunc(all, func(o Operation) bool { return o.Phase.IsOver() })
	slices.Reverse(all)
	return all, err
}

// isNeeded says whether an operation is to run, or may have been left behind.
func (r *Runner) isNeeded() bool {
	open, err := r.open()
	return err == nil && slices.ContainsFunc(open, func(o Operation) bool { return o.Phase == Running || r.couldRun(o) })
}

// couldRun says whether an operation runs, or waits for that, and this process knows how.
func (r *Runner) couldRun(o Operation) bool {
	return r.knows(o.Request) && (o.Phase == Queued || o.Phase == Running)
}

// knows says whether this process can do all that the request says: one of another release, or of
// other streams, may not.
func (r *Runner) knows(request Request) bool {
	_, there := r.cfg.Sets[request.Target]
	return there && !request.Foreign && isAction(request.Action)
}

// serve runs operations until ctx ends, or there are none to run. Then it waits for the turns that
// are under way.
func (r *Runner) serve(ctx context.Context, term int64) {
	var running sync.WaitGroup
	defer running.Wait()
	for ctx.Err() == nil {
		changed := r.cfg.Store.Changed()
		open, err := r.open()
		if err != nil {
			r.cfg.Logger.Warn("operations are not known", "error", err)
		}
		r.hear(open)
		begin, busy := r.due(open)
		if err == nil && !busy && len(begin) == 0 {
			return
		}
		var again <-chan time.Time
		for _, o := range begin {
			l, err := r.begin(ctx, o, term)
			if err != nil { // nothing need change in the store that would say when to try again
				again = time.After(longestWait)
			}
			if l != nil {
				running.Go(func() {
					r.work(ctx, l)
					token(r.left)
				})
			}
		}
		select {
		case <-changed:
		case <-again:
		case <-r.left:
		case <-ctx.Done():
		}
	}
}

// due are the operations that are to begin here: those that ran in a process that is gone, and the
// first in the queue of each dead set where none runs, as many as may run at once. What was left
// behind and nobody here knows is among them, to be put back. busy says that some run here.
func (r *Runner) due(open []Operation) (begin []Operation, busy bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := map[Target]bool{}
	for _, l := range r.live { // also one that is about to leave
		taken[l.request.Target] = true
	}
	busy = len(taken) > 0
	for _, phase := range []Phase{Running, Queued} {
		for _, o := range open {
			switch {
			case o.Phase != phase:
			case phase == Running && !r.knows(o.Request):
				begin = append(begin, o)
			case r.couldRun(o) && !taken[o.Target] && len(taken) < maxAtOnce:
				taken[o.Target] = true
				begin = append(begin, o)
			}
		}
	}
	return begin, busy
}

// Ask begins an operation, or puts it behind others. key makes it the same as one that was asked
// for with that key before; empty: it is a new one. known says that it is not. The error is that of
// [DeadSet.May], ErrOtherWish, ErrFull or ErrClosed.
func (r *Runner) Ask(ctx context.Context, request Request, rate Rate, key string) (o Operation, known bool, err error) {
	return r.ask(ctx, request, State{Rate: rate, Alone: r.cfg.Alone}, key)
}

// ask begins an operation whose state is at.
func (r *Runner) ask(ctx context.Context, request Request, at State, key string) (o Operation, known bool, err error) {
	set, there := r.cfg.Sets[request.Target]
	if !there {
		return o, false, fmt.Errorf("there is no dead set of %+v", request.Target)
	}
	if err := set.May(ctx, &request); err != nil {
		return o, false, err
	}
	request.ID = NewID(request.CreatedAt)
	if key != "" {
		request.ID = idOf(key)
	}
	if request.Action == Replay {
		request.Ahead = cmp.Or(request.Ahead, DefaultAhead)
		if request.Canary > 0 {
			request.CanaryWait = cmp.Or(request.CanaryWait, Wait(DefaultCanaryWait))
		}
	}
	if r.isClosed() {
		return o, false, ErrClosed
	}
	at.Phase, at.UpdatedAt = Queued, request.CreatedAt
	o = Operation{request, at}
	switch err := r.cfg.Store.Create(ctx, request, o.State); {
	case errors.Is(err, ErrExists):
		o, err := r.Find(ctx, request.ID)
		if err == nil && o.Wish != request.Wish {
			err = OtherWish{request.ID}
		}
		return o, true, err
	case err != nil:
		return Operation{}, false, err
	}
	token(r.hurry)
	return o, false, nil
}

func (r *Runner) isClosed() bool {
	select {
	case <-r.closed:
		return true
	default:
		return false
	}
}

// Sample counts what an operation would act on, and changes nothing. The error is that of
// [DeadSet.May], or of the look.
func (r *Runner) Sample(ctx context.Context, request Request) (Sample, error) {
	set, there := r.cfg.Sets[request.Target]
	if !there {
		return Sample{}, fmt.Errorf("there is no dead set of %+v", request.Target)
	}
	if err := set.May(ctx, &request); err != nil {
		return Sample{}, err
	}
	found, err := set.Sample(ctx, &request)
	if err == nil {
		found.Nothing = r.cfg.nothing(&request, &found)
	}
	return found, err
}

// Find returns an operation, or ErrUnknown.
func (r *Runner) Find(ctx context.Context, id string) (Operation, error) {
	o, err := r.cfg.Store.Load(ctx, id)
	if err != nil {
		return o, err
	}
	one := []Operation{r.current(o)}
	r.told(one)
	return one[0], nil
}

// List returns all operations that are kept, the newest first.
func (r *Runner) List(context.Context) ([]Operation, error) {
	all, err := r.cfg.Store.List()
	for i := range all {
		all[i] = r.current(all[i])
	}
	r.told(all)
	return all, err
}

// current is the operation as it is now: what the store has may be some seconds old, which only the
// process that runs it can mend.
func (r *Runner) current(o Operation) Operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.live[o.ID]; l != nil && o.Phase == Running && o.Term == l.term {
		at := l.at
		at.Rate, at.Wanted = o.Rate, o.Wanted
		o.State = at
	}
	switch {
	case o.Phase != Queued:
	case !r.knows(o.Request):
		o.Why = "this process does not know such an operation: it waits for one that does"
	case r.cfg.Election != nil:
		if why := r.cfg.Election.Refused(); why != nil {
			o.Why = "no process runs operations, and this one may not: " + why.Error()
		}
	}
	return o
}

// RunningOn is the id of the operation that runs on that dead set; empty: none is known to.
func (r *Runner) RunningOn(t Target) string {
	open, err := r.open()
	i := slices.IndexFunc(open, func(o Operation) bool { return o.Target == t && o.Phase == Running })
	if err != nil || i < 0 {
		return ""
	}
	return open[i].ID
}

// The names of operations are of lower-case letters and digits.
func letters(b []byte) string {
	return "op_" + strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}

// NewID is an id that sorts by its time.
func NewID(at time.Time) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli()))[2:] //nolint:gosec // times are positive
	b = append(b, make([]byte, 10)...)
	_, _ = rand.Read(b[6:]) // never fails
	return letters(b)
}

// idOf is the id of what was asked for with a key.
func idOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return letters(sum[:16])
}
