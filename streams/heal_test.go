package streams

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestAnAskToLookForATopicIsKeptUntilItsTurn(t *testing.T) {
	t.Parallel()
	h, now := newHealer(), time.Now()
	due := func(after time.Duration, want ...string) {
		t.Helper()
		if got := h.due(now.Add(after)); !slices.Equal(got, want) {
			t.Errorf("after %s: %v, want %v", after, got, want)
		}
	}
	due(0)
	h.ask("b")
	h.ask("a")
	due(0, "a", "b")
	h.ask("a") // while it is looked for: about what was before
	h.done("a", now)
	due(0, "b")
	h.ask("a")
	due(healInterval, "b")
	due(healInterval+1, "a", "b")
	h.done("a", now.Add(healInterval+1))
	h.done("b", now.Add(3*healInterval))
	if len(h.healed) != 1 || len(h.wanted) != 0 {
		t.Errorf("keeps %v %v", h.healed, h.wanted)
	}
}

func TestATopicOfWhichTheBrokersSayNothingIsToBeLookedForAgain(t *testing.T) {
	t.Parallel()
	r, tp := lone(t, newJournal().settleAll)
	r.clients.all[0].client = lonely(t)
	r.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {tp.partition}})
	if r.watch.healTopic(t.Context(), tp.topic) {
		t.Error("it counts as found")
	}
	if r.parts.lookup(tp) == nil {
		t.Error("its partition was given up, though it may be the topic that is read")
	}
}

// What the group's member is given of the topic then, the others are told to read.
func TestTheMemberFindsATopicAnewOnceTheOthersHaveForgottenIt(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 2)
	r, _ := lone(t, newJournal().settleAll)
	asked, answer := make(chan struct{}), make(chan struct{})
	var once sync.Once
	hangs := kgo.Dialer(func(context.Context, string, string) (net.Conn, error) {
		once.Do(func() { close(asked) })
		<-answer
		return nil, errors.New("nobody there")
	})
	for i, opts := range [][]kgo.Opt{
		{kgo.SeedBrokers(w.seeds...), kgo.ConsumeTopics(w.topic)},
		{kgo.SeedBrokers("127.0.0.1:1"), hangs, kgo.RequestRetries(0), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{w.topic: {1: kgo.NewOffset()}})},
	} {
		client, err := kgo.NewClient(opts...)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if i > 0 {
			r.clients.all = append(r.clients.all, newFetcher(false))
		}
		r.clients.all[i].client = client
	}
	<-asked // a client forgets nothing until that is answered
	var answered atomic.Bool
	time.AfterFunc(300*time.Millisecond, func() {
		answered.Store(true)
		close(answer)
	})
	found := r.watch.healTopic(t.Context(), w.topic)
	if !answered.Load() {
		t.Error("it did not wait for them")
	}
	if left := r.clients.all[1].client.GetConsumeTopics(); !found || len(left) > 0 {
		t.Errorf("found: %v; another remembers %v", found, left)
	}
}

func TestATopicThatIsLookedForAgainHoldsUpNoPartitionOfAnotherThatRests(t *testing.T) {
	t.Parallel()
	w, h := fakeWorld(t, 1), newHung()
	other := w.topic + "-other"
	w.create(other, 2)
	w.produce(0, 1)
	w.send(&kgo.Record{Topic: other, Partition: 1})
	var asked atomic.Int64
	allowed := make(chan struct{})
	w.refuseFetches(1, kerr.UnknownServerError, allowed, &asked)
	cfg := w.config()
	cfg.Topics = []string{w.topic, other}
	r := w.run(cfg, h.handle)
	eventually(t, "the slow call, and one rests", func() bool { return h.begun.Load() == 1 && r.Status().Err != "" })
	p := r.parts.lookup(topicPartition{w.topic, 0})
	r.heal.ask(w.topic)
	<-p.roster.Halted() // waits for the slow call from here on
	close(allowed)
	within(t, 10*time.Second, "the one that rests goes on", func() bool { return len(h.of(1)) == 1 })
	if h.cut.Load() > 0 || r.parts.lookup(p.topicPartition) != p {
		t.Error("the topic is not looked for any more")
	}
	close(h.release)
	eventually(t, "the slow call is committed", func() bool { return w.committed()[0] == 1 })
}
