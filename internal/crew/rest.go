package crew

import (
	"context"
	"time"

	"github.com/stepwell/stepwell"
)

// Rest is that of [task.Call]: the call sleeps, and its lane and its seat go to others meanwhile.
// The time before the rest is told to [Config.Ended] as that of a call that is over. m takes the
// place of the message, which is let go, with all that was fetched with it.
func (w *worker) Rest(ctx context.Context, offset int64, d time.Duration, m *stepwell.Message) bool {
	w.lieDown(m)
	until := time.Now().Add(d)
	timer := time.NewTimer(d)
	defer timer.Stop()
	return rest(ctx, w, Rest{Offset: offset, Begins: true, Until: until}, timer.C)
}

// RestUntil is that of [task.Call], and otherwise as Rest.
func (w *worker) RestUntil(ctx context.Context, offset int64, over <-chan struct{}, m *stepwell.Message) {
	w.lieDown(m)
	rest(ctx, w, Rest{Offset: offset, Begins: true}, over)
}

// lieDown gives up what others can use during a rest: the messages of the stretch that were not
// begun, the memory of the others, the seat and the lane.
func (w *worker) lieDown(m *stepwell.Message) {
	r := w.roster
	w.lose(w.stretch.state())
	w.keep(r, m)
	w.crew.cfg.Ended(w.lane, time.Since(w.began), 0)
	w.stand()
	w.crew.leave(w)
}

// rest waits until over, then for another turn if the message is a suspect that is to be called
// again, for the end of a pause, for a lane and for a seat.
func rest[T any](ctx context.Context, w *worker, is Rest, over <-chan T) bool {
	r := w.roster
	r.suspects.Rests(is)
	defer r.suspects.Rests(Rest{Offset: is.Offset})
	select {
	case <-over:
	case <-r.halted:
		return false
	case <-ctx.Done():
		return false
	}
	if !is.Until.IsZero() && !r.suspects.AwaitTurn(ctx, is.Offset, r.halted) {
		return false
	}
	return w.crew.AwaitResume(r.halted) && w.comeBack(ctx, r)
}

// keep lets go of all messages but the one whose call runs, which is m from here on.
func (w *worker) keep(r *Roster, m *stepwell.Message) {
	if w.lone.Message != nil {
		w.lone.Message = m
		w.forget()
		return
	}
	r.feed.Lock()
	defer r.feed.Unlock()
	w.stretch.keep(w.stretch.current(), m)
}

// comeBack waits for a place and a seat, after a rest. Calls are timed from then on.
func (w *worker) comeBack(ctx context.Context, r *Roster) bool {
	if !w.crew.enter(ctx, w, r.halted) {
		return false
	}
	w.began = time.Now()
	w.stretch.cameBack(w.began)
	return w.sit(r.halted)
}

// sit waits for a seat, unless over is closed first.
func (w *worker) sit(over <-chan struct{}) bool {
	w.seated = w.crew.cfg.Seats.Take(over)
	return w.seated
}

// stand gives the seat back, if the worker has one.
func (w *worker) stand() {
	if w.seated {
		w.seated = false
		w.crew.cfg.Seats.Leave()
	}
}

// mayGoOn is asked before a call by itself. During a pause it waits, without a seat.
func (w *worker) mayGoOn(r *Roster) bool {
	if !w.crew.Paused() {
		return !r.stopped.Load()
	}
	w.stand()
	w.forget()
	return w.crew.AwaitResume(r.halted) && w.sit(r.halted)
}

// forget lets go of what a stretch had that is over.
func (w *worker) forget() { clear(w.stretch.entries[:]) }

// inTurn is asked between a call and the next one of its key: others who wait for a seat come
// first. It returns e, or none when nothing more is to be handed out.
func (w *worker) inTurn(r *Roster, e Entry) Entry {
	switch {
	case e.Message == nil:
		return e
	case w.lane == noLane: // the call rested, and returned when its rest was cut short
		if w.comeBack(r.feed.Calls(), r) {
			return e
		}
	case w.seated:
		if w.seated = w.crew.cfg.Seats.Yield(r.halted); w.seated {
			return e
		}
	}
	r.quit()
	return Entry{}
}
