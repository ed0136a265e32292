package streams

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/task"
)

// each runs a test on the in-process cluster and on Apache Kafka.
func each(t *testing.T, partitions int32, test func(*testing.T, *world)) {
	t.Run("kfake", func(t *testing.T) {
		t.Parallel()
		test(t, fakeWorld(t, partitions))
	})
	t.Run("kafka", func(t *testing.T) {
		t.Parallel()
		test(t, realWorld(t, partitions))
	})
}

// settleSometime is a handle whose messages are settled at once, by the ticket before it returns,
// or some time later in any order.
func (l *audit) settleSometime(seed uint64) Handle {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 1))
	draw := func() (int, time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(10), time.Duration(random.IntN(150)) * time.Millisecond
	}
	return func(_ context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
		l.call(m)
		switch how, wait := draw(); how {
		case 0, 1:
			time.AfterFunc(wait, func() {
				if tk.Context().Err() == nil { // as a publisher does
					l.settle(m)
					tk.Settle()
				}
			})
			return task.Pending
		case 2:
			l.settle(m)
			tk.Settle()
			return task.Pending
		}
		l.settle(m)
		return task.Settled
	}
}

func TestACommitNeverPassesAMessageThatIsNotSettled(t *testing.T) {
	t.Parallel()
	each(t, 3, func(t *testing.T, w *world) {
		const round = 40
		var n int
		l := newAudit()
		defer l.watch(t, w)()
		r := w.run(w.config(), l.settleSometime(rand.Uint64()))
		// So that commits are judged while messages are open, and not only at the end.
		eventually(t, "five commits beside open messages", func() bool {
			for p := range int32(3) {
				w.produce(p, round)
			}
			eventually(t, "the round before is settled", func() bool { return l.count() >= 3*n })
			n += round
			return l.moved() >= 5
		})
		eventually(t, "all is settled", func() bool { return l.count() == 3*n })
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		for p, at := range w.committed() {
			if at != int64(n) {
				t.Errorf("partition %d is committed at %d", p, at)
			}
		}
		if l.repeats > 0 {
			t.Errorf("%d repeats without a rebalance", l.repeats)
		}
	})
}

func TestACommitLeavesOutWhatIsNoLongerOursWhenItIsSent(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]func(*committer, sending) error{
		"by the client": func(c *committer, s sending) error {
			return c.sendByClient(t.Context(), s.offsets, s.metadata, s.stored)
		},
		"past the client": func(c *committer, s sending) error {
			return c.sendPast(t.Context(), c.in.Load(), s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fakeWorld(t, 3)
			j := newJournal()
			r := w.run(w.config(), j.settleAll)
			eventually(t, "it is a member", func() bool { return r.Status().Partitions == 3 })
			r.commits.turn <- struct{}{} // nobody else commits
			defer func() { <-r.commits.turn }()
			for p := range int32(3) {
				w.produce(p, 10)
			}
			eventually(t, "all is handled", func() bool { return j.count() == 30 })
			all := r.parts.all()
			before, between := r.parts.lookup(topicPartition{w.topic, 0}), r.parts.lookup(topicPartition{w.topic, 1})
			r.rebalances.drop([]*partition{before}, ErrLost)
			s := r.commits.collect(all)
			if len(s.offsets[w.topic]) != 2 {
				t.Errorf("to be sent: %v", s.offsets)
			}
			r.rebalances.drop([]*partition{between}, ErrLost)
			if err := send(r.commits, s); err != nil {
				t.Fatal(err)
			}
			if got := w.committed(); len(got) != 1 || got[2] != 10 {
				t.Errorf("committed: %v", got)
			}
			r.rebalances.drop(r.parts.all(), ErrLost)
			if err := send(r.commits, s); err != nil {
				t.Error("with nothing left to be sent:", err)
			}
		})
	}
}

// The client joins again by itself where the group put it out: what is ours is another member's by
// then.
func TestACommitIsNotSentByAnotherMemberThanTheOneThatThePartitionsWereGivenTo(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	j := newJournal()
	r := w.run(w.config(), j.settleAll)
	eventually(t, "it is a member", func() bool { return r.Status().Partitions == 1 })
	r.commits.turn <- struct{}{} // nobody else commits
	defer func() { <-r.commits.turn }()
	w.produce(0, 10)
	eventually(t, "all is handled", func() bool { return j.count() == 10 })
	s := r.commits.collect(r.parts.all())
	given := r.commits.in.Load()
	send := func(to membership) {
		t.Helper()
		r.commits.in.Store(&to)
		if err := r.commits.sendByClient(t.Context(), s.offsets, s.metadata, s.stored); err != nil {
			t.Error(err)
		}
	}
	send(membership{"another", given.generation})
	if got := w.committed(); len(got) > 0 || len(s.of) != 1 {
		t.Errorf("committed: %v, and %d are left to be committed", got, len(s.of))
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	r.commits.in.Store(given)
	if err := r.commits.sendByClient(over, s.offsets, s.metadata, s.stored); !errors.Is(err, context.Canceled) || len(s.of) != 1 {
		t.Errorf("a commit that is cut off says %v, and %d are left to be committed", err, len(s.of))
	}
	send(*given)
	if got := w.committed(); got[0] != 10 || len(s.of) != 0 {
		t.Errorf("committed: %v, and %d are left to be committed", got, len(s.of))
	}
}

func TestInAStormOfRebalancesEveryRecordIsHandledAndCommitsOnlyGrow(t *testing.T) {
	t.Parallel()
	each(t, 6, func(t *testing.T, w *world) {
		const n = 1500
		l := newAudit()
		defer l.watch(t, w)()
		seed := rand.Uint64()
		t.Log("seed", seed)
		random := rand.New(rand.NewPCG(seed, 2))
		cfg := w.config()
		cfg.Group.SessionTimeout, cfg.Group.HeartbeatInterval = 6*time.Second, 300*time.Millisecond
		anchor := w.run(cfg, l.settleSometime(seed))
		var members []*running
		for round := range 8 {
			for p := range int32(6) {
				w.produce(p, n/8)
			}
			if len(members) > 0 && random.IntN(2) == 0 {
				i := random.IntN(len(members))
				if err := members[i].end(); err != nil {
					t.Error(err)
				}
				members = append(members[:i], members[i+1:]...)
			} else {
				members = append(members, w.run(cfg, l.settleSometime(seed+uint64(round))))
			}
			<-time.After(time.Duration(100+random.IntN(900)) * time.Millisecond)
		}
		eventually(t, "all is settled", func() bool { return l.count() == 6*(n/8*8) })
		for _, m := range append(members, anchor) {
			if err := m.end(); err != nil {
				t.Error(err)
			}
		}
		for p, at := range w.committed() {
			if at != n/8*8 {
				t.Errorf("partition %d is committed at %d", p, at)
			}
		}
	})
}

// Its partition may be lost meanwhile, and have nothing to commit when it comes back.
func TestACommitThatFailedIsOverWhenNothingIsLeftToCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logbook
		s := newStatus(Config{Stream: "orders", Setting: byKey, Logger: log.logger()})
		s.committed(errors.New("away"))
		c := newCommitter(&common{}, newAssignments(&shared{}), nil, s, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.run(ctx)
		}()
		time.Sleep(2 * commitInterval)
		cancel()
		<-ended
		if _, wrong := s.read(); wrong != "" || log.count("commits are stored again") != 1 {
			t.Errorf("wrong: %q; logged:\n%s", wrong, &log.text)
		}
	})
}

func TestACommitThatIsRefusedIsSaidUntilOneIsTaken(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	var refuses atomic.Bool
	var refused atomic.Int32
	refuses.Store(true)
	w.refuseCommits(func(kmsg.OffsetCommitRequestTopicPartition) *kerr.Error {
		if refuses.Load() {
			return kerr.GroupAuthorizationFailed
		}
		return nil
	}, &refused)
	w.produce(0, 10)
	r := w.run(w.config(), newJournal().settleAll)
	eventually(t, "the status says so", func() bool { return strings.Contains(r.Status().Err, "GROUP_AUTHORIZATION_FAILED") })
	before := refused.Load()
	eventually(t, "it goes on trying", func() bool { return refused.Load() > before })
	if err := r.Status().Err; !strings.Contains(err, "commit offsets: topic "+w.topic+" partition 0") {
		t.Error("the status says", err)
	}
	refuses.Store(false)
	eventually(t, "what was refused is committed", func() bool { return w.committed()[0] == 10 })
	eventually(t, "the status says it no more", func() bool { return r.Status().Err == "" })
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

// Only refusals in a row count: healing a topic ends its calls.
func TestATopicIsHealedOnlyWhenItsCommitsAreRefusedForAWhileWithoutOneThatIsTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tp := topicPartition{"orders", 0}
		p := &partition{topicPartition: tp, books: books{ledger: ledger.New(ledger.Rules{}, nil)}}
		heal := newHealer()
		c := newCommitter(&common{}, &assignments{owned: map[topicPartition]*partition{tp: p}}, nil, nil, heal)
		answered := func(err error) {
			sending{c, nil, map[topicPartition]commitOf{tp: {p: p}}}.stored(tp, err)
		}
		for range 3 {
			answered(kerr.UnknownTopicID)
			time.Sleep(refusedFor)
			answered(nil)
			time.Sleep(refusedFor)
		}
		for range 3 { // no other error is about which topic there is
			answered(kerr.GroupAuthorizationFailed)
			time.Sleep(refusedFor)
		}
		answered(kerr.UnknownTopicID)
		time.Sleep(refusedFor)
		answered(kerr.UnknownTopicID)
		if due := heal.due(time.Now()); len(due) > 0 {
			t.Error("healed though none was refused for longer:", due)
		}
		time.Sleep(time.Nanosecond)
		answered(kerr.UnknownTopicID)
		if due := heal.due(time.Now()); !slices.Equal(due, []string{"orders"}) {
			t.Error("to be healed:", due)
		}
	})
}
