package operations

import (
	"context"
	"time"
)

// Change is what somebody wishes of an operation.
type Change struct {
	// Phase is Running, Paused or Cancelled; empty: as it is.
	Phase Phase
	// Rate is the new one; nil: as it is.
	Rate *Rate
}

// Change changes an operation and returns it as it is then. One that runs ends its turn first,
// wherever it runs: that is waited for, as long as ctx lasts. The error is ErrUnknown or ErrOver.
func (r *Runner) Change(ctx context.Context, id string, c Change) (Operation, error) {
	s, err := r.cfg.Store.Change(ctx, id, func(s State) (State, error) {
		if s.Phase.IsOver() {
			return s, ErrOver
		}
		return s.after(c, time.Now().UTC()), nil
	})
	if err != nil {
		return Operation{}, err
	}
	token(r.hurry)
	for over := s.Phase.IsOver(); ; {
		changed := r.cfg.Store.Changed()
		o, err := r.Find(ctx, id)
		if over && err == nil { // here, since nobody runs it
			r.cfg.Logger.Info("audit: operation is over", o.attrs()...)
		}
		if err != nil || o.Phase != Running || o.Wanted == "" {
			return o, err
		}
		select {
		case <-changed:
		case <-r.closed:
			return o, nil
		case <-ctx.Done():
			return o, nil
		}
	}
}

// after is the state that follows when somebody wishes for a change. What runs leaves that state by
// itself: only its process knows what of its turn is done.
func (s State) after(c Change, now time.Time) State {
	if c.Rate != nil {
		s.Rate = *c.Rate
	}
	switch running := s.Phase == Running; {
	case c.Phase == Running && running:
		s.Wanted = "" // a pause that was not obeyed yet
	case c.Phase == Running && s.Phase == Paused:
		s.Phase, s.Why = Queued, ""
	case (c.Phase == Paused || c.Phase == Cancelled) && running:
		s.Wanted = c.Phase
	case c.Phase == Paused || c.Phase == Cancelled:
		s = s.ending(c.Phase, "", now)
	}
	s.UpdatedAt = now
	return s
}

// ending is the state of what runs no more.
func (s State) ending(p Phase, why string, now time.Time) State {
	s.Phase, s.Why, s.Wanted, s.ETASeconds, s.UpdatedAt = p, why, "", 0, now
	if p.IsOver() {
		s.EndedAt = now
	}
	return s
}
