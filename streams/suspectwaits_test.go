package streams

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/solo"
	"github.com/stepwell/stepwell/internal/task"
)

// It does not run meanwhile, and its call is over: what it waits for may take hours.
func TestASuspectThatWaitsForSomethingElseLeavesTheTurnOnceACommitSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		w := newWard(t, 2, func(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
			if m.Origin.Offset == 0 {
				tk.RestUntil(ctx, over, m)
			}
			return task.Settled
		}, accuse(0))
		w.members.Store(&members{living: map[uint32]bool{4: true}})
		w.stores()
		time.Sleep(probation)
		for range 2 {
			w.store()
		}
		w.called("the accused, once more", 0)
		w.asksForCommit("it waits")
		w.stores()
		w.called("it waits: the other one has its turn", 0, 1)
		if heir := ledger.NewGuard(w.said, 0, ledger.Rules{Limit: killers, Owner: 9}); heir.Now().Accused != -1 {
			t.Errorf("its call is over, and it is accused: %+v", heir.Now())
		}
		w.turnIsFree("it still waits", true)
		close(over)
		w.suspects("all is over", 0, "")
		if left := w.p.lag(); left != 0 {
			t.Errorf("%d are not settled", left)
		}
	})
}

func TestASuspectWhoseContextEndsWhileItWaitsForAnotherTurnIsNotCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goesOn, others := make(chan bool, 1), &solo.Turn{Ready: func() {}}
		w := newWard(t, 1, func(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
			limited, cancel := context.WithTimeout(ctx, 2*time.Hour)
			defer cancel()
			goesOn <- tk.Rest(limited, time.Hour, m)
			return task.Abandoned
		}, unchanged)
		w.stores()
		w.token.Request(others)
		time.Sleep(time.Hour)
		w.suspects("it waits for another turn", 1, "")
		time.Sleep(time.Hour)
		w.suspects("its time is over", 0, "")
		if <-goesOn {
			t.Error("it is told to go on")
		}
		w.token.Release(others)
		w.turnIsFree("nobody waits for it any more", true)
	})
}

// Others are announced meanwhile, and a death would be held against two.
func TestASuspectWhoseTurnEndsUncalledIsAnnouncedNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, others := newWardOf(t, 1, 2, untilTold(nil), func(m *ledger.Mark) { m.HandedOut, m.SuspectsEnd = 1, 1 }), &solo.Turn{Ready: func() {}}
		w.token.Request(others)
		w.stores()
		w.called("the only worker is busy", 1)
		w.token.Release(others)
		w.token.Request(others)
		w.p.mu.Lock()
		w.p.suspects.NextAside() // as for a worker that another partition keeps from coming
		w.p.mu.Unlock()
		w.stores()
		if w.said.Alone != 0 {
			t.Fatalf("the broker knows of %d that it runs", w.said.Alone)
		}
		time.Sleep(aloneFor)
		synctest.Wait()
		w.asksForCommit("its time is over")
		if w.token.Holds(others) {
			t.Error("others have their turn before the broker knows that it does not run")
		}
		w.stores()
		if w.said.Alone != -1 || !w.token.Holds(others) {
			t.Errorf("others have their turn: %v; the broker knows of %d that it runs", w.token.Holds(others), w.said.Alone)
		}
	})
}

// holdsBack has so many calls run beside a suspect that no more may be handed out: those of the
// first records wait until they are told to rest.
func holdsBack(t *testing.T, tell <-chan struct{}) (w *ward, flushed *int) {
	t.Helper()
	w = newWardOf(t, 50, 1, func(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
		select {
		case <-tell:
		case <-ctx.Done():
			return task.Abandoned
		}
		if !tk.Rest(ctx, time.Hour, m) {
			return task.Abandoned
		}
		return task.Settled
	}, func(m *ledger.Mark) { m.Deaths = killers })
	flushed = new(int)
	synctest.Wait()
	w.cfg.Calls.Flush = func() { *flushed++ }
	w.intake.receive(w.p.topicPartition, records(1, 100), [16]byte{1})
	w.stores()
	return w, flushed
}

func TestWhatRestsIsNotCountedAmongTheFewThatMayRunWhileDeathsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tell := make(chan struct{})
		w, _ := holdsBack(t, tell)
		if n := w.calls.count(); n < 2 || n > 20 {
			t.Fatalf("%d were called", n)
		}
		close(tell)
		for range 100 {
			w.store()
		}
		if n := w.calls.count(); n != 100 {
			t.Errorf("%d of 100 were called, and all that were called rest", n)
		}
	})
}

func TestWhoGathersIsNotToWaitForMoreWhereDeathsHoldThemBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, flushed := holdsBack(t, nil)
		if *flushed = 0; w.p.roster.IsHalted() {
			t.Fatal("nothing is handed out")
		}
		w.p.roster.Offer()
		if synctest.Wait(); *flushed == 0 {
			t.Error("it is not told so")
		}
	})
}
