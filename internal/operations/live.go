package operations

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// freeTime is for how long the dead set is free between two turns: those who look ask every
	// 100 ms.
	freeTime = 150 * time.Millisecond
	// longestWait is how long an operation waits at most until it asks anew for what is away.
	longestWait = 5 * time.Second
	// stopTime is how long a turn may take to end once the process stops. What it published and did
	// not remove by then is in both places.
	stopTime = 2 * time.Second
	// saveTime is how old the state in the store may be while an operation runs.
	saveTime = 5 * time.Second
)

// live is an operation that is not over. The runner's lock guards its fields, but for those that
// never change: request, poked.
type live struct {
	request Request
	at      State
	// wish is what somebody wants of it while it runs: Paused, Cancelled, or empty.
	wish Phase
	// poked has a token when it is to look at its wish, or its rate.
	poked chan struct{}
	// ended is closed when it runs no more; each run makes a new one.
	ended chan struct{}
	// since is when it began to run, before how many were done then, and saved when the store had
	// its state.
	since, saved time.Time
	before       int
}

func (l *live) operation() Operation { return Operation{l.request, l.at} }

// poke lets it look.
func (l *live) poke() {
	select {
	case l.poked <- struct{}{}:
	default: // it will look
	}
}

// attrs name it in a log.
func (l *live) attrs() []any {
	attrs := []any{
		"operation", l.request.ID, "action", l.request.Action, "by", l.request.By, "stream", l.request.Stream,
		"state", string(l.at.Phase), "matched", l.at.Matched, "done", l.at.Done,
	}
	if l.request.Channel != "" {
		attrs = append(attrs, "channel", l.request.Channel)
	}
	if l.at.Why != "" {
		attrs = append(attrs, "why", l.at.Why)
	}
	return attrs
}

// A run of an operation goes so, until it is over, or rests:
//
//	count   how many match? None: it is over. More than expected: it is refused, or rests
//	turn    act on the oldest that match, as many as the rate, what is expected and the room among
//	        those that wait to be handled allow
//	wait    for the rate, and for freeTime at least, in which others may look; then the next turn
//
// A turn that found nothing to do is the fresh look that ends it. When as many are done as were
// expected it counts again. What is away makes it wait longer and longer, up to longestWait. A wish
// of a person ends the turn or the wait, and is obeyed before the next step.

// work runs an operation until it is over, or paused, or ctx ends.
func (r *Runner) work(ctx context.Context, l *live) {
	defer r.leave(l)
	w := worker{r: r, l: l, set: r.cfg.Sets[l.request.Target]}
	for ctx.Err() == nil && !r.obeys(ctx, l) {
		began := time.Now()
		every, goesOn := w.step(ctx)
		if !goesOn {
			return
		}
		w.wait(ctx, max(freeTime, every-time.Since(began)))
	}
}

// leave is for a run that ends with its process: the operation itself has not.
func (r *Runner) leave(l *live) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.at.Phase == Running {
		l.restLocked()
	}
}

// restLocked lets those go on who wait for the end of a run. It belongs into the step that ends the
// run: what follows may be the next one.
func (l *live) restLocked() {
	close(l.ended)
	l.ended = make(chan struct{})
	l.wish = ""
}

// obeys pauses or cancels the operation where somebody wants that.
func (r *Runner) obeys(ctx context.Context, l *live) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch l.wish { //nolint:exhaustive // nobody can wish for the others
	case Paused:
		r.pauseLocked(ctx, l, "")
		return true
	case Cancelled:
		r.overLocked(ctx, l, Cancelled, "")
		return true
	}
	return false
}

// worker is one run of an operation.
type worker struct {
	r   *Runner
	l   *live
	set DeadSet
	// canarySince is since when all of the canary is replayed; zero: it is not.
	canarySince time.Time
	// counted: it is known that no more match than are expected.
	counted bool
	// waits is how long it waits until it asks anew for what is away.
	waits time.Duration
}

// step counts what is there, or takes a turn. It says after how long the next may begin, and
// whether there is a next.
func (w *worker) step(ctx context.Context) (every time.Duration, goesOn bool) {
	var err error
	if !w.counted {
		goesOn, err = w.count(ctx)
	} else {
		every, goesOn, err = w.turn(ctx)
	}
	switch {
	case err == nil:
		w.waits = 0
		return every, goesOn
	case ctx.Err() != nil:
		return 0, false
	case errors.Is(err, ErrAway):
		w.tell(ctx, func(s *State) { s.Why = err.Error() })
		w.waits = min(longestWait, max(freeTime, 2*w.waits))
		return w.waits, true
	case errors.Is(err, ErrNever):
		w.over(ctx, Failed, err.Error())
	default:
		w.pause(ctx, err.Error())
	}
	return 0, false
}

// count looks how many match. Where none does the operation is over; where more do than are
// expected it is refused, or paused if it has begun.
func (w *worker) count(ctx context.Context) (goesOn bool, err error) {
	sample, err := w.set.Sample(ctx, &w.l.request)
	if err != nil {
		return false, err
	}
	done := w.tell(ctx, func(s *State) {
		s.Why = ""
		// What is too large only a turn finds out.
		sample.LeftOut.TooLarge = s.LeftOut.TooLarge
		s.Matched, s.LeftOut = s.Done+sample.Matched, sample.LeftOut
		s.Unsorted, s.Complete = sample.Unsorted, sample.Unsorted == 0
	}).Done
	expected := w.l.request.Expect
	switch {
	case expected != nil && done+sample.Matched > *expected && done == 0:
		w.over(ctx, Refused, fmt.Sprintf("%d match, and %d were expected: nothing was touched. Look again, and ask anew", sample.Matched, *expected))
		return false, nil
	case expected != nil && done+sample.Matched > *expected:
		w.pause(ctx, fmt.Sprintf("%d more match, and %d in all were expected: look again, cancel this one and ask anew", sample.Matched, *expected))
		return false, nil
	case sample.Matched == 0:
		w.over(ctx, Done, unseen(sample.Unsorted))
		return false, nil
	}
	w.counted = true
	return true, nil
}

// turn acts on some messages.
func (w *worker) turn(ctx context.Context) (every time.Duration, goesOn bool, err error) {
	w.r.mu.Lock()
	at := w.l.at
	w.r.mu.Unlock()
	if every, goesOn, held := w.held(ctx, &at); held {
		return every, goesOn, nil
	}
	canary := w.inCanary(&at)
	most, every := w.portion(&at, canary)
	if most <= 0 && Sorts(w.l.request.Action) {
		w.over(ctx, Done, "")
		return 0, false, nil
	}
	room, err := w.room(ctx)
	if err != nil || room == 0 {
		return aheadPause, true, err
	}
	if room < most {
		most, every = room, max(every, aheadPause)
	}
	t, err := w.act(ctx, most, canary)
	at = w.tell(ctx, func(s *State) {
		if err == nil {
			s.Why = ""
		}
		if canary {
			w.l.saved = time.Time{} // who goes on with it after a kill is to know how many there are
		}
		s.Matched = max(s.Matched, s.Done+t.Matched)
		s.Done += t.Done
		s.LeftOut.TooLarge = max(s.LeftOut.TooLarge, t.LeftOut.TooLarge)
		s.ETASeconds = s.eta(s.Done-w.l.before, time.Since(w.l.since))
		if !t.More {
			s.LeftOut, s.Unsorted, s.Complete = t.LeftOut, t.Unseen, t.Unseen == 0
		}
	})
	switch {
	case err != nil:
		return every, true, err
	case !t.More && t.Done == 0:
		w.over(ctx, Done, unseen(t.Unseen))
		return 0, false, nil
	case w.l.request.Expect != nil && at.Done >= *w.l.request.Expect:
		w.counted = false // all that may be done is done: a fresh look says whether that was all
	}
	return every, true, nil
}

// act takes one turn. It ends by itself after turnTime, and begins with no more when somebody has a
// wish or the process stops.
func (w *worker) act(ctx context.Context, most int, canary bool) (Turn, error) {
	request := w.l.request
	if !canary {
		request.Canary = 0
	}
	enough, is := context.WithTimeout(ctx, turnTime)
	defer is()
	// The acks of what is confirmed are still to come when ctx ends.
	working, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	over, told := make(chan struct{}), make(chan struct{})
	// This goroutine ends with the turn, which waits for it.
	go func() {
		defer close(told)
		w.watch(ctx, over, is, cut)
	}()
	defer func() { close(over); <-told }()
	return w.set.Turn(working, enough.Done(), &request, most)
}

// watch ends a turn when somebody has a wish, and cuts it off some time after the process began to
// stop.
func (w *worker) watch(ctx context.Context, over <-chan struct{}, enough, cut func()) {
	poked, stop := w.l.poked, ctx.Done()
	var late <-chan time.Time
	for {
		select {
		case <-poked:
			enough()
			w.l.poke() // for the wait that follows
			poked = nil
		case <-stop:
			late, stop = time.After(stopTime), nil
		case <-late:
			cut()
			late = nil
		case <-over:
			return
		}
	}
}

// wait waits so long, or until somebody has a wish.
func (w *worker) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.l.poked:
	case <-ctx.Done():
	}
}

// tell changes the state, and stores it now and then.
func (w *worker) tell(ctx context.Context, change func(*State)) State {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	change(&w.l.at)
	w.l.at.UpdatedAt = time.Now().UTC()
	if time.Since(w.l.saved) >= saveTime {
		w.r.saveLocked(ctx, w.l)
	}
	return w.l.at
}

func (w *worker) over(ctx context.Context, p Phase, why string) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.r.overLocked(ctx, w.l, p, why)
}

// pause lets it rest until somebody lets it go on.
func (w *worker) pause(ctx context.Context, why string) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.r.pauseLocked(ctx, w.l, why)
	w.r.cfg.Logger.Warn("an operation pauses", w.l.attrs()...)
}

// unseen says so of what was not looked at.
func unseen(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d messages lie behind those that a look sees, and none of these matches any more: whether some of the others do is not known", n)
}

// eta is about how many seconds the rest takes, at its rate or at the speed so far; 0: not known.
func (s *State) eta(done int, took time.Duration) int {
	left := s.Matched - s.Done
	switch {
	case left <= 0:
		return 0
	case s.Rate.Per > 0:
		took, done = s.Rate.Per, s.Rate.Messages
	case done <= 0:
		return 0
	}
	return max(1, int(took.Seconds()*float64(left)/float64(done)))
}
