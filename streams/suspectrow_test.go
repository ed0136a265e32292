package streams

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/solo"
)

// inARow says that nothing is suspected, and that so many were condemned in a row.
func inARow(n int) func(*ledger.Mark) {
	return func(m *ledger.Mark) { m.Owner, m.Deaths, m.Condemned = 0, 0, n }
}

// saysRow checks how many were condemned in a row, as the last commit has it.
func (w *ward) saysRow(when string, want int) {
	w.t.Helper()
	if w.said.Condemned != want {
		w.t.Errorf("%s: a commit says that %d were condemned in a row, want %d", when, w.said.Condemned, want)
	}
}

// The next one in a row may lie in another partition.
func TestThatTheLastSuspectOfAPartitionIsCondemnedDoesNotEndTheRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 1, settle, accuse(0))
		w.stores()
		time.Sleep(probation)
		w.stores()
		w.called("it is condemned")
		if w.p.lag() != 0 || w.said.Deaths != 0 {
			t.Errorf("%d are not settled: %+v", w.p.lag(), w.said)
		}
		w.saysRow("no suspect is left", 1)
	})
}

func TestAProcessThatLivesOnEndsTheRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 1, settle, inARow(1))
		w.stores()
		time.Sleep(probation + aloneFor)
		w.stores()
		w.saysRow("within its time", 1)
		time.Sleep(time.Nanosecond)
		w.stores()
		w.saysRow("it has lived on", 0)
	})
}

func TestASentenceBeginsTheTimeAnewAfterWhichARowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 1, settle, func(m *ledger.Mark) { accuse(0)(m); m.Condemned = 1 })
		w.stores()
		time.Sleep(probation)
		w.stores()
		w.saysRow("another one is condemned", 2)
		time.Sleep(probation + aloneFor)
		w.stores()
		w.saysRow("within its time", 2)
		time.Sleep(time.Nanosecond)
		w.stores()
		w.saysRow("it has lived on", 0)
	})
}

func TestASuspectThatComesToItsEndEndsTheRowOfAllPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 1, settle, unchanged)
		w.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{"t": {1}})
		other := w.parts.lookup(topicPartition{"t", 1})
		mark := ledger.NoMark()
		mark.Condemned = ledger.MostCondemned
		other.restored(0, ledger.WriteMetadata(0, ledger.Metadata{Mark: &mark}, func(func(ledger.Span) bool) {}, ledger.MetadataLimit))
		other.begin(ledger.At(0, -1), false)
		c, _ := other.dirty(ledger.MetadataLimit)
		other.stored(c)
		if n := w.parts.condemnedInARow(); n != ledger.MostCondemned {
			t.Errorf("%d in a row", n)
		}
		w.stores()
		w.called("the suspect", 0)
		if n := w.parts.condemnedInARow(); n != 0 {
			t.Errorf("it came to its end, and %d were condemned in a row", n)
		}
		if _, dirty := other.dirty(ledger.MetadataLimit); !dirty {
			t.Error("the broker is not told")
		}
	})
}

// One of the others may come to its end, and so end the row: else the spared one, if it does kill,
// would kill one process after another before any of them had its turn.
func TestTheOneThatIsSparedAsTheThirdInARowRunsAfterAllOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 3, settle, func(m *ledger.Mark) { accuse(0)(m); m.Condemned = ledger.MostCondemned })
		w.stores()
		others := &solo.Turn{Ready: func() {}}
		w.token.Request(others)
		time.Sleep(probation)
		synctest.Wait()
		if !w.token.Holds(others) {
			t.Error("suspects of another partition wait for it")
		}
		w.called("others have their turn")
		w.token.Release(others)
		w.stores()
		w.called("it is the last", 1, 2, 0)
	})
}

func TestATrialThatIsCutOffByTheLossOfItsPartitionBeginsNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 1, settle, accuse(0))
		w.stores()
		w.suspects("it is on probation", 1, "t:0:0")
		w.rebalances.drop(w.parts.all(), ErrLost)
		synctest.Wait()
		if w.p.suspects.limit.Stop() {
			t.Error("the time of a turn runs, of a partition that is not ours")
		}
	})
}

// It would read like another killer.
func TestAfterATrialTheOtherSuspectsAreNotToldOfAnew(t *testing.T) {
	for name, living := range map[string]map[uint32]bool{"it is condemned": nil, "it runs once more": {5: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWard(t, 3, settle, accuse(1))
				w.stores()
				w.members.Store(&members{living: living})
				time.Sleep(probation)
				w.stores()
				if n := len(w.calls.of(0)) + len(w.calls.of(condemnations)); n != 3 {
					t.Errorf("%d came to an end", n)
				}
				if w.log.count("level=")-w.log.count("level=INFO") != 1 || w.log.count("deaths_while_it_ran=", "crash_limit=3", "offset=1") != 1 {
					t.Errorf("the log has more than what the trial came to:\n%s", &w.log.text)
				}
			})
		})
	}
}

// Two that were condemned in another partition count in the row.
func TestTheThirdInARowIsSparedAlsoWhereTheOthersLieInAnotherPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 1, settle, accuse(0))
		w.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{"t": {1}})
		other := w.parts.lookup(topicPartition{"t", 1})
		mark := ledger.NoMark()
		mark.Condemned = ledger.MostCondemned
		other.restored(0, ledger.WriteMetadata(0, ledger.Metadata{Mark: &mark}, func(func(ledger.Span) bool) {}, ledger.MetadataLimit))
		other.begin(ledger.At(0, -1), false)
		w.stores()
		time.Sleep(probation)
		w.stores()
		w.called("it is spared, and runs", 0)
		if n := len(w.calls.of(condemnations)); n > 0 {
			t.Errorf("%d condemned", n)
		}
	})
}
