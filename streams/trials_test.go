package streams

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/internal/ledger"
)

// The process may die in the probation, too, of whatever else: a bad deploy, or a node that goes.
func TestADeathInTheProbationIsHeldAgainstNobodyAndThoseBeforeAreNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 4, settle, accuse(3))
		w.stores()
		w.suspects("it is on probation", 4, "t/0@3")
		time.Sleep(probation - 1)
		w.stores()
		heir := ledger.NewGuard(w.said, 0, ledger.Rules{Limit: killers, Owner: 9})
		if next := heir.Now(); next.Accused != 3 || !slices.Equal(next.Died, []uint32{4, 5, 6, 8}) {
			t.Errorf("the next owner holds the deaths of %v against the record at %d; the broker knew of %d that it runs", next.Died, next.Accused, w.said.Alone)
		}
	})
}
