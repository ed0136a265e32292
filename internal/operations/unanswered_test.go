package operations

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/records"
)

// faulty is a store that fails at one state: before it has it, or after.
type faulty struct {
	Store
	is     func(State) bool
	stores bool
	times  int
}

func (f *faulty) Change(ctx context.Context, id string, change func(State) (State, error)) (State, error) {
	fails := false
	s, err := f.Store.Change(ctx, id, func(s State) (State, error) {
		s, err := change(s)
		if fails = err == nil && f.times > 0 && f.is(s); fails && !f.stores {
			return s, ErrAway
		}
		return s, err
	})
	if fails {
		f.times--
		return s, fmt.Errorf("%w: no answer in time", ErrAway)
	}
	return s, err
}

// onFaulty runs a process whose store fails.
func onFaulty(t *testing.T, f *faulty, test func(t *testing.T, r *Runner, p *pile)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b, p, log := memory.New(), &pile{}, slog.New(slog.NewTextHandler(t.Output(), nil))
		background(t, b.Run)
		store := records.New(records.Config{Broker: b, Log: "app.records", Logger: log, Large: Large()})
		background(t, store.Run)
		if err := store.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.Store = NewShared(store)
		r := New(Config{
			Store: f, Sets: map[Target]DeadSet{orders: p}, Name: "here", Logger: log,
			Election: &Election{Records: store, Broker: b, Lease: "app.operations", Name: "here", Logger: log},
		})
		background(t, r.Run)
		test(t, r, p)
	})
}

func TestAnOperationWhoseBeginningIsNotAnsweredForRunsAllTheSame(t *testing.T) {
	for _, stores := range []bool{false, true} {
		t.Run(fmt.Sprintf("stored %t", stores), func(t *testing.T) {
			f := &faulty{is: func(s State) bool { return s.Phase == Running && s.Term > 0 && s.Begun == 0 && s.Matched == 0 }, stores: stores, times: 1}
			onFaulty(t, f, func(t *testing.T, r *Runner, p *pile) {
				p.set(func(p *pile) { p.match = 10 })
				id := ask(t, r, request(orders, 10), Unlimited).ID
				time.Sleep(time.Hour)
				if o := find(t, r, id); f.times != 0 || o.Phase != Done || o.Done != 10 || o.Resumed != 0 {
					t.Errorf("%+v", o)
				}
			})
		})
	}
}

func TestATurnThatIsNotAnnouncedIsNotCounted(t *testing.T) {
	for _, stores := range []bool{false, true} {
		t.Run(fmt.Sprintf("stored %t", stores), func(t *testing.T) {
			f := &faulty{is: func(s State) bool { return s.Phase == Running && s.Begun > s.Done }, stores: stores, times: 3}
			onFaulty(t, f, func(t *testing.T, r *Runner, p *pile) {
				p.set(func(p *pile) { p.match = 10 })
				id := ask(t, r, request(orders, 10), Unlimited).ID
				time.Sleep(time.Hour)
				if o := find(t, r, id); f.times != 0 || o.Phase != Done || o.Done != 10 {
					t.Errorf("%+v", o)
				}
			})
		})
	}
}

func TestATurnThatCouldBeginWithNothingPausesNothingWhereALookDoesNotSeeAll(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) {
			p.match, p.unseen, p.turnErr = 10, 92_000, fmt.Errorf("%w: somebody looks at it", ErrAway)
		})
		id := ask(t, r, request(orders, 10), Unlimited).ID
		time.Sleep(10 * time.Second)
		if o := find(t, r, id); o.Phase != Running || o.Why != "not now: somebody looks at it" {
			t.Errorf("%+v", o)
		}
		p.set(func(p *pile) { p.turnErr = nil })
		time.Sleep(time.Minute)
		if o := find(t, r, id); o.Phase != Done || o.Done != 10 {
			t.Errorf("%+v", o)
		}
	})
}

func TestACancelThatIsNotObeyedYetIsNotUndone(t *testing.T) {
	for _, wish := range []Phase{Running, Paused} {
		s := State{Phase: Running}.after(Change{Phase: Cancelled}, time.Now()).after(Change{Phase: wish}, time.Now())
		if s.Wanted != Cancelled {
			t.Errorf("then %s: %q is wanted", wish, s.Wanted)
		}
	}
}

func TestWhatWasAwayAndIsAgainIsSoonAskedForAnew(t *testing.T) {
	run(t, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match, p.turnErr = 1000, ErrAway })
		ask(t, r, request(orders), "10/s")
		time.Sleep(time.Minute) // so it waits for longestWait
		p.set(func(p *pile) { p.turnErr = nil })
		time.Sleep(10 * time.Second)
		p.set(func(p *pile) { p.turnErr, p.turns = ErrAway, nil })
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if n := len(p.turns); n < 3 {
			t.Errorf("%d turns in the first seconds", n)
		}
	})
}

// A turn that could begin with nothing has done nothing, whatever a look would make of that.
func TestWhatOthersTookAwayWhileNoTurnCouldBeginIsNotDone(t *testing.T) {
	for what, expect := range map[string][]int{"so many are expected": {10}, "no number is": nil} {
		run(t, func(t *testing.T, r *Runner, p *pile) {
			p.set(func(p *pile) { p.match, p.turnErr = 10, ErrAway })
			id := ask(t, r, request(orders, expect...), Unlimited).ID
			time.Sleep(time.Minute)
			p.set(func(p *pile) { p.match, p.turnErr = 6, nil })
			time.Sleep(time.Minute)
			if o := find(t, r, id); o.Phase != Done || o.Done != 6 || o.Matched != 10 {
				t.Errorf("%s: %+v", what, o.State)
			}
		})
	}
}

func TestWhyNoTurnIsAnnouncedIsSaidAndItIsTriedMoreAndMoreSeldom(t *testing.T) {
	f := &faulty{is: func(s State) bool { return s.Begun > s.Done }, times: 1 << 30}
	onFaulty(t, f, func(t *testing.T, r *Runner, p *pile) {
		p.set(func(p *pile) { p.match = 10 })
		id := ask(t, r, request(orders, 10), Unlimited).ID
		time.Sleep(time.Minute)
		if o, tried := find(t, r, id), 1<<30-f.times; o.Phase != Running || o.Why != "not now: no answer in time" || len(p.turns) > 0 || tried > 25 {
			t.Errorf("tried %d times: %+v", tried, o.State)
		}
	})
}
