package operations

import (
	"context"
	"errors"
	"time"

	"github.com/stepwell/stepwell/internal/failpoint"
)

// errWithdrawn says that nobody wants any more what was to be obeyed.
var errWithdrawn = errors.New("the pause was withdrawn")

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

// noteSaved notes when the store had the state.
func noteSaved(w *worker, at time.Time) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.l.saved = at
}

// save stores a state of the run, beside what people want meanwhile, and returns what is stored.
// The error is errLost where the store says that another process runs the operation, and
// errWithdrawn where s rests since somebody wanted that (s.Wanted) and nobody does now; after any
// other it is not known whether the state is stored.
func (w *worker) save(ctx context.Context, s State) (State, error) {
	ctx, cancel := context.WithTimeout(ctx, saveLimit)
	defer cancel()
	stored, err := w.r.cfg.Store.Change(ctx, w.l.request.ID, func(old State) (State, error) {
		switch {
		case old.Phase != Running || old.Term != w.l.term:
			return old, errLost
		case s.Phase == Paused && old.Wanted == Cancelled:
			return s.ending(Cancelled, withoutAdvice(s.Why), s.UpdatedAt), nil
		case s.Phase == Paused && s.Wanted != "" && old.Wanted == "":
			return old, errWithdrawn
		}
		s.Rate, s.Wanted = old.Rate, ""
		if s.Phase == Running {
			s.Wanted = old.Wanted
		}
		return s, nil
	})
	switch {
	case err == nil:
		noteSaved(w, time.Now())
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
func (w *worker) end(ctx context.Context, p Phase, why string) { _ = w.ends(ctx, p, why, "") }

// ends is end, and beside it what somebody wanted, of which this is the end; empty: it is none. The
// error is that of save.
func (w *worker) ends(ctx context.Context, p Phase, why string, wanted Phase) error {
	for wait := freeTime; ; wait = min(longestWait, 2*wait) {
		failpoint.Hit("operation ends")
		end := w.now().ending(p, why, time.Now().UTC())
		end.Wanted = wanted
		s, err := w.save(ctx, end)
		if err == nil {
			w.r.ended(Operation{w.l.request, s})
			return nil
		}
		if errors.Is(err, errLost) || errors.Is(err, errWithdrawn) || !w.pauses(ctx, wait) {
			return err
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
