package operations

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/records"
)

const (
	// leaderKind is the kind of the one record that says who leads.
	leaderKind, leaderName = "stepwell.leader", "operations"
	// beatTime is how often the leader says that it lives, and silence after how long without that
	// another tries to take its place; each waits up to haste more, that not all do at once.
	beatTime, silence, haste = 250 * time.Millisecond, 600 * time.Millisecond, 150 * time.Millisecond
	// resignTime is how long it may take to tell that somebody else may lead.
	resignTime = time.Second
	// mute is for how long a leader may not be able to beat: what keeps it from that may not be in
	// the way of others.
	mute = 30 * time.Second
)

var errDeposed = errors.New("another process leads")

// Election has one process of an app lead at a time: the one that has a lease. Who has lost it may
// learn that later than the next has it, so each leader has a term of its own, and what one of an
// earlier term writes does not count.
//
// While it leads it beats: the others ask for the lease only where they hear nothing, since each
// question costs a connection and, where the answer is no, an error in the broker's log. A beat
// that is late takes nothing from anybody: the lease decides.
type Election struct {
	Records *records.Store
	Broker  queue.Broker
	// Lease is the name of the lease, and Name that of this process.
	Lease, Name string
	Logger      *slog.Logger

	// mu guards refused and asked.
	mu sync.Mutex
	// refused is why the lease could not be had the last time, where that does not pass by itself,
	// as for want of a right, and nobody leads. asked says that it is known.
	refused error
	asked   bool
}

// leader is who leads, or did last.
type leader struct {
	Term int64  `json:"term"`
	Name string `json:"name"`
	Beat int64  `json:"beat"`
	// Resigned says that nobody leads.
	Resigned bool `json:"resigned,omitempty"`
}

// Await returns when it may be that nobody leads, or ctx ends. Where nobody does, it takes some
// time, unless there is something in hurry.
func (e *Election) Await(ctx context.Context, hurry <-chan struct{}) {
	patience := time.NewTimer(e.patience())
	defer patience.Stop()
	for {
		beat := e.Records.Changed(leaderKind)
		select {
		case <-beat:
			if e.isVacant() {
				patience.Reset(rand.N(haste))
			} else {
				e.heard()
				patience.Reset(e.patience())
			}
		case <-hurry:
			if e.isVacant() {
				return
			}
		case <-patience.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// patience is for how long nobody has to be heard. Who was refused asks seldom: each question is a
// connection, and an error in the broker's log.
func (e *Election) patience() time.Duration {
	if e.Refused() != nil {
		return longestWait
	}
	return silence + rand.N(haste)
}

// Refused is why this process may not lead while nobody else does, where that does not pass by
// itself; nil: it is not so, as far as is known.
func (e *Election) Refused() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.refused
}

// heard notes that another process leads.
func (e *Election) heard() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refused = nil
}

// Impossible is why no process can lead, as far as is known: this one may not, and none ever did.
// Where it does not know whether it may it asks for the lease.
func (e *Election) Impossible(ctx context.Context) error {
	if _, there, err := e.Records.Get(leaderKind, leaderName); there || err != nil {
		return nil
	}
	e.mu.Lock()
	asked := e.asked
	e.mu.Unlock()
	if !asked {
		if lease, err := e.lease(ctx); err == nil {
			lease.Release()
			e.tell(nil)
		} else {
			e.tell(err)
		}
	}
	return e.Refused()
}

// lease is what a leader holds. It writes records, for which the broker has to take what is
// published.
func (e *Election) lease(ctx context.Context) (queue.Lease, error) {
	if err := e.Broker.Accepts(ctx); err != nil {
		return nil, err
	}
	return e.Broker.Lease(ctx, e.Lease)
}

// isVacant says whether nobody leads, as far as is known.
func (e *Election) isVacant() bool {
	r, there, err := e.Records.Get(leaderKind, leaderName)
	if err != nil || !there {
		return err == nil
	}
	var l leader
	return json.Unmarshal(r.Value, &l) == nil && l.Resigned
}

// Lead calls serve with a new term if nobody else leads, and returns when it has returned. serve's
// context ends when another process may lead.
func (e *Election) Lead(ctx context.Context, serve func(ctx context.Context, term int64)) {
	if _, trouble := e.Records.Status(); trouble != nil {
		return // who cannot read what operations there are is in the way of those who can
	}
	lease, err := e.lease(ctx)
	e.tell(err)
	if err != nil {
		return
	}
	defer lease.Release()
	term := int64(0)
	err = e.change(ctx, func(l *leader) error {
		l.Term++
		term = l.Term
		l.Name, l.Beat, l.Resigned = e.Name, 0, false
		return nil
	})
	if err != nil { // the records are away, and operations with them
		e.tell(err)
		return
	}
	serving, stop := context.WithCancel(ctx)
	var both sync.WaitGroup
	both.Go(func() {
		defer stop()
		select {
		case <-lease.Ended():
		case <-serving.Done():
		}
	})
	both.Go(func() {
		defer stop()
		e.beat(serving, term)
	})
	serve(serving, term)
	stop()
	both.Wait()
	resigning, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTime)
	defer cancel()
	_ = e.change(resigning, func(l *leader) error { // else the others find out
		l.Resigned = true
		return isTerm(l, term)
	})
}

// tell notes why this process cannot lead, and logs it once: it is tried again and again. What
// passes by itself says nothing of that, but for a lease that another has: who is told so may ask.
func (e *Election) tell(err error) {
	for _, passing := range []error{queue.ErrUnavailable, queue.ErrClosed, records.ErrUnknown, context.Canceled} {
		if errors.Is(err, passing) {
			return
		}
	}
	if errors.Is(err, queue.ErrLeased) {
		err = nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil && (e.refused == nil || e.refused.Error() != err.Error()) {
		e.Logger.Warn("this process runs no operations: who runs them has a lease and a term, and it cannot get them", "lease", e.Lease, "error", err)
	}
	e.refused, e.asked = err, true
}

// beat says again and again that this process leads, until ctx ends, another does, or it could not
// say so for long.
func (e *Election) beat(ctx context.Context, term int64) {
	tick := time.NewTicker(beatTime)
	defer tick.Stop()
	for beaten := time.Now(); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		trying, cancel := context.WithDeadline(ctx, beaten.Add(mute))
		err := e.change(trying, func(l *leader) error {
			l.Beat++
			return isTerm(l, term)
		})
		cancel()
		switch {
		case err == nil:
			beaten = time.Now()
		case errors.Is(err, errDeposed), time.Since(beaten) >= mute:
			return
		}
	}
}

// isTerm is nil while the term lasts.
func isTerm(l *leader, term int64) error {
	if l.Term != term {
		return errDeposed
	}
	return nil
}

// change changes the record of the leader.
func (e *Election) change(ctx context.Context, change func(*leader) error) error {
	return e.Records.Change(ctx, leaderKind, leaderName, func(r records.Record) (records.Record, error) {
		var l leader
		if r.Value != nil {
			if err := json.Unmarshal(r.Value, &l); err != nil {
				return r, err
			}
		}
		if err := change(&l); err != nil {
			return r, err
		}
		value, err := json.Marshal(l)
		r.Value = value
		return r, err
	})
}
