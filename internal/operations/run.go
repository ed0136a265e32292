package operations

import (
	"context"
	"errors"
	"time"

	"github.com/stepwell/stepwell/internal/failpoint"
)

// live is an operation that runs here. The runner's lock guards its fields, but for those that
// never change: request, term, doubt, poked.
type live struct {
	request Request
	term    int64
	// at is its state, which is newer than that in the store. Its phase is Running to the end.
	at State
	// doubt: nobody knows what its last turn did, as that of a process that is gone.
	doubt bool
	// lost says that another process runs it, or that it is over: here it ends.
	lost bool
	// poked has a token when it is to look at what is wanted, or its rate.
	poked chan struct{}
	// since is when it began to run here, before how many were done then, and saved when the store
	// had its state.
	since, saved time.Time
	before       int
}

// attrs name it in a log.
func (o Operation) attrs() []any {
	attrs := []any{
		"operation", o.ID, "action", o.Action, "by", o.By, "stream", o.Stream,
		"state", string(o.Phase), "matched", o.Matched, "done", o.Done,
	}
	if o.Channel != "" {
		attrs = append(attrs, "channel", o.Channel)
	}
	if o.Why != "" {
		attrs = append(attrs, "why", o.Why)
	}
	return attrs
}

// errLost ends a run: the store says that it is not this one that goes on.
var errLost = errors.New("the operation runs elsewhere, or is over")

// begin takes an operation, which waits or was left behind by a process that is gone, and makes it
// one that runs here. Nil: it does not, since something else became of it, or, beside an error,
// since nobody knows that it may.
func (r *Runner) begin(ctx context.Context, o Operation, term int64) (*live, error) {
	ctx, cancel := context.WithTimeout(ctx, saveLimit)
	defer cancel()
	now, left := time.Now(), false
	s, err := r.cfg.Store.Change(ctx, o.ID, func(s State) (State, error) {
		left = s.Phase == Running && s.Term <= term
		return r.taken(o.Request, s, term, now.UTC())
	})
	switch {
	case errors.Is(err, errLost):
		return nil, nil
	case err != nil:
		r.cfg.Logger.Warn("an operation cannot begin", "operation", o.ID, "error", err)
		return nil, err
	case s.Phase != Running:
		r.ended(Operation{o.Request, s})
		return nil, nil
	}
	failpoint.Hit("operation begun")
	if s.Resumed > o.Resumed {
		r.cfg.Logger.Info("audit: operation goes on here, since the process that ran it is gone", append(Operation{o.Request, s}.attrs(), "before", o.Runner)...)
	}
	l := &live{
		request: o.Request, term: term, at: s, doubt: left || s.Begun > s.Done, poked: make(chan struct{}, 1), since: now, saved: now, before: s.Done,
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live[o.ID] = l
	return l, nil
}

// taken is the state of an operation once this process has taken it, in its term. What runs in that
// term or an earlier one was left behind: by a process that is gone, or by this one, whose begin
// was stored though nobody was told. What was wanted of it before it obeys before anything else; or
// it waits for a process that knows how to go on.
func (r *Runner) taken(request Request, s State, term int64, now time.Time) (State, error) {
	known, left := r.knows(request), s.Phase == Running && s.Term <= term
	switch {
	case !left && (s.Phase != Queued || !known):
		return s, errLost
	case !known && s.Wanted != "":
		return s.ending(s.Wanted, notCounted, now), nil
	case !known:
		s.Phase, s.Why, s.UpdatedAt = Queued, "", now
		return s, nil
	case left && s.Term < term && s.Wanted == "":
		s.Resumed++
	}
	s.Phase, s.Why, s.Runner, s.Term, s.UpdatedAt = Running, "", r.cfg.Name, term, now
	if s.StartedAt.IsZero() {
		s.StartedAt = now
	}
	return s, nil
}

// hear tells those that run here what the store says of them.
func (r *Runner) hear(open []Operation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range open {
		l := r.live[o.ID]
		if l == nil {
			continue
		}
		lost := o.Phase != Running || o.Term != l.term
		if lost != l.lost || o.Wanted != l.at.Wanted || o.Rate != l.at.Rate {
			l.lost, l.at.Wanted, l.at.Rate = lost, o.Wanted, o.Rate
			token(l.poked)
		}
	}
}

// work runs an operation until it is over, or paused, or ctx ends.
func (r *Runner) work(ctx context.Context, l *live) {
	w := worker{r: r, l: l, set: r.cfg.Sets[l.request.Target], cutOff: l.doubt}
	defer w.leave(ctx)
	for ctx.Err() == nil && !w.obeys(ctx) {
		began := time.Now()
		every, goesOn := w.step(ctx)
		if !goesOn {
			return
		}
		w.wait(ctx, max(freeTime, every-time.Since(began)))
	}
}

// leave ends a run. One that ends with its process, or its term, stays Running in the store, and
// the next goes on with it: from what it finds, but the better what is known of this one.
func (w *worker) leave(ctx context.Context) {
	if ctx.Err() != nil {
		saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		if s, err := w.save(saving, w.now()); err == nil {
			w.r.cfg.Logger.Warn("an operation is cut off here: what it did is done, all else is where it was", Operation{w.l.request, s}.attrs()...)
		}
	}
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	delete(w.r.live, w.l.request.ID)
}

// now is the state.
func (w *worker) now() State {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	return w.l.at
}

// obeys pauses or cancels the operation where somebody wants that. It says whether the run is over:
// not where the pause was withdrawn before the store had it.
func (w *worker) obeys(ctx context.Context) bool {
	w.r.mu.Lock()
	lost, wanted := w.l.lost, w.l.at.Wanted
	w.r.mu.Unlock()
	if lost || wanted == "" {
		return lost
	}
	return !errors.Is(w.ends(ctx, wanted, w.recount(ctx), wanted), errWithdrawn)
}

// notCounted is why what rests, or is over, may have done more than it says.
const notCounted = "its last turn was cut off, and what that did is not counted"

// recount looks what a turn that was cut off did, since nobody looks any more once the operation
// rests or is over. It returns why that is not known; empty: it is, or no turn was cut off.
func (w *worker) recount(ctx context.Context) (why string) {
	if !w.cutOff {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, saveLimit)
	defer cancel()
	sample, err := w.look(ctx)
	if err != nil {
		return notCounted
	}
	at, _ := w.tell(ctx, func(s *State) { s.find(&sample, announces(w, s)) })
	if !at.Complete || sample.Unsorted > 0 {
		return notCounted
	}
	w.cutOff = false
	return ""
}
