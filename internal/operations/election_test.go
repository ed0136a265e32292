package operations

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/records"
)

// candidate is a process that may lead.
func candidate(t *testing.T, b queue.Broker, name string) *Election {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	store := records.New(records.Config{Broker: b, Log: "app.records", Logger: log})
	background(t, store.Run)
	if err := store.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &Election{Records: store, Broker: b, Lease: "app.operations", Name: name, Logger: log}
}

// candidates calls test with two of them on a false clock.
func candidates(t *testing.T, test func(t *testing.T, b *memory.Broker, one, two *Election)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := memory.New()
		background(t, b.Run)
		test(t, b, candidate(t, b, "one"), candidate(t, b, "two"))
	})
}

// leads has the process lead until its context ends, or it resigns. over is closed when it does so
// no more.
func leads(t *testing.T, e *Election) (term int64, over chan struct{}, resign func()) {
	t.Helper()
	began, leave := make(chan int64, 1), make(chan struct{})
	over = make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.Lead(t.Context(), func(ctx context.Context, term int64) {
			began <- term
			select {
			case <-ctx.Done():
			case <-leave:
			}
			close(over)
		})
	}()
	resign = sync.OnceFunc(func() { close(leave); <-ended })
	t.Cleanup(resign)
	synctest.Wait()
	select {
	case term = <-began:
	default:
	}
	return term, over, resign
}

// leaderOf is what the records say of who leads.
func leaderOf(t *testing.T, e *Election) (l leader) {
	t.Helper()
	r, there, err := e.Records.Latest(t.Context(), leaderKind, leaderName)
	if err != nil || !there {
		t.Fatalf("%v, %v", there, err)
	}
	if err := json.Unmarshal(r.Value, &l); err != nil {
		t.Fatal(err)
	}
	return l
}

// say writes who leads.
func say(t *testing.T, e *Election, is leader) {
	t.Helper()
	if err := e.change(t.Context(), func(l *leader) error { *l = is; return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestOneLeadsAtATimeEachInATermOfItsOwnAndSaysWhenItDoesNotAnyMore(t *testing.T) {
	candidates(t, func(t *testing.T, _ *memory.Broker, one, two *Election) {
		for term, e := range []*Election{one, two, two, one} {
			got, _, resign := leads(t, e)
			if got != int64(term)+1 {
				t.Fatalf("%s leads in term %d, not %d", e.Name, got, term+1)
			}
			if l := leaderOf(t, two); l != (leader{Term: got, Name: e.Name}) {
				t.Errorf("as it begins: %+v", l)
			}
			time.Sleep(time.Minute)
			if l := leaderOf(t, two); l.Term != got || l.Beat < 200 || l.Resigned {
				t.Errorf("after a minute: %+v", l)
			}
			for _, other := range []*Election{one, two} {
				other.Lead(t.Context(), func(context.Context, int64) { t.Errorf("%s leads, too", other.Name) })
			}
			if l := leaderOf(t, two); l.Term != got || l.Resigned {
				t.Errorf("after the others asked: %+v", l)
			}
			resign()
			if l := leaderOf(t, two); l.Term != got || !l.Resigned {
				t.Errorf("once it resigned: %+v", l)
			}
		}
	})
}

func TestWhoseLeaseEndsLeadsNoMoreAtOnce(t *testing.T) {
	candidates(t, func(t *testing.T, b *memory.Broker, one, _ *Election) {
		_, over, _ := leads(t, one)
		b.SetUp(false)
		synctest.Wait()
		if !isOver(over) {
			t.Error("it leads without a lease")
		}
	})
}

// Its lease is one of another broker's memory, say, or a person removed the queue.
func TestWhoReadsThatAnotherLeadsLeadsNoMoreAndSaysNothingOfThatTerm(t *testing.T) {
	candidates(t, func(t *testing.T, _ *memory.Broker, one, two *Election) {
		_, over, resign := leads(t, one)
		is := leader{Term: 9, Name: "two", Beat: 7}
		say(t, two, is)
		time.Sleep(2 * beatTime)
		if !isOver(over) {
			t.Error("two lead")
		}
		resign()
		if l := leaderOf(t, two); l != is {
			t.Errorf("%+v", l)
		}
	})
}

// What keeps it from that may not be in the way of others.
func TestWhoCouldNotSayForLongThatItLeadsLeadsNoMore(t *testing.T) {
	candidates(t, func(t *testing.T, b *memory.Broker, one, _ *Election) {
		_, over, _ := leads(t, one)
		time.Sleep(10 * time.Minute)
		for _, block := range []time.Duration{mute - time.Second, mute + time.Second} {
			b.Block(true)
			time.Sleep(block)
			if gone := isOver(over); gone != (block > mute) {
				t.Errorf("silent for %s: it leads no more: %v", block, gone)
			}
			b.Block(false)
			time.Sleep(time.Second)
		}
	})
}

func TestNobodyAsksForTheLeaseWhileTheLeaderIsHeard(t *testing.T) {
	candidates(t, func(t *testing.T, _ *memory.Broker, one, two *Election) {
		_, _, resign := leads(t, one)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		hurry := make(chan struct{}, 1)
		hurry <- struct{}{} // something was asked for: the leader runs it
		began := time.Now()
		two.Await(ctx, hurry)
		if took := time.Since(began); took < time.Minute {
			t.Errorf("it asks after %s", took)
		}
		began = time.Now()
		time.AfterFunc(time.Second, resign)
		two.Await(t.Context(), nil)
		if took := time.Since(began) - time.Second; took < 0 || took > haste {
			t.Errorf("once the leader has resigned it asks after %s", took)
		}
	})
}

func TestWhoWaitsAsksOnceNobodyIsHeardAndAtOnceWhereThatIsKnown(t *testing.T) {
	for what, c := range map[string]struct {
		says        *leader
		hurry       bool
		least, most time.Duration
	}{
		"nobody ever led, and nothing is in a hurry": {nil, false, silence, silence + haste},
		"nobody ever led":     {nil, true, 0, 0},
		"the leader resigned": {&leader{Term: 3, Resigned: true}, true, 0, 0},
		"the leader resigned, and nothing is in a hurry":     {&leader{Term: 3, Resigned: true}, false, silence, silence + haste},
		"the leader was killed, who may be slow and no more": {&leader{Term: 3}, true, silence, silence + haste},
	} {
		candidates(t, func(t *testing.T, _ *memory.Broker, one, two *Election) {
			if c.says != nil {
				say(t, one, *c.says)
			}
			synctest.Wait()
			hurry := make(chan struct{}, 1)
			if c.hurry {
				hurry <- struct{}{}
			}
			began := time.Now()
			two.Await(t.Context(), hurry)
			if took := time.Since(began); took < c.least || took > c.most {
				t.Errorf("%s: it asks after %s", what, took)
			}
		})
	}
}

// It would be in the way of those who can.
func TestWhoDoesNotReadTheRecordsDoesNotAskForTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New()
		background(t, b.Run)
		var asked atomic.Int64
		d := &deaf{Broker: refusing{b, &asked}}
		e := candidate(t, d, "deaf")
		d.is.Store(true)
		time.Sleep(time.Second)
		e.Lead(t.Context(), func(context.Context, int64) { t.Error("it leads") })
		if n := asked.Load(); n != 0 {
			t.Errorf("it asked %d times", n)
		}
	})
}

func TestWhoAsksWhetherAnybodyCanLeadKeepsNobodyFromThatAndAsksOnce(t *testing.T) {
	candidates(t, func(t *testing.T, b *memory.Broker, one, two *Election) {
		if why := one.Impossible(t.Context()); why != nil {
			t.Errorf("it can: %v", why)
		}
		if term, _, resign := leads(t, two); term != 1 {
			t.Errorf("term %d", term)
		} else {
			resign()
		}
	})
	candidates(t, func(t *testing.T, b *memory.Broker, one, _ *Election) {
		var asked atomic.Int64
		one.Broker = refusing{b, &asked}
		for range 3 {
			if why := one.Impossible(t.Context()); why == nil {
				t.Error("it may not")
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("it asked %d times", n)
		}
		say(t, one, leader{Term: 1, Name: "another"})
		if why := one.Impossible(t.Context()); why != nil {
			t.Errorf("another one could: %v", why)
		}
	})
}

// Then nothing is in the way of operations, whatever this process may do.
func TestThatAProcessMayNotLeadIsForgottenOnceAnotherIsHeardAndNotWhenOneResigns(t *testing.T) {
	candidates(t, func(t *testing.T, b *memory.Broker, one, two *Election) {
		two.Broker = refusing{Broker: b}
		two.Lead(t.Context(), func(context.Context, int64) { t.Error("it leads without a lease") })
		if two.Refused() == nil {
			t.Fatal("that it may not is not known")
		}
		waits := func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			two.Await(ctx, nil)
		}
		time.AfterFunc(time.Millisecond, func() { say(t, one, leader{Term: 1, Resigned: true}) })
		if waits(); two.Refused() == nil {
			t.Error("nobody leads, and that it may not is forgotten")
		}
		time.AfterFunc(time.Millisecond, func() { say(t, one, leader{Term: 2, Name: "one"}) })
		if waits(); two.Refused() != nil {
			t.Errorf("another leads: %v", two.Refused())
		}
	})
}

func TestWhoMayNotLeadAsksSeldom(t *testing.T) {
	candidates(t, func(t *testing.T, b *memory.Broker, one, _ *Election) {
		one.Broker = refusing{Broker: b}
		one.Lead(t.Context(), func(context.Context, int64) { t.Error("it leads without a lease") })
		began := time.Now()
		one.Await(t.Context(), nil)
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("it asks again after %s", took)
		}
	})
}
