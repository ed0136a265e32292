package streams

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/solo"
	"github.com/stepwell/stepwell/internal/task"
)

// restsForAnHour is a handle whose calls rest once, when they are told to.
func restsForAnHour(tell <-chan struct{}) Handle {
	return func(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
		select {
		case <-tell:
		case <-ctx.Done():
		}
		if !tk.Rest(ctx, time.Hour, m) {
			return task.Abandoned
		}
		return task.Settled
	}
}

// The broker does not know yet that the suspect does not run: a death of others would be held
// against it. But a Kafka that takes no commits is not to hold up suspects of others for ever.
func TestWhereNoCommitSaysThatASuspectDoesNotRunOthersWaitForAnotherTimeAtMost(t *testing.T) {
	for how, handle := range map[string]func(tell <-chan struct{}) Handle{
		"it came to its end": untilTold,
		"it rests":           restsForAnHour,
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tell := make(chan struct{})
				w, others := newWard(t, 1, handle(tell), unchanged), &solo.Turn{Ready: func() {}}
				w.stores()
				w.token.Request(others)
				time.Sleep(aloneFor - time.Second)
				tell <- struct{}{}
				synctest.Wait()
				time.Sleep(aloneFor - 1)
				if synctest.Wait(); w.token.Holds(others) {
					t.Error("others have their turn before the time is over")
				}
				time.Sleep(time.Nanosecond)
				if synctest.Wait(); !w.token.Holds(others) {
					t.Error("others wait for more than that")
				}
			})
		})
	}
}

func TestEachStepOfATurnAsksForACommitAtOnce(t *testing.T) {
	for how, handle := range map[string]func(tell <-chan struct{}) Handle{"comes to its end": untilTold, "rests": restsForAnHour} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tell := make(chan struct{})
				w := newWard(t, 1, handle(tell), unchanged)
				for _, step := range []string{"its partition is new", "it is announced"} {
					synctest.Wait()
					w.asksForCommit(step)
					w.store()
				}
				tell <- struct{}{}
				synctest.Wait()
				w.asksForCommit(how)
			})
		})
	}
}

// asksForCommit checks that a commit does not wait for the next tick.
func (w *ward) asksForCommit(when string) {
	w.t.Helper()
	select {
	case <-w.commits.now:
	default:
		w.t.Errorf("%s: no commit is asked for", when)
	}
}

func TestTheStatusCountsASuspectThatRestsAsOneThatRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tell := make(chan struct{})
		w := newWard(t, 1, restsForAnHour(tell), unchanged)
		w.stores()
		for when, resting := range []int64{0, 1, 0} {
			synctest.Wait()
			if got := w.Status().Resting; got != resting {
				t.Errorf("step %d: %d rest, want %d", when, got, resting)
			}
			switch when {
			case 0:
				tell <- struct{}{}
			case 1:
				w.stores()
				time.Sleep(time.Hour)
				w.stores()
			}
		}
	})
}

func TestASuspectThatWaitsForAnotherTurnIsGoneWithItsPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tell, others := make(chan struct{}, 1), &solo.Turn{Ready: func() {}}
		w := newWard(t, 1, restsForAnHour(tell), unchanged)
		tell <- struct{}{}
		w.stores()
		w.token.Request(others)
		time.Sleep(time.Hour)
		w.suspects("it waits for another turn", 1, "")
		w.p.stop()
		w.suspects("the partition ends", 0, "")
		if !w.p.isDone() {
			t.Error("something of it runs")
		}
		w.rebalances.drop(w.parts.all(), ErrShutdown)
		w.token.Release(others)
		w.turnIsFree("nobody waits for it any more", true)
	})
}

func TestSuspectsThatHaveRestedGoOnWhereABrokerTakesMarksNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 3, func(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
			if !tk.Rest(ctx, time.Hour, m) {
				return task.Abandoned
			}
			return task.Settled
		}, unchanged)
		w.stores()
		w.called("all, one after another", 0, 1, 2)
		held := &solo.Turn{Ready: func() {}}
		w.token.Request(held)
		time.Sleep(time.Hour)
		w.suspects("they wait for another turn", 3, "")
		w.p.dirty(20)
		w.suspects("nobody waits for a turn any more", 0, "")
		if left := w.p.lag(); left != 0 {
			t.Errorf("%d are not settled", left)
		}
	})
}

func TestASuspectThatCouldNotBeAnnouncedInItsTimeHasAnotherTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 1, settle, unchanged)
		w.store()
		w.turnIsFree("it is to be announced", false)
		time.Sleep(aloneFor + 1) // no commit is stored
		w.stores()
		w.called("commits are stored again", 0)
	})
}
