package operations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stepwell/stepwell/internal/failpoint"
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
	// saveTime is how old the state in the store may be while an operation runs, and saveLimit how
	// long a store may take for it.
	saveTime, saveLimit = 5 * time.Second, 10 * time.Second
)

// A run of an operation goes so, until it is over, or rests:
//
//	count   how many match? None: it is over. More than expected: it is refused, or rests
//	turn    act on the oldest that match, as many as the rate, what is expected, what may still
//	        fail and the room among those that wait to be handled allow
//	wait    for the rate, and for freeTime at least, in which others may look; then the next turn
//
// A turn that found nothing to do is the fresh look that ends it. When as many are done as were
// expected it counts again. What is away makes it wait longer and longer, up to longestWait. A wish
// of a person ends the turn or the wait, and is obeyed before the next step.

// worker is one run of an operation.
type worker struct {
	r   *Runner
	l   *live
	set DeadSet
	// canarySince is since when all of the canary is replayed; zero: it is not. whole says that
	// nothing matches beside it.
	canarySince time.Time
	whole       bool
	// quiet is for how long nobody has told of messages that are waited for.
	quiet quiet
	// counted: it is known that no more match than are expected.
	counted bool
	// cutOff: nobody knows what the last turn did.
	cutOff bool
	// waits is how long it waits until it asks anew for what is away.
	waits time.Duration
	// last is the last turn.
	last pace
}

// pace is when a turn began, with how many messages, and for how long these were to be all.
type pace struct {
	began time.Time
	n     int
	every time.Duration
}

// rests is for how long no other turn may begin yet: for as long as what this one did takes at its
// rate, or at that of now where that is sooner.
func (p pace) rests(now Rate) time.Duration {
	if p.began.IsZero() {
		return 0
	}
	return max(freeTime, min(p.every, now.lasts(p.n))) - time.Since(p.began)
}

// step counts what is there, or takes a turn. It says after how long the next may begin, and
// whether there is a next.
func (w *worker) step(ctx context.Context) (every time.Duration, goesOn bool) {
	var err error
	if !w.counted {
		goesOn, err = w.count(ctx)
	} else if every, goesOn, err = w.turn(ctx); err == nil {
		w.waits = 0
	}
	switch {
	case err == nil:
		return every, goesOn
	case errors.Is(err, errLost):
		return 0, false
	case ctx.Err() != nil:
		return 0, false
	case errors.Is(err, ErrAway):
		if _, lost := w.tell(ctx, func(s *State) { s.Why = err.Error() }); lost != nil {
			return 0, false
		}
		w.waits = min(longestWait, max(freeTime, 2*w.waits))
		return w.waits, true
	case errors.Is(err, ErrNever):
		w.end(ctx, Failed, err.Error())
	default:
		w.end(ctx, Paused, err.Error())
	}
	return 0, false
}

// turn acts on some messages.
func (w *worker) turn(ctx context.Context) (every time.Duration, goesOn bool, err error) {
	at := w.now()
	next := w.held(ctx, &at)
	if next.held {
		return next.every, next.goesOn, nil
	}
	if rest := w.last.rests(at.Rate); rest > 0 {
		return rest, true, nil
	}
	canary := w.r.cfg.inCanary(&w.l.request, &at)
	most, every := w.portion(&at, canary, next.allowed)
	if most <= 0 && Sorts(w.l.request.Action) {
		w.end(ctx, Done, "")
		return 0, false, nil
	}
	room, err := w.room(ctx)
	if err != nil || room == 0 {
		return aheadPause, true, err
	}
	if room < most {
		most, every = room, max(every, aheadPause)
	}
	w.last.began = time.Now()
	t, at, err := w.acts(ctx, most, canary)
	w.last.n, w.last.every = max(t.Begun, t.Done), every
	switch {
	case err != nil:
		w.cutOff = at.Begun > at.Done || t.Begun > t.Done // sent, and not seen to be gone: the next look says more
		w.counted = !w.cutOff
		return every, true, err
	case !t.More && t.Done == 0:
		if goesOn = isCanary(w, Done, &at); !goesOn {
			w.end(ctx, Done, unseen(t.Unseen))
		}
		return 0, goesOn, nil
	case w.l.request.Expect != nil && at.sent() >= *w.l.request.Expect:
		w.counted = false // all that may be done is done: a fresh look says whether that was all
	}
	return every, true, nil
}

// acts takes one turn, which it announces where no more than so many may be done, and returns the
// state after it. An error may be that of the turn, or errLost.
func (w *worker) acts(ctx context.Context, most int, canary bool) (Turn, State, error) {
	now := w.now()
	announced := announces(w, &now)
	if announced {
		if err := w.promise(ctx, most); err != nil {
			return Turn{More: true}, w.now(), err
		}
	}
	t, err := w.act(ctx, most, canary)
	if canary {
		noteSaved(w, time.Time{}) // who goes on with it after a kill is to know how many there are
	}
	at, lost := w.tell(ctx, func(s *State) {
		if announced {
			s.settle(t, most, err != nil)
		}
		s.took(t, err)
		s.ETASeconds = s.eta(w.r.cfg.limited(&w.l.request), s.Done-w.l.before, time.Since(w.l.since))
	})
	return t, at, cmp.Or(err, lost)
}

// announces says that it is written down before each turn how many it may do at most.
func announces(w *worker, at *State) bool {
	return w.l.request.Expect != nil || w.r.cfg.inCanary(&w.l.request, at) || w.r.cfg.limited(&w.l.request)
}

// settle takes back what was promised of a turn and it has not done: after one that was cut off no
// more are done than it began with.
func (s *State) settle(t Turn, most int, cutOff bool) {
	begun := t.Done
	if cutOff {
		begun = max(t.Begun, t.Done)
	}
	s.Begun += begun - most
}

// took takes what came of a turn into the state.
func (s *State) took(t Turn, err error) {
	if err == nil {
		s.Why = ""
	}
	s.Matched = max(s.Matched, s.Done+max(t.Begun, t.Done))
	s.Done += t.Done
	s.LeftOut.TooLarge = max(s.LeftOut.TooLarge, t.LeftOut.TooLarge)
	if !t.More {
		s.LeftOut, s.Unsorted, s.Complete = t.LeftOut, t.Unseen, t.Unseen == 0
	}
}

// promise writes down how many are done at most when the turn that follows is over: if the process
// is killed in it, the next does not go beyond what was expected, the canary, or what may fail.
// Where none of these is asked for there is nothing to keep.
func (w *worker) promise(ctx context.Context, most int) error {
	s := w.now()
	s.Begun = max(s.Begun, s.Done) + most
	_, err := w.save(ctx, s)
	failpoint.Hit("operation promised")
	if err == nil { // else no turn follows, and none is to be counted
		w.r.mu.Lock()
		w.l.at.Begun = s.Begun
		w.r.mu.Unlock()
	}
	return err
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
			token(w.l.poked) // for the wait that follows
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
	select {
	case <-time.After(d):
	case <-w.l.poked:
	case <-ctx.Done():
	}
}

// unseen says so of what was not looked at.
func unseen(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d messages lie behind those that a look sees, and none of these matches any more: whether some of the others do is not known", n)
}

// eta is about how many seconds the rest takes, at its rate or at the speed so far; 0: not known.
// One that is limited in what may be out may be slower than its rate.
func (s *State) eta(isLimited bool, done int, took time.Duration) int {
	left := s.Matched - s.Done
	switch {
	case left <= 0:
		return 0
	case s.Rate.Per > 0 && !isLimited:
		took, done = s.Rate.Per, s.Rate.Messages
	case done <= 0:
		return 0
	}
	return max(1, int(took.Seconds()*float64(left)/float64(done)))
}
