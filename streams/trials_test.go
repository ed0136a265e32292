package streams

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/task"
)

// The process may die in the probation, too, of whatever else: a bad deploy, or a node that goes.
func TestADeathInTheProbationIsHeldAgainstNobodyAndThoseBeforeAreNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 4, settle, accuse(3))
		w.stores()
		w.suspects("it is on probation", 4, "t:0:3")
		time.Sleep(probation - 1)
		w.stores()
		heir := ledger.NewGuard(w.said, 0, ledger.Rules{Limit: killers, Owner: 9})
		if next := heir.Now(); next.Accused != 3 || !slices.Equal(next.Died, []uint32{4, 5, 6, 8}) {
			t.Errorf("the next owner holds the deaths of %v against the record at %d; the broker knew of %d that it runs", next.Died, next.Accused, w.said.Alone)
		}
	})
}

// The bound that commits set is for suspects' sake.
func TestOnceAllSuspectsAreSettledOthersWaitForNoCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 5000
		tell := make(chan struct{})
		w := newWard(t, 1, func(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
			if m.Origin.Offset == 0 {
				return untilTold(tell)(ctx, m, tk)
			}
			return task.Settled
		}, unchanged)
		w.stores()
		w.called("the only suspect", 0)
		tell <- struct{}{}
		synctest.Wait()
		w.intake.receive(w.p.topicPartition, records(1, n), [16]byte{1})
		synctest.Wait()
		if got := w.calls.count(); got != n {
			t.Errorf("%d of %d were called before the next commit", got, n)
		}
	})
}

// A death meanwhile is its own: nothing else of the suspects runs.
func TestASuspectThatRunsStaysAnnouncedInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 2, untilTold(nil), unchanged)
		w.stores()
		w.called("announced", 0)
		w.Pause()
		w.p.roster.Offer()
		w.stores()
		if w.said.Alone != 0 {
			t.Errorf("the broker knows of %d that it runs", w.said.Alone)
		}
	})
}

func TestWhereABrokerTakesMarksNoMoreASuspectThatRunsIsNoneAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 3, untilTold(nil), unchanged)
		w.stores()
		w.suspects("one runs", 3, "t:0:0")
		w.p.dirty(20)
		w.called("all run", 0, 1, 2)
		w.suspects("none is suspected", 0, "")
		w.turnIsFree("nobody needs it", true)
	})
}
