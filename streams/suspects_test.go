package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/solo"
	"github.com/stepwell/stepwell/internal/task"
)

// suspected makes suspects of the first n records of partition 0, as deaths of other processes do.
// Those of known were settled before the last death.
func (w *world) suspected(n int64, change func(*ledger.Mark), known ...ledger.Span) {
	w.t.Helper()
	mark := ledger.NoMark()
	mark.Owner, mark.HandedOut, mark.Deaths, mark.SuspectsEnd = 99, n, 2, n
	change(&mark)
	w.commitWith(0, 0, ledger.WriteMetadata(0, ledger.Metadata{Epoch: 1 << 20, Mark: &mark}, slices.Values(known), ledger.MetadataLimit))
}

// guarded is the configuration of a reader whose process has this token.
func (w *world) guarded(token *solo.Token) Config {
	cfg := w.byKey()
	cfg.Guard.CrashLimit, cfg.Group.HeartbeatInterval, cfg.Group.SessionTimeout = 3, 200*time.Millisecond, 6*time.Second
	cfg.Guard.Token, cfg.Guard.Probation = token, 100*time.Millisecond
	cfg.Guard.Condemn = func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		w.t.Errorf("%d is condemned", m.Origin.Offset)
		return task.Settled
	}
	return cfg
}

// hang is a handle whose calls for the first n records do not end before the test does.
func hang(t *testing.T, j *journal, n int64) Handle {
	return func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		j.note(m)
		if m.Origin.Offset < n {
			<-t.Context().Done()
			return task.Abandoned
		}
		return task.Settled
	}
}

func TestASuspectThatHangsHoldsUpNobodyWhoIsNotSuspected(t *testing.T) {
	w := fakeWorld(t, 2)
	other := newWorld(t, 1, w.seeds)
	w.produce(0, 100)
	w.produce(1, 100)
	other.produce(0, 100)
	w.suspected(1, func(*ledger.Mark) {})
	var token solo.Token
	mine, others := newJournal(), newJournal()
	r := w.run(w.guarded(&token), hang(t, mine, 1))
	other.run(other.guarded(&token), others.settleAll)
	eventually(t, "all others are handled", func() bool {
		return others.count() == 100 && len(mine.of(1)) == 100 && len(mine.of(0)) == 100
	})
	r.kill(nil)
}

func TestWhatWasWrittenAfterADeathIsNotSuspectedOfIt(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	w.produce(0, 1)
	w.suspected(1, func(m *ledger.Mark) { m.HandedOut, m.SuspectsEnd = 1000, 1000 })
	var token solo.Token
	j := newJournal()
	r := w.run(w.guarded(&token), hang(t, j, 1))
	eventually(t, "the suspect runs", func() bool { return j.count() == 1 })
	w.produce(0, 10)
	eventually(t, "what came later is handled beside it, but for its key", func() bool { return j.count() == 10 })
	r.kill(nil)
}

func TestSuspectsTakeTurnsAndOneThatHangsGivesWayInTime(t *testing.T) {
	w := fakeWorld(t, 1)
	other := newWorld(t, 1, w.seeds)
	w.produce(0, 3)
	other.produce(0, 3)
	w.suspected(3, func(*ledger.Mark) {})
	other.suspected(3, func(*ledger.Mark) {})
	var token solo.Token
	mine, others := newJournal(), newJournal()
	cfg := w.guarded(&token)
	cfg.Guard.AloneFor = time.Second
	began := time.Now()
	w.run(cfg, hang(t, mine, 1))
	eventually(t, "the first runs", func() bool { return mine.count() == 1 })
	other.run(other.guarded(&token), others.settleAll)
	eventually(t, "the others have had their turn", func() bool { return others.count() == 3 && mine.count() == 3 })
	if took := time.Since(began); took < cfg.Guard.AloneFor {
		t.Errorf("all ran after %v, beside a suspect that has its turn", took)
	}
}

func TestASuspectThatRestsOrFailsLeavesTheTurnToOthers(t *testing.T) {
	for name, handle := range map[string]Handle{
		"rests": func(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
			for tk.Rest(ctx, 10*time.Millisecond, m) {
			}
			return task.Abandoned
		},
		"fails": func(context.Context, *stepwell.Message, task.Ticket) task.Outcome { return task.Pending },
	} {
		t.Run(name, func(t *testing.T) {
			w := fakeWorld(t, 1)
			other := newWorld(t, 1, w.seeds)
			w.produce(0, 1)
			other.produce(0, 3)
			w.suspected(1, func(*ledger.Mark) {})
			other.suspected(3, func(*ledger.Mark) {})
			var token solo.Token
			r := w.run(w.guarded(&token), handle)
			eventually(t, "it joins", func() bool { return r.Status().Joined && r.Status().Partitions == 1 })
			others := newJournal()
			other.run(other.guarded(&token), others.settleAll)
			eventually(t, "suspects of others had their turn", func() bool { return others.count() == 3 })
			r.kill(nil)
		})
	}
}

// What is known was done by a process that died: it is not called, and takes no turn.
func TestASuspectThatIsKnownIsNotCalledAndLeavesTheTurnToOthers(t *testing.T) {
	for name, ended := range map[string]int64{"among others": 0, "alone": 1} { // calls of those before were over
		t.Run(name, func(t *testing.T) {
			w := fakeWorld(t, 1)
			w.produce(0, 3)
			w.suspected(3, func(m *ledger.Mark) {
				if m.Ended = ended; ended > 0 {
					m.HandedOut, m.SuspectsEnd = 2, 2
				}
			}, ledger.Span{First: 1, End: 2})
			var token solo.Token
			cfg, j, c := w.guarded(&token), newJournal(), &counter{}
			cfg.Telemetry = c
			w.run(cfg, j.settleAll)
			eventually(t, "all is committed", func() bool { return w.committed()[0] == 3 })
			called := j.of(0)
			if slices.Sort(called); !slices.Equal(called, []int64{0, 2}) || c.duplicates.Load() != 1 {
				t.Errorf("%v were called, and %d passed over", called, c.duplicates.Load())
			}
			eventually(t, "the turn is free", func() bool { return token.Try(&solo.Turn{}) })
		})
	}
}

func TestCallsThatRestHoldUpNoOtherWhileDeathsAreCounted(t *testing.T) {
	w := fakeWorld(t, 1)
	w.produce(0, 20)
	w.suspected(20, func(*ledger.Mark) {})
	j := newJournal()
	r := w.run(w.guarded(&solo.Token{}), func(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
		j.note(m)
		for m.Origin.Offset < 20 && tk.Rest(ctx, 50*time.Millisecond, m) {
		}
		if m.Origin.Offset < 20 {
			return task.Abandoned
		}
		return task.Settled
	})
	eventually(t, "twenty rest", func() bool { return j.count() == 20 })
	for i := range 40 {
		w.send(&kgo.Record{Partition: 0, Key: fmt.Appendf(nil, "other-%d", i)})
	}
	eventually(t, "all others were called", func() bool { return j.count() == 60 })
	r.kill(nil)
}

func TestFailuresWhoseCallsAreOverAreNoSuspects(t *testing.T) {
	const n = 500
	w := fakeWorld(t, 1)
	w.produce(0, n)
	w.suspected(n, func(m *ledger.Mark) { m.Deaths = 1 })
	j := newJournal()
	r := w.run(w.guarded(&solo.Token{}), func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		j.note(m)
		return task.Pending // RabbitMQ is away
	})
	var said ledger.Mark
	eventually(t, "the commit says that all calls are over", func() bool {
		said = ledger.ReadMetadata(0, w.metadata()).MarkOrNone()
		return j.count() == n && said.Ended >= n
	})
	r.kill(nil)
	suspects := 0
	g := ledger.NewGuard(said, 0, ledger.Rules{Limit: 3, Owner: 1})
	for o := range int64(n) {
		if g.Suspects(o) {
			suspects++
		}
	}
	if g.Now().Deaths != 3 || suspects > 0 {
		t.Errorf("%d of %d are suspects after %d deaths, and all their calls were over", suspects, n, g.Now().Deaths)
	}
}

func TestAReaderThatCountsDeathsNoMoreLeavesTheTurnToOthers(t *testing.T) {
	w := fakeWorld(t, 1)
	other := newWorld(t, 1, w.seeds)
	w.produce(0, 5)
	other.produce(0, 3)
	w.suspected(5, func(*ledger.Mark) {})
	other.suspected(3, func(*ledger.Mark) {})
	var token solo.Token
	held := &solo.Turn{Ready: func() {}}
	token.Request(held) // until it waits for its turn
	var refused atomic.Int32
	j, others := newJournal(), newJournal()
	r := w.run(w.guarded(&token), j.settleAll)
	eventually(t, "its suspects wait", func() bool { return r.Status().Suspects > 0 })
	w.refuseMetadataOver(20, &refused)
	w.send(&kgo.Record{Partition: 0, Value: []byte("something to commit")})
	eventually(t, "it counts no more", func() bool { return j.count() == 6 })
	token.Release(held)
	other.run(other.guarded(&token), others.settleAll)
	eventually(t, "the others have their turn", func() bool { return others.count() == 3 })
}

func TestNoSuspectRunsBeforeTheBrokerKnowsThatTheLastOneCameToItsEnd(t *testing.T) {
	w := fakeWorld(t, 1)
	w.produce(0, 2)
	w.suspected(2, func(*ledger.Mark) {})
	var mu sync.Mutex
	var held []chan struct{}
	ended := false
	w.fake.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.fake.KeepControl()
		mu.Lock()
		var wait chan struct{}
		if ended && len(held) == 0 {
			wait = make(chan struct{})
			held = append(held, wait)
		}
		mu.Unlock()
		if wait != nil {
			w.sleep(wait)
		}
		return nil, nil, false
	})
	j := newJournal()
	w.run(w.guarded(&solo.Token{}), func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		mu.Lock()
		defer mu.Unlock()
		j.note(m)
		ended = true
		return task.Settled
	})
	eventually(t, "the commit after the first is held", func() bool { mu.Lock(); defer mu.Unlock(); return len(held) == 1 })
	if got := j.count(); got != 1 {
		t.Errorf("%d ran", got)
	}
	close(held[0])
	eventually(t, "the other one runs", func() bool { return j.count() == 2 })
}

// A commit that was under way as a suspect came to its end says that it runs.
func TestTheTurnIsGivenBackOnlyOnceTheBrokerKnowsThatTheSuspectCameToItsEnd(t *testing.T) {
	w := fakeWorld(t, 1)
	w.produce(0, 2)
	w.suspected(1, func(*ledger.Mark) {})
	runs, ends := make(chan struct{}), make(chan struct{})
	before, after := make(chan struct{}), make(chan struct{})
	var holds atomic.Int32 // 1: a commit is held while the suspect runs, 2: the next one is
	w.fake.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.fake.KeepControl()
		select {
		case <-runs:
			switch holds.Add(1) {
			case 1:
				w.sleep(before)
			case 2:
				w.sleep(after)
			}
		default:
		}
		return nil, nil, false
	})
	var token solo.Token
	j := newJournal()
	r := w.run(w.guarded(&token), func(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
		if m.Origin.Offset == 0 {
			close(runs)
			select {
			case <-ends:
			case <-ctx.Done():
			}
		} else {
			select {
			case <-runs: // there is something to commit while the suspect runs
			case <-ctx.Done():
			}
		}
		return j.settleAll(ctx, m, tk)
	})
	eventually(t, "a commit is held while the suspect runs", func() bool { return holds.Load() == 1 })
	close(ends)
	eventually(t, "it came to its end", func() bool { return j.count() == 2 && r.Status().Suspects == 0 })
	close(before)
	eventually(t, "the commit that says so is held", func() bool { return holds.Load() == 2 })
	var turn solo.Turn
	if token.Try(&turn) {
		t.Error("others have their turn, and a death of theirs would be held against it as well")
		token.Release(&turn)
	}
	close(after)
	eventually(t, "others have their turn", func() bool { return token.Try(&turn) })
}

func TestDeathsOfMembersThatLiveAreHeldAgainstNoRecord(t *testing.T) {
	w := fakeWorld(t, 2)
	w.produce(0, 1)
	sleeper := w.guarded(&solo.Token{})
	sleeper.Guard.Process = 7
	w.suspected(1, func(m *ledger.Mark) {
		m.Deaths, m.Accused, m.Died = 3, 0, []uint32{7, 7, 7, 7, 7}
		m.Owner = 0
	})
	one := w.guarded(&solo.Token{})
	one.Guard.Process = 8
	j := newJournal()
	w.run(sleeper, j.settleAll)
	w.run(one, j.settleAll)
	eventually(t, "it is handled", func() bool { return j.count() == 1 })
	eventually(t, "that is committed", func() bool { return w.committed()[0] == 1 })
}

func TestATrialThatCannotSeeWhoLivesLeavesTheTurnToOthers(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	other := newWorld(t, 1, w.seeds)
	w.produce(0, 2)
	other.produce(0, 3)
	w.suspected(2, func(m *ledger.Mark) { m.Deaths, m.Accused, m.Died, m.Owner = 3, 1, []uint32{4, 5, 6, 7}, 0 })
	other.suspected(3, func(*ledger.Mark) {})
	var asked atomic.Int32
	for _, key := range []int16{int16(kmsg.DescribeGroups), int16(kmsg.ConsumerGroupDescribe)} {
		w.fake.ControlKey(key, func(r kmsg.Request) (kmsg.Response, error, bool) {
			w.fake.KeepControl()
			asked.Add(1)
			return nil, errors.New("cut off"), true
		})
	}
	var token solo.Token
	mine, others := newJournal(), newJournal()
	r := w.run(w.guarded(&token), mine.settleAll)
	eventually(t, "it was asked who lives", func() bool { return asked.Load() > 0 })
	other.run(other.guarded(&token), others.settleAll)
	eventually(t, "suspects of others have their turn", func() bool { return others.count() == 3 })
	if slices.Contains(mine.of(0), 1) {
		t.Error("the accused ran, and nobody knows who lives")
	}
	r.kill(nil)
}

func TestARecordIsCondemnedWhereTheDeadAreNoMembers(t *testing.T) {
	w := fakeWorld(t, 1)
	w.produce(0, 2)
	w.suspected(2, func(m *ledger.Mark) { m.Deaths, m.Accused, m.Died, m.Owner = 3, 1, []uint32{4, 5, 6, 7}, 0 })
	var mu sync.Mutex
	var condemned []int64
	cfg := w.guarded(&solo.Token{})
	cfg.Guard.Condemn = func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		mu.Lock()
		defer mu.Unlock()
		condemned = append(condemned, m.Origin.Offset)
		return task.Settled
	}
	j := newJournal()
	w.run(cfg, j.settleAll)
	eventually(t, "all is committed", func() bool { return w.committed()[0] == 2 })
	if !slices.Equal(condemned, []int64{1}) || !slices.Equal(j.of(0), []int64{0}) {
		t.Errorf("condemned %v, called %v", condemned, j.of(0))
	}
}

func TestTheThirdRecordInARowIsNotCondemned(t *testing.T) {
	w := fakeWorld(t, 1)
	w.produce(0, 2)
	w.suspected(2, func(m *ledger.Mark) {
		m.Deaths, m.Accused, m.Died, m.Owner = 3, 1, []uint32{4, 5, 6, 7}, 0
		m.Condemned = ledger.MostCondemned
	})
	j := newJournal()
	w.run(w.guarded(&solo.Token{}), j.settleAll) // which fails the test where a record is condemned
	eventually(t, "both are called", func() bool { return j.count() == 2 })
	eventually(t, "all is committed", func() bool { return w.committed()[0] == 2 })
}

func TestAMemberThatIsExpelledAgainAndAgainWhileItsSlowHandlersRunCondemnsNobody(t *testing.T) {
	each(t, 1, func(t *testing.T, w *world) {
		w.produce(0, 3)
		calls := make(chan *running, 10)
		start := func() {
			cfg := w.guarded(&solo.Token{})
			cfg.Guard.Probation = 8 * time.Second
			cfg.Guard.CrashLimit = 1
			ready := make(chan *running, 1)
			ready <- w.run(cfg, func(ctx context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
				r := <-ready
				ready <- r
				select {
				case calls <- r:
					<-ctx.Done()
					return task.Abandoned
				case <-ctx.Done():
					return task.Abandoned
				}
			})
		}
		start()
		start()
		// As many as bring two trials, each with a death that was none: the second would condemn.
		for range 7 {
			select {
			case r := <-calls:
				w.expel(r)
			case <-time.After(3 * time.Minute):
				t.Fatal("nothing is called")
			}
		}
	})
}

// expel removes a member from its group, as the broker does with one that was not heard of.
func (w *world) expel(r *running) {
	w.t.Helper()
	id, _ := r.clients.member().GroupMetadata()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = w.group
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = id
	req.Members = append(req.Members, m)
	if _, err := req.RequestWith(w.t.Context(), w.client); err != nil {
		w.t.Fatal(err)
	}
}
