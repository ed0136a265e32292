package streams

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/solo"
	"github.com/stepwell/stepwell/internal/task"
)

func TestAPausedStreamDoesNotKeepTheTurnOfSuspectsFromOthers(t *testing.T) {
	for name, accused := range map[string]bool{"waits for its turn": false, "is tried": true} {
		t.Run(name, func(t *testing.T) {
			w := fakeWorld(t, 1)
			other := newWorld(t, 1, w.seeds)
			w.produce(0, 1)
			other.produce(0, 3)
			w.suspected(1, func(m *ledger.Mark) {
				if accused {
					m.Deaths, m.Accused, m.Died, m.Owner = 3, 0, []uint32{7}, 0
				}
			})
			other.suspected(3, func(*ledger.Mark) {})
			var token solo.Token
			holder := &solo.Turn{Ready: func() {}}
			if !accused {
				token.Request(holder)
			}
			cfg := w.guarded(&token)
			cfg.Guard.Probation = time.Second
			r := w.run(cfg, newJournal().settleAll)
			eventually(t, "it has a suspect", func() bool {
				for _, p := range r.parts.all() {
					p.mu.Lock()
					n, trial := len(p.suspects.aside), p.suspects.trial
					p.mu.Unlock()
					return n == 1 && trial == accused
				}
				return false
			})
			r.Pause()
			token.Release(holder)
			others := newJournal()
			other.run(other.guarded(&token), others.settleAll)
			within(t, 8*time.Second, "suspects of others had their turn", func() bool { return others.count() == 3 })
		})
	}
}

// suspecting assigns a partition, whose first n records are suspects, to a lone reader.
func (r *Reader) suspecting(t *testing.T, tp topicPartition, token *solo.Token, n int64, change func(*ledger.Mark)) *partition {
	t.Helper()
	r.cfg.Guard.CrashLimit, r.cfg.Guard.Token, r.cfg.Guard.Process = 3, token, 5
	r.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {tp.partition}})
	p := r.parts.lookup(tp)
	p.begin(ledger.At(0, 0), false)
	p.mu.Lock()
	defer p.mu.Unlock()
	m := ledger.NoMark()
	m.Owner, m.HandedOut, m.Deaths, m.SuspectsEnd = 99, n, 2, n
	change(&m)
	p.ledger.Guard = ledger.NewGuard(m, 0, r.cfg.Guard.rules())
	p.ledger.Guard.Stored(p.ledger.Guard.Mark(0, 0, 0, 0, 0, false))
	return p
}

// aside is how many suspects wait for their turn.
func (p *partition) aside() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.suspects.aside)
}

// A record is looked at for its age when it is handed out, and a suspect was before it waits.
func TestASuspectThatGrowsTooOldWhileItWaitsHasItsTurnAndLeavesItToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, c := newJournal(), &counter{}
		r, tp := lone(t, j.settleAll)
		r.cfg.MaxAge, r.cfg.Telemetry, r.cfg.Calls.Order = time.Minute, c, OrderNone
		var token solo.Token
		holder := &solo.Turn{Ready: func() {}}
		token.Request(holder)
		p := r.suspecting(t, tp, &token, 2, func(*ledger.Mark) {})
		f := records(0, 3)
		for _, record := range f.Records {
			record.Timestamp = time.Now()
		}
		r.fetched(tp, f, nil)
		synctest.Wait()
		if waits, called := p.aside(), j.of(0); waits != 2 || !slices.Equal(called, []int64{2}) {
			t.Fatalf("%d wait, and %v were called", waits, called)
		}
		time.Sleep(2 * r.cfg.MaxAge)
		turns := 0
		for range 20 { // commits: of the turn of each, and of its end
			if token.Holds(holder) {
				turns++
				token.Release(holder)
			}
			synctest.Wait()
			token.Request(holder)
			if said, ok := p.dirty(ledger.MetadataLimit); ok {
				p.stored(said)
			}
		}
		if called := j.of(0); !slices.Equal(called, []int64{2, 0, 1}) || c.expired.Load() != 0 || turns < 3 || !token.Holds(holder) {
			t.Errorf("%v were called, %d expired, and others had %d turns", called, c.expired.Load(), turns)
		}
	})
}

// A partition is offered for many reasons, also between the end of a suspect and the commit that
// tells of it: others have waited for that commit, too.
func TestAPartitionWithManySuspectsLeavesTheTurnToOthersAfterEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns []string
		r, tp := lone(t, func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
			turns = append(turns, strconv.FormatInt(m.Origin.Offset, 10))
			return task.Settled
		})
		r.cfg.Calls.Order = OrderNone
		var token solo.Token
		others := &solo.Turn{Ready: func() {}}
		token.Request(others)
		p := r.suspecting(t, tp, &token, 3, func(*ledger.Mark) {})
		r.fetched(tp, records(0, 3), nil)
		synctest.Wait()
		for len(turns) < 6 {
			if token.Holds(others) {
				turns = append(turns, "others")
				token.Release(others)
			}
			synctest.Wait()
			token.Request(others)
			p.roster.Offer()
			synctest.Wait()
			if said, ok := p.dirty(ledger.MetadataLimit); ok {
				p.stored(said)
			}
			synctest.Wait()
		}
		if want := []string{"others", "0", "others", "1", "others", "2"}; !slices.Equal(turns, want) {
			t.Errorf("the turns were those of %v, want %v", turns, want)
		}
	})
}

// Each step takes nearly as long as it may: until a worker is free, the trial, until one is free
// again, the commit that announces the call, the call, and the commit that tells of its end.
func TestATurnEndsAfterFiveTimesAloneForAndTheTrialAtTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const suspect = 0
		free := make(chan struct{})
		r, tp := loneOf(t, 1, func(ctx context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
			if m.Origin.Offset == suspect {
				<-ctx.Done()
				return task.Abandoned
			}
			<-free
			return task.Settled
		})
		g := &r.cfg.Guard
		g.AloneFor, g.Probation, r.cfg.Calls.Order = 10*time.Minute, time.Minute, OrderNone
		r.parts.living = func(context.Context) (map[uint32]bool, error) {
			time.Sleep(livingTimeout)
			return nil, nil
		}
		var token solo.Token
		others := &solo.Turn{Ready: func() {}}
		token.Request(others)
		p := r.suspecting(t, tp, &token, 1, func(m *ledger.Mark) { m.Deaths, m.Accused, m.Died, m.Owner = 3, suspect, []uint32{7}, 0 })
		r.fetched(tp, records(0, 10), nil)
		synctest.Wait()
		if p.aside() != 1 {
			t.Fatalf("%d wait", p.aside())
		}
		token.Release(others)
		token.Request(others)
		began, step, since := time.Now(), "", time.Now()
		for !token.Holds(others) {
			time.Sleep(time.Second)
			synctest.Wait()
			p.mu.Lock()
			announced, tried := p.ledger.Guard.Now().Alone == suspect, p.suspects.trial
			p.mu.Unlock()
			if is := fmt.Sprint(announced, tried, p.suspects.runs.Load()); is != step {
				step, since = is, time.Now()
			}
			if time.Since(since) < g.AloneFor-3*time.Second {
				continue
			}
			if announced {
				said, _ := p.dirty(ledger.MetadataLimit)
				p.stored(said)
			}
			select {
			case free <- struct{}{}:
			default:
			}
		}
		took, most := time.Since(began), 5*g.AloneFor+g.Probation+livingTimeout
		if took > most || took < most-time.Minute {
			t.Errorf("others had their turn after %v, want nearly %v", took, most)
		}
	})
}

func TestACutLogLeavesNoSuspectBehind(t *testing.T) {
	got := make(chan int64, 100)
	r, tp := lone(t, func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		got <- m.Origin.Offset
		return task.Settled
	})
	var token solo.Token
	holder := &solo.Turn{Ready: func() {}}
	token.Request(holder)
	r.cfg.Calls.Order = OrderNone
	old := r.suspecting(t, tp, &token, 10, func(*ledger.Mark) {})
	r.fetched(tp, records(0, 10), nil)
	within(t, 2*time.Second, "suspects wait", func() bool { return old.aside() == 10 })
	r.wasCut(tp, 5)
	fresh := r.parts.lookup(tp)
	fresh.mustBe(t, old.done, "what the cut replaced never comes to its end")
	token.Release(holder)
	if !token.Try(&solo.Turn{}) {
		t.Error("what the cut replaced keeps the turn")
	}
}

func TestAStreamWhoseWorkersAreAllBusyDoesNotKeepTheTurnOfSuspectsForGood(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 2)
	other := newWorld(t, 1, w.seeds)
	w.produce(0, 1)
	other.produce(0, 3)
	w.suspected(1, func(*ledger.Mark) {})
	other.suspected(3, func(*ledger.Mark) {})
	var token solo.Token
	holder := &solo.Turn{Ready: func() {}}
	token.Request(holder)
	cfg := w.guarded(&token)
	cfg.Guard.AloneFor = 2 * time.Second
	cfg.Calls.Concurrency = 1
	mine := newJournal()
	r := w.run(cfg, func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		mine.note(m)
		<-t.Context().Done()
		return task.Abandoned
	})
	eventually(t, "it has a suspect", func() bool {
		for _, p := range r.parts.all() {
			p.mu.Lock()
			n := len(p.suspects.aside)
			p.mu.Unlock()
			if n == 1 {
				return true
			}
		}
		return false
	})
	w.produce(1, 1)
	eventually(t, "it hangs", func() bool { return mine.count() == 1 })
	token.Release(holder)
	others := newJournal()
	other.run(other.guarded(&token), others.settleAll)
	within(t, 10*time.Second, "suspects of others had their turn", func() bool { return others.count() == 3 })
	r.kill(nil)
}

func TestARecordThatIsCondemnedAgainWhileTheDeadSetIsAwayIsStillOneInARow(t *testing.T) {
	w := fakeWorld(t, 1)
	w.produce(0, 1)
	w.suspected(1, func(m *ledger.Mark) { m.Deaths, m.Accused, m.Died, m.Owner = 3, 0, []uint32{4, 5, 6, 7}, 0 })
	for range ledger.MostCondemned + 1 {
		condemned := make(chan struct{}, 1)
		cfg := w.guarded(&solo.Token{})
		cfg.Guard.Condemn = func(context.Context, *stepwell.Message, task.Ticket) task.Outcome {
			condemned <- struct{}{}
			return task.Pending // the dead set cannot be reached
		}
		called := newJournal()
		r := w.run(cfg, called.settleAll)
		eventually(t, "it is condemned or called", func() bool { return len(condemned) == 1 || called.count() == 1 })
		if called.count() > 0 {
			t.Fatal("what kills the process was called again")
		}
		eventually(t, "the broker knows that its call is over", func() bool {
			return ledger.ReadMetadata(w.committed()[0], w.metadata()).MarkOrNone().Ended > 0
		})
		r.kill(nil)
		_ = r.end()
	}
}
