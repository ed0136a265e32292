package streams

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
)

// joins counts the joins that a client has asked for, and those that were answered.
type joins struct{ asked, answered atomic.Int64 }

func (j *joins) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == int16(kmsg.JoinGroup) && err == nil {
		j.asked.Add(1)
	}
}

func (j *joins) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key == int16(kmsg.JoinGroup) {
		j.answered.Add(1)
	}
}

// wait says that a join waits for its answer.
func (j *joins) wait() bool { return j.asked.Load() > j.answered.Load() }

// member joins the world's group, by itself, and is silent from the call of dies on.
func (w *world) member(hooks ...kgo.Hook) (dies func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	client, err := kgo.NewClient(
		kgo.SeedBrokers(w.seeds...), kgo.WithContext(ctx), kgo.ConsumerGroup(w.group), kgo.ConsumeTopics(w.topic), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(10*time.Second), kgo.HeartbeatInterval(300*time.Millisecond), kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.WithHooks(hooks...),
	)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { cancel(); client.Close() })
	return cancel
}

// groupState is the state of the world's group, and whose clients are its members.
func (w *world) groupState() (state string, clients map[string]int) {
	w.t.Helper()
	groups, err := w.admin.DescribeGroups(w.t.Context(), w.group)
	if err != nil {
		w.t.Fatal(err)
	}
	clients = map[string]int{}
	for _, m := range groups[w.group].Members {
		name, _, _ := strings.Cut(m.ClientID, "-") // the member's number follows
		clients[name]++
	}
	return groups[w.group].State, clients
}

const waitingForMembers = "PreparingRebalance"

// whileJoining starts a reader and has it wait for a dead member, which holds the join up for ten
// seconds.
func whileJoining(t *testing.T, w *world, j *journal) *running {
	t.Helper()
	asked := &joins{}
	cfg := w.config()
	cfg.Kafka.ClientID, cfg.Group.HeartbeatInterval = "reader", 300*time.Millisecond
	cfg.Kafka.Options = append(cfg.Kafka.Options, kgo.WithHooks(asked))
	r := w.run(cfg, j.settleAll)
	eventually(t, "the reader is a member", func() bool { return r.Status().Partitions == 2 })
	dies := w.member()
	eventually(t, "another one shares the partitions", func() bool {
		state, clients := w.groupState()
		return r.Status().Partitions == 1 && state == "Stable" && len(clients) == 2
	})
	dies()
	w.member()
	eventually(t, "the reader joins again, and waits", func() bool {
		state, _ := w.groupState()
		return state == waitingForMembers && asked.wait()
	})
	return r
}

func TestCommitsGoOnWhileTheGroupWaitsForADeadMember(t *testing.T) {
	t.Parallel()
	each(t, 2, func(t *testing.T, w *world) {
		j := newJournal()
		r := whileJoining(t, w, j)
		w.produce(0, 10)
		w.produce(1, 10)
		within(t, 3*time.Second, "what is settled is committed", func() bool {
			at := w.committed()
			return j.count() == 10 && at[0]+at[1] == 10
		})
		if state, _ := w.groupState(); state != waitingForMembers {
			t.Errorf("the group is %s: this shows nothing", state)
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestAStopDoesNotWaitForTheGroupToWaitForADeadMember(t *testing.T) {
	t.Parallel()
	each(t, 2, func(t *testing.T, w *world) {
		j := newJournal()
		r := whileJoining(t, w, j)
		w.produce(0, 10)
		w.produce(1, 10)
		eventually(t, "all of its partition is handled", func() bool { return j.count() == 10 })
		began := time.Now()
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if at := w.committed(); at[0]+at[1] != 10 {
			t.Errorf("committed: %v", at)
		}
		state, clients := w.groupState()
		if state != waitingForMembers {
			t.Errorf("the group is %s: this shows nothing", state)
		}
		if clients["reader"] > 0 {
			t.Error("the reader is still a member, and the group waits for it")
		}
	})
}

// atTheNextJoin calls dies when a join is answered once dies is set.
type atTheNextJoin struct{ dies atomic.Pointer[func()] }

func (a *atTheNextJoin) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if dies := a.dies.Load(); dies != nil && key == int16(kmsg.JoinGroup) {
		(*dies)()
	}
}

// commitsAnswered counts them.
type commitsAnswered struct{ atomic.Int64 }

func (c *commitsAnswered) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == int16(kmsg.OffsetCommit) && err == nil {
		c.Add(1)
	}
}

// The first member of a group says who gets what. Between its join and that Kafka takes no commit
// of anybody.
func TestWhileTheGroupWaitsForWhatADeadMemberWasToAssignNothingIsCommittedNorByAStop(t *testing.T) {
	t.Parallel()
	each(t, 2, func(t *testing.T, w *world) {
		next := &atTheNextJoin{}
		dies := w.member(next)
		group := func(state string, members int) func() bool {
			return func() bool {
				now, clients := w.groupState()
				return now == state && len(clients) == members
			}
		}
		eventually(t, "it is the first member", group("Stable", 1))
		cfg, commits := w.config(), &commitsAnswered{}
		cfg.Kafka.ClientID, cfg.Group.HeartbeatInterval = "reader", 300*time.Millisecond
		cfg.Kafka.Options = append(cfg.Kafka.Options, kgo.WithHooks(commits))
		j := newJournal()
		r := w.run(cfg, j.settleAll)
		eventually(t, "they share the partitions", func() bool { return r.Status().Partitions == 1 && group("Stable", 2)() })
		next.dies.Store(&dies)
		w.member()
		const waitingForTheAssignment = "CompletingRebalance"
		eventually(t, "it has died between the two", func() bool { state, _ := w.groupState(); return state == waitingForTheAssignment })
		w.produce(0, 10)
		w.produce(1, 10)
		eventually(t, "all of the reader's partition is handled", func() bool { return j.count() == 10 })
		before := commits.Load()
		eventually(t, "Kafka has refused two commits", func() bool { return commits.Load() >= before+2 })
		if state, _ := w.groupState(); state != waitingForTheAssignment {
			t.Errorf("the group is %s: this shows nothing", state)
		}
		began := time.Now()
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if at := w.committed(); at[0]+at[1] != 0 {
			t.Errorf("committed: %v, which the page of guarantees says is not", at)
		}
	})
}

func TestAMemberThatWasExpelledWhileItJoinedDoesNotRewindTheNextOwner(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 2)
	w.produce(0, 5)
	w.produce(1, 5)
	a, b := newJournal(), newJournal()
	cfg := w.config()
	cfg.Group.HeartbeatInterval, cfg.Guard.CrashLimit = 200*time.Millisecond, 3
	ra := w.run(cfg, func(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
		if m.Origin.Offset >= 5 {
			return task.Pending
		}
		return a.settleAll(ctx, m, tk)
	})
	defer func() { ra.kill(nil) }()
	eventually(t, "the first has all", func() bool { at := w.committed(); return at[0] == 5 && at[1] == 5 })
	id, _ := ra.clients.member().GroupMetadata()
	var expelled, again atomic.Bool
	release := make(chan struct{})
	w.fake.ControlKey(int16(kmsg.JoinGroup), func(k kmsg.Request) (kmsg.Response, error, bool) {
		w.fake.KeepControl()
		switch member := k.(*kmsg.JoinGroupRequest).MemberID; {
		case member == id && !expelled.Swap(true):
			w.fake.SleepControl(func() { w.expel(ra) })
		case member == "" && expelled.Load() && !again.Swap(true):
			w.sleep(release)
		}
		return nil, nil, false
	})
	w.run(cfg, b.settleAll)
	eventually(t, "the first is out", again.Load)
	w.produce(0, 15)
	w.produce(1, 15)
	eventually(t, "the other one has all", func() bool { at := w.committed(); return at[0] == 20 && at[1] == 20 })
	close(release)
	eventually(t, "the first is back", func() bool {
		now, gen := ra.clients.member().GroupMetadata()
		return now != id && gen > 0 && ra.Status().Partitions == 1
	})
	for range 40 {
		if at := w.committed(); at[0] != 20 || at[1] != 20 {
			t.Fatalf("committed: %v", at)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Two members that are expelled in turn may both believe that a partition was theirs last, and the
// one that is given it again was not.
func TestAMemberThatWasExpelledWhileItJoinedGoesOnWhereOthersHaveCommitted(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 2)
	w.produce(0, 20)
	w.produce(1, 20)
	j, release := newJournal(), make(chan struct{})
	r := w.run(w.config(), func(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
		switch {
		case m.Origin.Offset >= 10 && m.Origin.Offset < 15:
			return task.Pending
		case m.Origin.Offset >= 5 && m.Origin.Offset < 10:
			<-release
		}
		return j.settleAll(ctx, m, tk)
	})
	eventually(t, "it has committed", func() bool { at := w.committed(); return at[0] == 5 && at[1] == 5 })
	id, _ := r.clients.member().GroupMetadata()
	var expelled, again, others atomic.Bool
	w.fake.ControlKey(int16(kmsg.JoinGroup), func(k kmsg.Request) (kmsg.Response, error, bool) {
		w.fake.KeepControl()
		switch member := k.(*kmsg.JoinGroupRequest).MemberID; {
		case member == id && !expelled.Swap(true):
			w.fake.SleepControl(func() { w.expel(r) })
		case member == "" && !again.Swap(true):
			w.fake.SleepControl(func() { // those that had them meanwhile
				w.commit(0, 15)
				w.commit(1, 15)
				others.Store(true)
			})
		}
		return nil, nil, false
	})
	r.clients.member().ForceRebalance()
	eventually(t, "it is back", func() bool {
		now, gen := r.clients.member().GroupMetadata()
		return others.Load() && now != "" && now != id && gen > 0 && r.Status().Partitions == 2
	})
	close(release)
	eventually(t, "all is committed", func() bool {
		at := w.committed()
		if at[0] < 15 || at[1] < 15 {
			t.Fatalf("committed: %v, which goes back", at)
		}
		return at[0] == 20 && at[1] == 20
	})
}
