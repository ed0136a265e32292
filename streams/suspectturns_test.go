package streams

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/solo"
	"github.com/stepwell/stepwell/internal/task"
)

// ward is a reader with a partition of suspects, without a Kafka and on false time: what it would
// commit a broker has as soon as stores is called.
type ward struct {
	*Reader
	t       *testing.T
	p       *partition
	token   solo.Token
	log     logbook
	calls   *journal
	members atomic.Pointer[members]
	said    ledger.Mark // by the last commit
}

// members says who lives, or why that cannot be seen.
type members struct {
	living  map[uint32]bool
	unknown error
}

const (
	aloneFor  = time.Minute
	probation = 10 * time.Second
	killers   = 3 // CrashLimit
)

// newWard has n records of which deaths of others made suspects.
func newWard(t *testing.T, n int64, handle Handle, change func(*ledger.Mark)) *ward {
	t.Helper()
	return newWardOf(t, 0, n, handle, change)
}

// newWardOf is newWard with so many workers; 0: the default.
func newWardOf(t *testing.T, workers int, n int64, handle Handle, change func(*ledger.Mark)) *ward {
	t.Helper()
	w := &ward{t: t, calls: newJournal()}
	w.members.Store(&members{})
	cfg := Config{
		Stream: "orders", Group: Group{ID: "g"}, Topics: []string{"t"}, Calls: Calls{Order: OrderKey, Concurrency: workers}, Logger: w.log.logger(),
		Guard: Guard{CrashLimit: killers, Process: 7, AloneFor: aloneFor, Probation: probation, Token: &w.token},
	}
	cfg.Guard.Condemn = func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		w.calls.note(&stepwell.Message{Origin: stepwell.Origin{Partition: condemnations, Offset: m.Origin.Offset}})
		return task.Settled
	}
	r, err := New(cfg, func(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
		w.calls.note(m)
		return handle(ctx, m, tk)
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Reader = r
	w.served()
	r.parts.living = func(context.Context) (map[uint32]bool, error) {
		m := w.members.Load()
		return m.living, m.unknown
	}
	mark := ledger.NoMark()
	mark.Owner, mark.HandedOut, mark.Deaths, mark.SuspectsEnd = 99, n, killers-1, n
	change(&mark)
	tp := topicPartition{"t", 0}
	r.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {tp.partition}})
	w.p = r.parts.lookup(tp)
	w.p.restored(0, ledger.WriteMetadata(0, ledger.Metadata{Epoch: 1 << 20, Mark: &mark}, slices.Values([]ledger.Span{}), ledger.MetadataLimit))
	w.p.begin(ledger.At(0, -1), false)
	r.intake.receive(tp, records(0, n), [16]byte{1})
	return w
}

// condemnations is the partition under which the journal has what was condemned.
const condemnations = -1

// served has the reader's crew work until the test ends.
func (w *ward) served() {
	var end, dismiss context.CancelFunc
	var working context.Context
	w.life, end = context.WithCancel(context.Background())
	w.clients.all = []*fetcher{{client: new(kgo.Client), member: true}}
	working, dismiss = context.WithCancel(w.life)
	w.parts.workers.Go(func() { w.crew.Run(working) })
	w.t.Cleanup(func() {
		w.rebalances.drop(w.parts.all(), ErrShutdown)
		end()
		dismiss()
		w.parts.workers.Wait()
		if n := w.p.running(); n != 0 {
			w.t.Errorf("%d calls count as running after the end", n)
		}
	})
}

// stores has the broker take commits, until there is nothing to commit.
func (w *ward) stores() {
	w.t.Helper()
	for range 20 {
		if !w.store() {
			return
		}
	}
	w.t.Error("there is always more to commit")
}

// store is one commit, if there is something to commit.
func (w *ward) store() (dirty bool) {
	synctest.Wait()
	c, dirty := w.p.dirty(ledger.MetadataLimit)
	if dirty {
		w.said = ledger.ReadMetadata(c.At.Offset, c.Metadata).MarkOrNone()
		w.p.stored(c)
		synctest.Wait()
	}
	return dirty
}

// called checks which records were called by now, in this order.
func (w *ward) called(when string, want ...int64) {
	w.t.Helper()
	synctest.Wait()
	if got := w.calls.of(0); !slices.Equal(got, want) {
		w.t.Errorf("%s: called %v, want %v", when, got, want)
	}
}

// turnIsFree checks whether others could have their turn now.
func (w *ward) turnIsFree(when string, want bool) {
	w.t.Helper()
	synctest.Wait()
	var others solo.Turn
	got := w.token.Try(&others)
	if got {
		w.token.Release(&others)
	}
	if got != want {
		w.t.Errorf("%s: the turn is free: %t, want %t", when, got, want)
	}
}

// suspects checks what the status says of them.
func (w *ward) suspects(when string, n int, name string) {
	w.t.Helper()
	synctest.Wait()
	if s := w.Status(); s.Suspects != n || s.Suspect != name {
		w.t.Errorf("%s: the status has %d suspects, and %q runs; want %d, and %q", when, s.Suspects, s.Suspect, n, name)
	}
}

// untilTold is a handle whose calls last until the channel says so.
func untilTold(tell <-chan struct{}) Handle {
	return func(ctx context.Context, _ *stepwell.Message, _ task.Ticket) task.Outcome {
		select {
		case <-tell:
			return task.Settled
		case <-ctx.Done():
			return task.Abandoned
		}
	}
}

func settle(context.Context, *stepwell.Message, task.Ticket) task.Outcome { return task.Settled }

func unchanged(*ledger.Mark) {}

// accuse says that the last owners died while the record at offset ran.
func accuse(offset int64) func(*ledger.Mark) {
	return func(m *ledger.Mark) {
		m.Deaths, m.Accused, m.Died, m.Owner = killers, offset, []uint32{4, 5, 6, 8}, 0
	}
}

func TestTheStatusCountsSuspectsAndNamesTheOneThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tell := make(chan struct{})
		w := newWard(t, 2, untilTold(tell), unchanged)
		w.stores()
		w.suspects("one runs, and one waits", 2, "t:0:0")
		tell <- struct{}{}
		w.suspects("the first came to its end, and no commit says so yet", 1, "")
		w.stores()
		w.suspects("the second runs", 1, "t:0:1")
		tell <- struct{}{}
		w.suspects("none is left", 0, "")
	})
}

func TestTheStatusNamesTheSuspectThatIsTriedBeforeItRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tell := make(chan struct{})
		w := newWard(t, 3, untilTold(tell), accuse(1))
		w.stores()
		w.members.Store(&members{living: map[uint32]bool{4: true}})
		w.suspects("it is on probation", 3, "t:0:1")
		if left := time.Until(w.Status().TriedUntil); left != probation {
			t.Errorf("the status says for %v", left)
		}
		w.called("so nothing runs")
		time.Sleep(probation)
		w.stores()
		w.called("one of the dead lives: it runs once more, before others", 1)
		w.suspects("it runs", 3, "t:0:1")
		if until := w.Status().TriedUntil; !until.IsZero() {
			t.Errorf("it runs, and the status says that it is tried until %v", until)
		}
	})
}

func TestAnotherTurnBeginsOnlyOnceACommitSaysThatTheSuspectCameToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 2, settle, unchanged)
		for range 2 {
			w.called("before it is announced")
			w.store()
		}
		w.called("announced", 0)
		w.turnIsFree("its end is not committed", false)
		w.store()
		w.called("the next one is not announced", 0)
		w.store()
		w.called("announced", 0, 1)
		w.turnIsFree("its end is not committed", false)
		w.stores()
		w.turnIsFree("none is left", true)
	})
}

// Its time begins with each step anew: with its turn, with what announces it, and with its call.
func TestASuspectHasTheWholeTimeForEachStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, within := newWard(t, 2, untilTold(nil), unchanged), aloneFor-1
		before := &solo.Turn{Ready: func() {}}
		w.token.Request(before)
		w.store()
		w.suspects("it waits for its turn", 2, "")
		time.Sleep(within)
		w.token.Release(before)
		w.turnIsFree("it is to be announced", false)
		time.Sleep(within)
		w.turnIsFree("it could not be announced yet", false)
		w.store()
		w.called("announced", 0)
		time.Sleep(within)
		w.stores()
		w.called("within its time", 0)
		w.turnIsFree("within its time", false)
		time.Sleep(time.Nanosecond)
		w.stores()
		w.called("the next one has its turn", 0, 1)
	})
}

func TestATurnThatCannotBeUsedIsLeftToOthersInTime(t *testing.T) {
	for why, workers := range map[string]int{"no commit announces the suspect": 2, "the only worker is busy": 1} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWardOf(t, workers, 2, untilTold(nil), func(m *ledger.Mark) { m.HandedOut, m.SuspectsEnd = 1, 1 })
				before, others := &solo.Turn{Ready: func() {}}, &solo.Turn{Ready: func() {}}
				w.token.Request(before)
				w.stores()
				w.called("what is not suspected waits for no turn", 1)
				w.token.Release(before)
				w.token.Request(others)
				time.Sleep(aloneFor - 1)
				if synctest.Wait(); w.token.Holds(others) {
					t.Error("others have their turn before its time is over")
				}
				time.Sleep(time.Nanosecond)
				if synctest.Wait(); !w.token.Holds(others) {
					t.Error("others wait for one that cannot use its turn")
				}
				w.called("others have their turn", 1)
			})
		})
	}
}

func TestASuspectThatRunsForTooLongGoesOnAndTheNextOneRunsBesideIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 3, untilTold(nil), unchanged)
		w.stores()
		time.Sleep(aloneFor - 1)
		w.intake.receive(w.p.topicPartition, records(3, 4), [16]byte{1})
		w.stores()
		w.called("within its time no other suspect, and who is none at once", 0, 3)
		w.suspects("within its time", 3, "t:0:0")
		time.Sleep(time.Nanosecond)
		w.suspects("its time is over", 2, "")
		w.stores()
		w.called("the next one", 0, 3, 1)
		if n := w.log.count("level=WARN", "runs for longer", "topic=t", "partition=0", "offset=0", "after=1m0s"); n != 1 {
			t.Errorf("told %d times:\n%s", n, &w.log.text)
		}
		time.Sleep(aloneFor - 1)
		w.stores()
		w.called("the second has its whole time, too", 0, 3, 1)
		time.Sleep(time.Nanosecond)
		w.stores()
		w.called("the last one", 0, 3, 1, 2)
	})
}

func TestAPauseLeavesTheTurnToOthersUnlessASuspectRuns(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*ledger.Mark)
		waits   time.Duration
		free    bool
		resumed []int64
	}{
		"one runs":           {unchanged, 0, false, []int64{0}},
		"one was on trial":   {func(m *ledger.Mark) { accuse(0)(m); m.Died = m.Died[:3] }, probation, true, []int64{0}},
		"one is still tried": {accuse(0), probation - 1, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWard(t, 1, untilTold(nil), c.change)
				w.stores()
				w.Pause()
				time.Sleep(c.waits)
				w.stores()
				w.turnIsFree("paused", c.free)
				w.Resume()
				w.stores()
				w.called("resumed", c.resumed...)
			})
		})
	}
}

func TestASuspectThatIsAnnouncedGivesWayInAPauseAndRunsAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 1, settle, unchanged)
		w.store()
		w.turnIsFree("it is to be announced", false)
		w.Pause()
		w.turnIsFree("paused", true)
		w.stores()
		w.called("paused")
		w.Resume()
		w.stores()
		w.called("resumed", 0)
	})
}

func TestASuspectThatRestsLeavesTheTurnOnceACommitSaysSoAndHasAnotherOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 1, func(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
			if !tk.Rest(ctx, time.Hour, m) {
				return task.Abandoned
			}
			return task.Settled
		}, unchanged)
		for range 2 {
			w.store()
		}
		w.called("announced", 0)
		w.suspects("it rests", 0, "")
		w.turnIsFree("no commit says that it rests", false)
		w.store()
		w.turnIsFree("it rests", true)
		time.Sleep(time.Hour)
		w.suspects("it is to be called again", 1, "")
		w.turnIsFree("it is announced again", false)
		w.stores()
		w.suspects("it came to its end", 0, "")
		w.turnIsFree("it came to its end", true)
		if at := w.p.lag(); at != 0 {
			t.Errorf("%d are not settled", at)
		}
	})
}

func TestATrialThatCannotSeeWhoLivesIsToldOfAndHeldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 2, settle, accuse(1))
		w.stores()
		w.members.Store(&members{unknown: errors.New("no coordinator")})
		time.Sleep(3*probation - 1)
		w.stores()
		w.called("nothing runs meanwhile")
		if n := w.log.count("level=WARN", "tried again", "offset=1", "no coordinator"); n != 2 {
			t.Errorf("told %d times:\n%s", n, &w.log.text)
		}
		w.members.Store(&members{})
		time.Sleep(time.Nanosecond)
		w.stores()
		w.called("the other one", 0)
		if got := w.calls.of(condemnations); !slices.Equal(got, []int64{1}) {
			t.Errorf("condemned %v", got)
		}
		w.turnIsFree("all is over", true)
	})
}

func TestWhatATrialComesToIsLogged(t *testing.T) {
	for says, c := range map[string]struct {
		level  slog.Level
		change func(*ledger.Mark)
		living map[uint32]bool
		died   int
	}{
		"a record killed the process each time":     {slog.LevelError, accuse(1), nil, 4},
		"died while a suspected record ran":         {slog.LevelWarn, accuse(1), map[uint32]bool{5: true}, 3},
		"it is not the records, and no more of the": {slog.LevelError, func(m *ledger.Mark) { accuse(1)(m); m.Condemned = ledger.MostCondemned }, nil, 4},
	} {
		t.Run(says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWard(t, 2, settle, c.change)
				w.stores()
				w.members.Store(&members{living: c.living})
				time.Sleep(probation)
				w.stores()
				if n := w.log.count("level="+c.level.String(), says, "offset=1", fmt.Sprintf("deaths_while_it_ran=%d", c.died)); n != 1 {
					t.Errorf("told %d times:\n%s", n, &w.log.text)
				}
			})
		})
	}
}

func TestThatThereAreSuspectsIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 3, settle, unchanged)
		w.stores()
		w.called("all", 0, 1, 2)
		if n := w.log.count("level=WARN", "runs one by one", "topic=t", "offset=0", "deaths=3", "up_to_offset=3"); n != 1 || w.log.count("runs one by one") != 1 {
			t.Errorf("told %d times:\n%s", n, &w.log.text)
		}
	})
}
