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
	// ErrOtherWish: the idempotency key was used for something else.
	ErrOtherWish = errors.New("this Idempotency-Key was used for another request")
)

// MaxAtOnce is on how many dead sets operations run at a time, one on each.
const MaxAtOnce = 4

// Config is what a Runner needs.
type Config struct {
	Store Store
	// Sets are the dead sets that there are.
	Sets map[Target]DeadSet
	// Outcomes knows what became of replayed messages. Nil: nobody asks, and there is no canary.
	Outcomes Outcomes
	// Name is that of this process, for people.
	Name string
	// Logger is told of each end. Nil: slog's default.
	Logger *slog.Logger
}

// Runner runs operations. Its methods may be called from any goroutine.
type Runner struct {
	cfg Config
	// wake has a token when there may be something to begin.
	wake chan struct{}

	// mu guards the fields below, and the fields of each live operation.
	mu sync.Mutex
	// live are those that are not over, in the order in which they wait. Each that runs has a
	// goroutine of its own, which changes it under this lock, and which nobody waits for while
	// holding it.
	live   []*live
	closed bool
}

// New makes a Runner. It does nothing before Run.
func New(cfg Config) *Runner {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	return &Runner{cfg: cfg, wake: make(chan struct{}, 1)}
}

// Run runs what is asked for until ctx ends; then it waits for the turns that are under way, which
// begin with nothing more.
func (r *Runner) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer r.end()
	defer running.Wait()
	for {
		for _, l := range r.next() {
			running.Go(func() {
				r.work(ctx, l)
				r.nudge()
			})
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// nudge lets Run look whether there is something to begin.
func (r *Runner) nudge() {
	select {
	case r.wake <- struct{}{}:
	default: // it will look
	}
}

// next are the operations that may begin now: the first in the queue of each dead set where none
// runs, as many as may run at once.
func (r *Runner) next() (begin []*live) {
	r.mu.Lock()
	defer r.mu.Unlock()
	busy, running := map[Target]bool{}, 0
	for _, l := range r.live {
		if l.at.Phase == Running {
			busy[l.request.Target] = true
			running++
		}
	}
	for _, l := range r.live {
		if l.at.Phase != Queued || busy[l.request.Target] || running == MaxAtOnce {
			continue
		}
		busy[l.request.Target] = true
		running++
		l.at.Phase, l.at.Why, l.at.Runner = Running, "", r.cfg.Name
		if l.at.StartedAt.IsZero() {
			l.at.StartedAt = time.Now().UTC()
		}
		l.since, l.before = time.Now(), l.at.Done
		begin = append(begin, l)
	}
	return begin
}

// end closes the runner, and says what it leaves behind.
func (r *Runner) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, l := range r.live {
		r.cfg.Logger.Warn("an operation ends with its process: what it did is done, all else is where it was; ask for it again", l.attrs()...)
	}
}

// Ask begins an operation, or puts it behind others. key makes it the same as one that was asked
// for with that key before; empty: it is a new one. known says that it is not. The error is that of
// [DeadSet.May], ErrOtherWish, ErrFull or ErrClosed.
func (r *Runner) Ask(ctx context.Context, request Request, rate Rate, key string) (o Operation, known bool, err error) {
	set, there := r.cfg.Sets[request.Target]
	if !there {
		return o, false, fmt.Errorf("there is no dead set of %+v", request.Target)
	}
	if err := set.May(ctx, &request); err != nil {
		return o, false, err
	}
	request.ID = newID(request.CreatedAt)
	if key != "" {
		request.ID = idOf(key)
	}
	if request.Action == Replay {
		request.Ahead = cmp.Or(request.Ahead, DefaultAhead)
		if request.Canary > 0 {
			request.CanaryWait = cmp.Or(request.CanaryWait, Wait(DefaultCanaryWait))
		}
	}
	l := &live{request: request, at: State{Phase: Queued, Rate: rate, UpdatedAt: request.CreatedAt}, poked: make(chan struct{}, 1), ended: make(chan struct{})}
	// Under the lock: nobody may see it in the store and not find it among those that live.
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return o, false, ErrClosed
	}
	switch err := r.cfg.Store.Create(ctx, request, l.at); {
	case errors.Is(err, ErrExists):
		o, err := r.findLocked(ctx, request.ID)
		if err == nil && o.Wish != request.Wish {
			err = ErrOtherWish
		}
		return o, true, err
	case err != nil:
		return o, false, err
	}
	r.live = append(r.live, l)
	r.nudge()
	return l.operation(), false, nil
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
	return set.Sample(ctx, &request)
}

// Find returns an operation, or ErrUnknown.
func (r *Runner) Find(ctx context.Context, id string) (Operation, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, err := r.findLocked(ctx, id)
	if err != nil {
		return o, err
	}
	one := []Operation{o}
	r.told(one)
	return one[0], nil
}

func (r *Runner) findLocked(ctx context.Context, id string) (Operation, error) {
	if l := r.liveLocked(id); l != nil {
		return l.operation(), nil
	}
	o, err := r.cfg.Store.Load(ctx, id)
	return o, err
}

func (r *Runner) liveLocked(id string) *live {
	i := slices.IndexFunc(r.live, func(l *live) bool { return l.request.ID == id })
	if i < 0 {
		return nil
	}
	return r.live[i]
}

// List returns all operations that are kept, the newest first.
func (r *Runner) List(ctx context.Context) ([]Operation, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, err := r.cfg.Store.List(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		// The store has a state that may be some seconds old.
		if l := r.liveLocked(all[i].ID); l != nil {
			all[i] = l.operation()
		}
	}
	r.told(all)
	return all, nil
}

// RunningOn is the id of the operation that runs on that dead set; empty: none does.
func (r *Runner) RunningOn(t Target) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.live {
		if l.request.Target == t && l.at.Phase == Running {
			return l.request.ID
		}
	}
	return ""
}

// Change is what somebody wishes of an operation.
type Change struct {
	// Phase is Running, Paused or Cancelled; empty: as it is.
	Phase Phase
	// Rate is the new one; nil: as it is.
	Rate *Rate
}

// Change changes an operation and returns it as it is then. One that runs ends its turn first: that
// is waited for, as long as ctx lasts. The error is ErrUnknown or ErrOver.
func (r *Runner) Change(ctx context.Context, id string, c Change) (Operation, error) {
	r.mu.Lock()
	l := r.liveLocked(id)
	if l == nil {
		defer r.mu.Unlock()
		if _, err := r.findLocked(ctx, id); err != nil {
			return Operation{}, err
		}
		return Operation{}, ErrOver
	}
	ended := r.changeLocked(ctx, l, c)
	r.mu.Unlock()
	if ended != nil {
		select {
		case <-ended:
		case <-ctx.Done():
		}
	}
	return r.Find(ctx, id)
}

// changeLocked returns a channel that is closed when the operation runs no more; nil: nothing has
// to be waited for.
func (r *Runner) changeLocked(ctx context.Context, l *live, c Change) <-chan struct{} {
	if c.Rate != nil {
		l.at.Rate = *c.Rate
		l.poke()
	}
	switch running := l.at.Phase == Running; {
	case c.Phase == Running && running:
		l.wish = "" // a pause that was not obeyed yet
	case c.Phase == Running && l.at.Phase == Paused:
		l.at.Phase, l.at.Why = Queued, ""
		r.nudge()
	case (c.Phase == Paused || c.Phase == Cancelled) && running:
		l.wish = c.Phase
		l.poke()
		return l.ended
	case c.Phase == Paused:
		r.pauseLocked(ctx, l, "")
		return nil
	case c.Phase == Cancelled:
		r.overLocked(ctx, l, Cancelled, "")
		return nil
	}
	r.saveLocked(ctx, l)
	return nil
}

// saveLocked keeps the state. What a store does not take now it is given with the next.
func (r *Runner) saveLocked(ctx context.Context, l *live) {
	l.at.UpdatedAt = time.Now().UTC()
	l.saved = time.Now()
	if err := r.cfg.Store.Save(context.WithoutCancel(ctx), l.request.ID, l.at); err != nil {
		r.cfg.Logger.Warn("the state of an operation is not stored", "operation", l.request.ID, "error", err)
	}
}

// pauseLocked lets an operation rest.
func (r *Runner) pauseLocked(ctx context.Context, l *live, why string) {
	l.at.Phase, l.at.Why, l.at.ETASeconds = Paused, why, 0
	l.restLocked()
	r.saveLocked(ctx, l)
}

// overLocked ends an operation.
func (r *Runner) overLocked(ctx context.Context, l *live, p Phase, why string) {
	l.at.Phase, l.at.Why, l.at.EndedAt, l.at.ETASeconds = p, why, time.Now().UTC(), 0
	l.restLocked()
	r.live = slices.DeleteFunc(r.live, func(other *live) bool { return other == l })
	r.saveLocked(ctx, l)
	r.cfg.Logger.Info("audit: operation is over", l.attrs()...)
}

// The names of operations are of lower-case letters and digits.
func letters(b []byte) string {
	return "op_" + strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}

// newID is an id that sorts by its time.
func newID(at time.Time) string {
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
