package operations

import (
	"context"
	"time"

	"github.com/stepwell/stepwell/internal/outcomes"
)

// Change is what somebody wishes of an operation.
type Change struct {
	// Phase is Running, Paused or Cancelled; empty: as it is.
	Phase Phase
	// Rate is the new one; nil: as it is.
	Rate *Rate
}

// Change changes an operation and returns it as it is then. One that runs ends its turn first,
// wherever it runs: that is waited for, as long as ctx lasts. The error is ErrUnknown, ErrOver, or
// ErrForeign.
func (r *Runner) Change(ctx context.Context, id string, c Change) (Operation, error) {
	o, err := r.cfg.Store.Load(ctx, id)
	if err == nil && o.Foreign && (c.Phase != Cancelled || c.Rate != nil) {
		err = ErrForeign
	}
	if err != nil {
		return Operation{}, err
	}
	var t outcomes.Tally
	if r.cfg.asked(&o.Request) { // not within the change: who knows outcomes may ask the store
		known, _ := r.cfg.Outcomes.Of(id)
		t = known[id]
	}
	s, err := r.cfg.Store.Change(ctx, id, func(s State) (State, error) {
		if s.Phase.IsOver() {
			return s, ErrOver
		}
		if c.Phase == Running && s.Phase == Paused {
			s.accept(t)
		}
		return s.after(c, time.Now().UTC()), nil
	})
	if err != nil {
		return Operation{}, err
	}
	token(r.hurry)
	if s.Phase.IsOver() { // here, since nobody runs it
		r.ended(Operation{o.Request, s})
	}
	return r.obeyed(ctx, id)
}

// obeyed waits until nothing is wanted of an operation that runs, and returns it as it is then.
func (r *Runner) obeyed(ctx context.Context, id string) (Operation, error) {
	for {
		changed := r.cfg.Store.Changed()
		o, err := r.Find(ctx, id)
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
	switch {
	case c.Phase == "":
	case s.Phase == Running:
		s.want(c.Phase)
	case c.Phase == Running && s.Phase == Paused:
		s.Phase, s.Why = Queued, ""
	case c.Phase == Paused && s.Phase == Paused: // why it did stays: a guard knows its pause by that
	case c.Phase == Cancelled && s.Phase == Paused: // why it paused is why it was cancelled
		s = s.ending(Cancelled, withoutAdvice(s.Why), now)
	case c.Phase != Running:
		s = s.ending(c.Phase, "", now)
	}
	s.UpdatedAt = now
	return s
}

// want is a wish for what runs. Nothing undoes a cancel, also one that was not obeyed yet.
func (s *State) want(p Phase) {
	switch {
	case s.Wanted == Cancelled:
	case p == Running: // and a pause that was not obeyed yet is none
		s.Wanted = ""
	default:
		s.Wanted = p
	}
}

// ending is the state of what runs no more.
func (s State) ending(p Phase, why string, now time.Time) State {
	s.Phase, s.Why, s.Wanted, s.ETASeconds, s.UpdatedAt = p, why, "", 0, now
	if p.IsOver() {
		s.EndedAt = now
	}
	return s
}
