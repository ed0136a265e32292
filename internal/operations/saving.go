package operations

import (
	"context"
	"errors"
	"time"

	"github.com/stepwell/stepwell/internal/failpoint"
)

// tell changes the state, and stores it now and then. The error is errLost: a state that is not
// stored now is with the next.
func (w *worker) tell(ctx context.Context, change func(*State)) (State, error) {
	w.r.mu.Lock()
	change(&w.l.at)
	w.l.at.UpdatedAt = time.Now().UTC()
	s, due := w.l.at, time.Since(w.l.saved) >= saveTime
	w.r.mu.Unlock()
	if due {
		if _, err := w.save(ctx, s); errors.Is(err, errLost) {
			return s, err
		}
	}
	return s, nil
}

// saved notes when the store had the state.
func (w *worker) saved(at time.Time) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.l.saved = at
}

// save stores a state of the run, beside what people want meanwhile, and returns what is stored.
// The error is errLost where the store says that another process runs the operation; after any
// other it is not known whether the state is stored.
func (w *worker) save(ctx context.Context, s State) (State, error) {
	ctx, cancel := context.WithTimeout(ctx, saveLimit)
	defer cancel()
	stored, err := w.r.cfg.Store.Change(ctx, w.l.request.ID, func(old State) (State, error) {
		switch {
		case old.Phase != Running || old.Term != w.l.term:
			return old, errLost
		case s.Phase == Paused && old.Wanted == Cancelled:
			return s.ending(Cancelled, "", s.UpdatedAt), nil
		case s.Phase == Running:
			s.Wanted = old.Wanted
		}
		s.Rate = old.Rate
		return s, nil
	})
	switch {
	case err == nil:
		w.saved(time.Now())
	case errors.Is(err, errLost), errors.Is(err, ErrUnknown):
		w.r.mu.Lock()
		w.l.lost = true
		w.r.mu.Unlock()
		return stored, errLost
	}
	return stored, err
}

// end ends the run in another state: over, or at rest until somebody lets it go on. It is not ended
// before the store has that; the brokers may be away.
func (w *worker) end(ctx context.Context, p Phase, why string) {
	for wait := freeTime; ; wait = min(longestWait, 2*wait) {
		failpoint.Hit("operation ends")
		s, err := w.save(ctx, w.now().ending(p, why, time.Now().UTC()))
		if err == nil {
			w.r.ended(Operation{w.l.request, s})
			return
		}
		if errors.Is(err, errLost) || !w.pauses(ctx, wait) {
			return
		}
		w.r.cfg.Logger.Warn("the end of an operation is not stored yet", "operation", w.l.request.ID, "error", err)
	}
}

// pauses waits for so long, and says whether ctx lives.
func (w *worker) pauses(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// ended leaves a line in the log of an operation that runs no more.
func (r *Runner) ended(o Operation) {
	switch {
	case o.Phase.IsOver():
		r.cfg.Logger.Info("audit: operation is over", o.attrs()...)
	case o.Why != "":
		r.cfg.Logger.Warn("an operation pauses", o.attrs()...)
	}
}
