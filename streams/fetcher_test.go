package streams

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/task"
)

// fetched counts what the clients of a reader are sent.
type fetched struct{ records atomic.Int64 }

func (f *fetched) OnFetchBatchRead(_ kgo.BrokerMetadata, _ string, _ int32, m kgo.FetchBatchMetrics) {
	f.records.Add(int64(m.NumRecords))
}

func TestFetchersShareThePartitionsOutAndEachRecordIsFetchedOnce(t *testing.T) {
	t.Parallel()
	each(t, 5, func(t *testing.T, w *world) {
		for p := range int32(5) {
			w.produce(p, 200)
		}
		cfg, j, all := w.config(), newJournal(), &fetched{}
		cfg.Kafka.Fetchers = 3
		cfg.Kafka.Options = append(cfg.Kafka.Options, kgo.WithHooks(all))
		r := w.run(cfg, j.settleAll)
		eventually(t, "all is committed", func() bool {
			c := w.committed()
			return c[0] == 200 && c[1] == 200 && c[2] == 200 && c[3] == 200 && c[4] == 200
		})
		share := map[*fetcher]int{}
		for _, p := range r.parts.all() {
			share[p.fetcher]++
		}
		if len(share) != 3 || share[r.clients.all[0]] != 2 || share[r.clients.all[1]] != 2 || share[r.clients.all[2]] != 1 {
			t.Errorf("the fetchers read %v", share)
		}
		if n := all.records.Load(); n != 1000 {
			t.Errorf("%d records were fetched", n)
		}
		for p := range int32(5) {
			for i, offset := range j.of(p) {
				if int64(i) != offset {
					t.Fatalf("partition %d: call %d has offset %d", p, i, offset)
				}
			}
		}
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestPartitionsThatMoveBetweenMembersAreReadByWhoeverHasThem(t *testing.T) {
	t.Parallel()
	each(t, 6, func(t *testing.T, w *world) {
		cfg := w.config()
		cfg.Kafka.Fetchers = 3
		j := newJournal()
		total := 0
		send := func() {
			for p := range int32(6) {
				w.produce(p, 50)
			}
			total += 300
		}
		send()
		first := w.run(cfg, j.settleAll)
		eventually(t, "the first reads", func() bool { return j.count() == total })
		for range 3 {
			second := w.run(cfg, j.settleAll)
			eventually(t, "they share", func() bool { return first.Status().Partitions == 3 && second.Status().Partitions == 3 })
			send()
			eventually(t, "both read", func() bool { return j.count() >= total })
			if err := second.end(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the first has all again", func() bool { return first.Status().Partitions == 6 })
			send()
			eventually(t, "the first reads on", func() bool { return j.count() >= total })
		}
		if err := first.end(); err != nil {
			t.Fatal(err)
		}
		for p := range int32(6) {
			of := j.of(p)
			if len(of) != total/6 {
				t.Errorf("partition %d: %d calls for %d records", p, len(of), total/6)
			}
			for i, offset := range of {
				if int64(i) != offset {
					t.Fatalf("partition %d: call %d has offset %d", p, i, offset)
				}
			}
		}
	})
}

func TestFetchersSideBySideFillNoMoreThanTheWindow(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 8)
	for p := range int32(8) {
		w.produce(p, 300)
	}
	cfg := w.config()
	cfg.Window.Messages, cfg.Kafka.Fetchers = 60, 4
	var mu sync.Mutex
	var open []task.Ticket
	r := w.run(cfg, func(_ context.Context, _ *stepwell.Message, tk task.Ticket) task.Outcome {
		mu.Lock()
		defer mu.Unlock()
		open = append(open, tk)
		return task.Pending
	})
	for settled := 0; settled < 2400; {
		eventually(t, "the window is full, or all is read", func() bool {
			n := r.Status().InFlight
			if n > 60 {
				t.Fatalf("%d in flight", n)
			}
			return n >= 57 || settled+int(n) == 2400 // three may wait for a first record, with a place of each kept free
		})
		mu.Lock()
		now := open
		open = nil
		mu.Unlock()
		for _, tk := range now {
			tk.Settle()
		}
		settled += len(now)
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
}

func TestAFetcherThatBeginsAnewBringsNothingOfBefore(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 2)
	w.produce(0, 100)
	w.produce(1, 100)
	client, err := kgo.NewClient(kgo.SeedBrokers(w.seeds...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	f := &fetcher{client: client, reading: map[string]map[int32]bool{}, idle: map[string]time.Time{}}
	from := func(parts ...int32) {
		offsets := map[string]map[int32]kgo.Offset{w.topic: {}}
		for _, p := range parts {
			offsets[w.topic][p] = kgo.NewOffset().At(50)
		}
		f.read(offsets)
	}
	next := func(what string, partition int32) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		fetches := client.PollRecords(ctx, 1)
		if r := fetches.Records(); len(r) != 1 || r[0].Partition != partition || r[0].Offset != 50 {
			t.Fatalf("%s: %v %v", what, r, fetches.Errors())
		}
	}
	cease := func(partition int32) { f.cease([]topicPartition{{w.topic, partition}}) }
	from(1)
	next("the first", 1)
	from(1) // changes nothing: else 50 would come again
	if r := client.PollRecords(t.Context(), 1).Records(); len(r) != 1 || r[0].Offset != 51 {
		t.Fatalf("after it was told twice: %v", r)
	}
	cease(1)
	cease(0) // was never read
	from(1)
	next("anew", 1)
	cease(1)
	from(0)
	next("the other", 0)
	from(1)
	cease(0)
	next("anew, beside another", 1)
}

func TestWhatAnotherFetcherSaysOfAPartitionDoesNotCount(t *testing.T) {
	t.Parallel()
	j := newJournal()
	r, tp := lone(t, j.settleAll)
	reads, member := &fetcher{client: new(kgo.Client)}, r.clients.all[0]
	r.parts.assign(tp, r.clients.all).fetcher = reads
	r.parts.lookup(tp).begin(ledger.At(10, 1), false)
	poll := func(from *fetcher, first, end int64, err error) polled {
		f := records(first, end)
		f.Err = err
		return r.intake.distribute(from, kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: tp.topic, Partitions: []kgo.FetchPartition{*f}}}}})
	}
	if got := poll(reads, 10, 20, nil); got.records != 10 {
		t.Fatalf("its own fetcher: %+v", got)
	}
	if got := poll(member, 20, 30, nil); got.records != 0 {
		t.Errorf("records of another: %+v", got)
	}
	cut := &kgo.ErrDataLoss{Topic: tp.topic, ConsumedTo: 20, ResetTo: 5, ResetToEpoch: 1}
	before := r.parts.lookup(tp)
	if poll(member, 0, 0, cut); r.parts.lookup(tp) != before || before.position() != 20 {
		t.Errorf("the cut that another saw: goes on at %d", r.parts.lookup(tp).position())
	}
	poll(reads, 0, 0, cut)
	if p := r.parts.lookup(tp); p == before || p.position() != 5 || p.fetcher != reads {
		t.Errorf("the cut that its own fetcher saw: goes on at %d, read by %p", p.position(), p.fetcher)
	}
}

func TestWhoReadsAPartitionIsWhoReadsTheFewestOfItsTopic(t *testing.T) {
	t.Parallel()
	r, _ := lone(t, newJournal().settleAll)
	r.clients.all = []*fetcher{{}, {}, {}}
	for id, want := range []int{0, 1, 2, 0, 1} {
		if p := r.parts.assign(topicPartition{"t", int32(id)}, r.clients.all); p.fetcher != r.clients.all[want] {
			t.Errorf("partition %d is not read by fetcher %d", id, want)
		}
	}
	if p := r.parts.assign(topicPartition{"other", 0}, r.clients.all); p.fetcher != r.clients.all[2] {
		t.Error("another topic begins with who reads the fewest of all")
	}
	r.clients.all = nil
}

func TestWhatIsRevokedIsReadNoMoreWhileItsCallsEnd(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 2)
	w.produce(0, 5)
	w.produce(1, 10)
	j := newJournal()
	release := make(chan struct{})
	cfg := w.config()
	cfg.Kafka.Fetchers = 2
	r := w.run(cfg, func(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
		if m.Origin.Partition == 1 {
			<-release
		}
		return j.settleAll(ctx, m, tk)
	})
	eventually(t, "one is at work, the rest waits", func() bool { return r.Status().InFlight == 10 && j.count() == 5 })
	other := r.parts.lookup(topicPartition{w.topic, 1})
	if other.fetcher.member {
		t.Fatal("the group's member reads both")
	}
	revoked := make(chan struct{})
	go func() {
		defer close(revoked)
		r.rebalances.onRevoked(t.Context(), new(kgo.Client), map[string][]int32{w.topic: {1}})
	}()
	<-other.roster.Halted()
	w.produce(1, 100)
	w.produce(0, 100)
	eventually(t, "the other partition goes on", func() bool { return j.count() == 105 })
	if n := r.Status().InFlight; n != 10 {
		t.Errorf("%d in flight", n)
	}
	close(release)
	<-revoked
	eventually(t, "what was at work is committed", func() bool { return w.committed()[1] == 1 })
	if r.parts.lookup(topicPartition{w.topic, 1}) != nil {
		t.Error("it is still ours")
	}
}

func TestARevokeThatMeetsACutGivesUpWhatReplacedThePartition(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	r, tp := lone(t, func(context.Context, *stepwell.Message, task.Ticket) task.Outcome {
		<-release
		return task.Settled
	})
	p := r.parts.assign(tp, r.clients.all)
	p.begin(ledger.At(0, -1), false)
	r.intake.receive(tp, records(0, 5), [16]byte{})
	eventually(t, "it is at work", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.roster.Running() == 1 })
	revoked := make(chan struct{})
	go func() {
		defer close(revoked)
		r.rebalances.onRevoked(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {tp.partition}})
	}()
	<-p.roster.Halted()
	if r.wasCut(tp, 2); r.parts.lookup(tp) == p {
		t.Fatal("nothing replaces it")
	}
	close(release)
	<-revoked
	if now := r.parts.lookup(tp); now != nil {
		t.Errorf("still ours, from %d", now.position())
	}
}

func TestATopicMadeAnewThatOnlyAnotherFetcherFoundIsCommitted(t *testing.T) {
	t.Parallel()
	each(t, 1, func(t *testing.T, w *world) {
		first := "a-" + w.topic
		w.create(first, 1)
		w.produce(0, 20)
		cfg, j := w.config(), newJournal()
		cfg.Topics, cfg.Kafka.Fetchers = []string{first, w.topic}, 2
		r := w.run(cfg, j.settleAll)
		eventually(t, "20 calls", func() bool { return j.count() == 20 && w.committed()[0] == 20 })
		tp := topicPartition{w.topic, 0}
		other := r.parts.lookup(tp).fetcher
		if other.member {
			t.Fatal("the group's member reads both")
		}
		ours := map[string][]int32{w.topic: {0}}
		r.rebalances.onLost(t.Context(), nil, ours)
		w.remake(1)
		fresh := newProducer(t, w)
		for range 30 {
			fresh(0)
		}
		other.client.PurgeTopicsFromConsuming(w.topic) // as one that never knew the old topic
		r.rebalances.onAssigned(t.Context(), new(kgo.Client), ours)
		if _, err := r.starts.adjust(t.Context(), map[string]map[int32]kgo.Offset{w.topic: {0: kgo.NewOffset().AtStart()}}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "30 more calls", func() bool { return j.count() >= 50 })
		within(t, 90*time.Second, "all is committed", func() bool { return w.committed()[0] == 30 })
	})
}

func TestTheMemberReadsWhatIsCommittedWithoutALeaderEpochAndBeginsAtTheStartWhereThatIsBeyondTheLog(t *testing.T) {
	t.Parallel()
	each(t, 4, func(t *testing.T, w *world) {
		for id := range int32(4) {
			w.produce(id, 10)
			w.commit(id, 50) // names none, as a tool may
		}
		cfg, j := w.config(), newJournal()
		cfg.Kafka.Fetchers = 2
		r := w.run(cfg, j.settleAll)
		eventually(t, "all that is there is read", func() bool { return j.count() == 40 })
		for id := range int32(4) {
			if !r.parts.lookup(topicPartition{w.topic, id}).fetcher.member {
				t.Errorf("partition %d is read by a client that may take the end for the beginning", id)
			}
		}
	})
}

func TestAFetcherForgetsATopicOfWhichItReadsNothingAndFindsItAgain(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 2)
	cfg, j := w.config(), newJournal()
	cfg.Kafka.Fetchers = 2
	r := w.run(cfg, j.settleAll)
	w.produce(1, 10)
	eventually(t, "10 calls", func() bool { return j.count() == 10 && w.committed()[1] == 10 })
	ours := map[string][]int32{w.topic: {1}}
	other := r.parts.lookup(topicPartition{w.topic, 1}).fetcher
	if other.member {
		t.Fatal("the group's member reads both")
	}
	r.rebalances.onLost(t.Context(), nil, ours)
	r.clients.forgetIdle(t.Context(), time.Now()) // not for long
	if len(other.client.GetConsumeTopics()) != 1 {
		t.Error("it has forgotten at once")
	}
	r.clients.forgetIdle(t.Context(), time.Now().Add(2*idleTopic))
	if topics := other.client.GetConsumeTopics(); len(topics) != 0 {
		t.Errorf("it remembers %v", topics)
	}
	r.rebalances.onAssigned(t.Context(), new(kgo.Client), ours)
	if _, err := r.starts.adjust(t.Context(), map[string]map[int32]kgo.Offset{w.topic: {1: kgo.NewOffset().At(10).WithEpoch(0)}}); err != nil {
		t.Fatal(err)
	}
	r.clients.forgetIdle(t.Context(), time.Now().Add(2*idleTopic))
	w.produce(1, 10)
	eventually(t, "10 more calls", func() bool { return j.count() == 20 })
}

// A group that had put the member out, while it joined, gives it partitions of which its client
// never told that they were lost.
func TestWhatIsAssignedAnewThoughItWasNeverGivenUpIsReadAgainFromItsCommit(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 2)
	w.produce(1, 20)
	cfg, j := w.config(), newJournal()
	cfg.Kafka.Fetchers = 2
	r := w.run(cfg, func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		j.note(m)
		if m.Origin.Offset >= 10 {
			return task.Pending // never settled
		}
		return task.Settled
	})
	eventually(t, "ten of twenty are committed", func() bool { return j.count() == 20 && w.committed()[1] == 10 })
	if r.parts.lookup(topicPartition{w.topic, 1}).fetcher.member {
		t.Fatal("the group's member reads both")
	}
	r.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{w.topic: {1}})
	if _, err := r.starts.adjust(t.Context(), map[string]map[int32]kgo.Offset{w.topic: {1: kgo.NewOffset().At(10).WithEpoch(0)}}); err != nil {
		t.Fatal(err)
	}
	within(t, 10*time.Second, "the ten that are not committed are read again", func() bool { return j.count() == 30 })
	w.produce(1, 5)
	eventually(t, "and what follows", func() bool { return j.count() == 35 })
	if at := w.committed()[1]; at != 10 {
		t.Errorf("committed at %d, while 10 is still pending", at)
	}
}

// A client keeps a pause over all assignments.
func TestAPartitionThatRestsWhenItGoesIsReadWhenItComesBack(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fetchers int
		woken    bool // while it is not ours
		paused   int  // in the member, in the end
	}{
		"to the only client":                     {fetchers: 1, woken: true},
		"to the only client, before it is woken": {fetchers: 1},
		"to another client, which reads it":      {fetchers: 2, woken: true, paused: 1},
		"to another client, before it is woken":  {fetchers: 2, paused: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, tp := lone(t, newJournal().settleAll)
			r.clients.all = nil
			for i := range test.fetchers {
				f := newFetcher(i == 0)
				f.client = lonely(t)
				r.clients.all = append(r.clients.all, f)
			}
			member, ours := r.clients.all[0], map[string][]int32{tp.topic: {tp.partition}}
			r.rebalances.onAssigned(t.Context(), new(kgo.Client), ours)
			r.fetched(tp, records(0, 0), kerr.UnknownServerError)
			if len(member.client.PauseFetchPartitions(nil)) != 1 {
				t.Fatal("it does not rest")
			}
			r.rebalances.onLost(t.Context(), nil, ours)
			if test.woken {
				r.clients.wake()
			}
			if test.fetchers > 1 { // the member reads others by now
				r.parts.assign(topicPartition{tp.topic, 7}, r.clients.all[:1])
			}
			r.rebalances.onAssigned(t.Context(), new(kgo.Client), ours)
			r.clients.wake()
			if paused := member.client.PauseFetchPartitions(nil); len(paused) != test.paused {
				t.Errorf("paused in the group's member: %v", paused)
			}
		})
	}
}
