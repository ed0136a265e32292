package streams

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
)

func TestLatestSkipsWhatWasThereAndLosesNothingInARestartBeforeTheFirstCommit(t *testing.T) {
	t.Parallel()
	each(t, 3, func(t *testing.T, w *world) {
		for p := range int32(3) {
			w.produce(p, 10)
		}
		cfg := w.config()
		cfg.Start = "latest"
		r := w.run(cfg, newJournal().settleAll)
		eventually(t, "the beginning is committed", func() bool { return len(w.committed()) == 3 })
		for p, at := range w.committed() {
			if at != 10 {
				t.Errorf("partition %d is committed at %d", p, at)
			}
		}
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		for p := range int32(3) {
			w.produce(p, 5) // while no reader runs
		}
		j := newJournal()
		w.run(cfg, j.settleAll)
		eventually(t, "15 calls", func() bool { return j.count() == 15 })
		for p := range int32(3) {
			if got := j.of(p); len(got) != 5 || got[0] != 10 {
				t.Errorf("partition %d: %v", p, got)
			}
		}
	})
}

func TestLatestIsCommittedForAllPartitionsBeforeTheFirstRecordIsRead(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 3)
	w.produce(0, 10)
	var began, committed atomic.Bool
	w.fake.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		began.Store(true)
		return nil, nil, false
	})
	w.fake.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		n := 0
		for _, topic := range req.(*kmsg.OffsetCommitRequest).Topics {
			n += len(topic.Partitions)
		}
		if committed.Swap(true) {
			return nil, nil, false
		}
		if began.Load() || n != 3 {
			t.Errorf("the first commit is of %d partitions, fetching has begun: %v", n, began.Load())
		}
		return nil, nil, false
	})
	cfg := w.config()
	cfg.Start = "latest"
	w.run(cfg, newJournal().settleAll)
	eventually(t, "fetching begins", began.Load)
	if got := w.committed(); got[0] != 10 || len(got) != 3 {
		t.Fatalf("committed %v", got)
	}
}

func TestAReaderCountsAsJoinedOnlyOnceItKnowsWhereItsPartitionsBegin(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 3)
	w.produce(0, 10)
	asked, answer := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.fake.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.fake.KeepControl()
		once.Do(func() { close(asked) })
		w.sleep(answer)
		return nil, nil, false
	})
	cfg := w.config()
	cfg.Start = "latest"
	j := newJournal()
	r := w.run(cfg, j.settleAll)
	<-asked
	if r.Status().Joined {
		t.Error("joined, while the end of the log is not known yet")
	}
	close(answer)
	eventually(t, "the reader has joined", func() bool { return r.Status().Joined })
	w.produce(0, 1)
	eventually(t, "what came after that is read", func() bool { return j.count() == 1 })
}

func TestTwoMembersThatStartAtTheEndTogetherLoseNothing(t *testing.T) {
	t.Parallel()
	each(t, 4, func(t *testing.T, w *world) {
		for p := range int32(4) {
			w.produce(p, 10)
		}
		cfg := w.config()
		cfg.Start, cfg.Group.HeartbeatInterval = "latest", 300*time.Millisecond
		j := newJournal()
		first, second := w.run(cfg, j.settleAll), w.run(cfg, j.settleAll)
		eventually(t, "both have two", func() bool { return first.Status().Partitions == 2 && second.Status().Partitions == 2 })
		eventually(t, "the beginning is committed", func() bool { return len(w.committed()) == 4 })
		for p := range int32(4) {
			w.produce(p, 5)
		}
		eventually(t, "20 calls", func() bool { return j.count() == 20 })
		for p := range int32(4) {
			if got := j.of(p); got[0] != 10 {
				t.Errorf("partition %d: %v", p, got)
			}
		}
	})
}

func TestAPartitionAddedLaterBeginsAtItsStartAlsoWithLatest(t *testing.T) {
	t.Parallel()
	w := realWorld(t, 1)
	w.produce(0, 10)
	cfg := w.config()
	cfg.Start = "latest"
	j := newJournal()
	w.run(cfg, j.settleAll)
	eventually(t, "the beginning is committed", func() bool { return len(w.committed()) == 1 })
	if _, err := w.admin.UpdatePartitions(t.Context(), 2, w.topic); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a producer sees the partition", func() bool {
		return w.client.ProduceSync(t.Context(), &kgo.Record{Topic: w.topic, Partition: 1}).FirstErr() == nil
	})
	eventually(t, "the record of the new partition", func() bool { return len(j.of(1)) > 0 })
	if got := j.of(1); got[0] != 0 || len(j.of(0)) != 0 {
		t.Fatalf("partition 1: %v, partition 0: %v", got, j.of(0))
	}
}

func TestATimeAsStartBeginsWithTheFirstRecordAfterIt(t *testing.T) {
	t.Parallel()
	each(t, 2, func(t *testing.T, w *world) {
		at := time.Now().Add(-time.Hour).Truncate(time.Second)
		for p := range int32(2) {
			w.send(&kgo.Record{Partition: p, Timestamp: at.Add(-time.Minute)}, &kgo.Record{Partition: p, Timestamp: at.Add(time.Minute)}, &kgo.Record{Partition: p})
		}
		cfg := w.config()
		cfg.Start = at.Format(time.RFC3339)
		j := newJournal()
		w.run(cfg, j.settleAll)
		eventually(t, "four calls", func() bool { return j.count() == 4 })
		for p := range int32(2) {
			if got := j.of(p); got[0] != 1 {
				t.Errorf("partition %d: %v", p, got)
			}
		}
	})
}

func (w *world) deleteTo(offset int64) {
	w.t.Helper()
	var to kadm.Offsets
	to.Add(kadm.Offset{Topic: w.topic, Partition: 0, At: offset})
	if got, err := w.admin.DeleteRecords(w.t.Context(), to); err != nil || got.Error() != nil {
		w.t.Fatal(err, got.Error())
	}
}

func TestACommitThatExpiredGoesOnAtTheEarliestRecordLeftAndTheLossIsCounted(t *testing.T) {
	t.Parallel()
	each(t, 1, func(t *testing.T, w *world) {
		w.produce(0, 100)
		j := newJournal()
		cfg := w.config()
		cfg.Window.Messages = 10
		r := w.run(cfg, func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
			if m.Origin.Offset >= 10 {
				return task.Abandoned
			}
			return task.Settled
		})
		eventually(t, "ten are committed", func() bool { return w.committed()[0] == 10 })
		_ = r.end()
		w.deleteTo(50)
		c, log := &counter{}, &logbook{}
		cfg.Telemetry, cfg.Start, cfg.Logger = c, "latest", log.logger()
		w.run(cfg, j.settleAll)
		eventually(t, "50 calls", func() bool { return j.count() == 50 })
		if got := j.of(0); got[0] != 50 || c.lost.Load() != 40 {
			t.Fatalf("begins at %d, %d counted as lost", got[0], c.lost.Load())
		}
		if log.count("level=ERROR", "deleted by Kafka before they were read", "from_offset=10 records=40") != 1 {
			t.Error("the log does not say which were lost")
		}
	})
}

// No record comes that would tell of it.
func TestALogThatRetentionEmptiedIsCountedAndLeavesNoLag(t *testing.T) {
	t.Parallel()
	each(t, 1, func(t *testing.T, w *world) {
		w.produce(0, 100)
		w.commit(0, 10)
		w.deleteTo(100)
		c, j, log, cfg := &counter{}, newJournal(), &logbook{}, w.config()
		cfg.Telemetry, cfg.Logger = c, log.logger()
		r := w.run(cfg, j.settleAll)
		eventually(t, "the loss is counted", func() bool { return c.lost.Load() > 0 })
		eventually(t, "it is committed, and no lag", func() bool { return w.committed()[0] == 100 && r.Status().Lag == 0 })
		w.produce(0, 10)
		eventually(t, "what comes then", func() bool { return j.count() == 10 && w.committed()[0] == 110 })
		if n := log.count("level=ERROR", "deleted by Kafka before they were read", "from_offset=10 records=90"); n != 1 || c.lost.Load() != 90 {
			t.Errorf("%d are lost, which is told %d times", c.lost.Load(), n)
		}
	})
}

func TestRetentionThatOvertakesARunningReaderIsCounted(t *testing.T) {
	t.Parallel()
	each(t, 1, func(t *testing.T, w *world) {
		c, j := &counter{}, newJournal()
		cfg := w.config()
		cfg.Telemetry, cfg.Window.Messages = c, 10
		release := make(chan struct{})
		r := w.run(cfg, func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
			<-release
			j.note(m)
			return task.Settled
		})
		send := func(n int) {
			for range n {
				w.send(&kgo.Record{Value: make([]byte, 20_000)})
			}
		}
		send(20)
		// Fetching stops. What the client has fetched ahead, or is just fetching, is small, as more
		// comes one by one: had all been there at the start it would be all.
		eventually(t, "the window is full", func() bool { return r.Status().InFlight >= 10 })
		send(180)
		w.deleteTo(150)
		close(release)
		eventually(t, "the last record", func() bool { return slices.Contains(j.of(0), 199) })
		eventually(t, "all that was read is handled", func() bool { return r.Status().InFlight == 0 })
		if handled := int64(j.count()); handled+c.lost.Load() != 200 || c.lost.Load() == 0 {
			t.Fatalf("%d handled and %d lost of 200", handled, c.lost.Load())
		}
		t.Log(c.lost.Load(), "lost")
		eventually(t, "all is committed", func() bool { return w.committed()[0] == 200 })
		if s := r.Status(); s.InFlight != 0 || s.Lag != 0 {
			t.Fatalf("status %+v", s)
		}
	})
}

func TestMarkersOfTransactionsAreNoLoss(t *testing.T) {
	t.Parallel()
	w := realWorld(t, 1)
	c, j := &counter{}, newJournal()
	cfg := w.config()
	cfg.Telemetry = c
	w.run(cfg, j.settleAll)
	producer, err := kgo.NewClient(kgo.SeedBrokers(w.seeds...), kgo.TransactionalID(w.group), kgo.DefaultProduceTopic(w.topic))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	for range 5 { // each leaves a marker at an offset of its own
		if err := producer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := producer.ProduceSync(t.Context(), &kgo.Record{Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := producer.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "five calls", func() bool { return j.count() == 5 })
	eventually(t, "all is committed, the last marker too", func() bool { return w.committed()[0] == 10 })
	if c.lost.Load() != 0 {
		t.Fatalf("%d lost", c.lost.Load())
	}
}

func TestATopicThatAppearsLaterAndMatchesThePatternAsAWholeIsRead(t *testing.T) {
	t.Parallel()
	each(t, 1, func(t *testing.T, w *world) {
		cfg := w.config()
		cfg.Topics, cfg.Pattern, cfg.Start = nil, w.topic+`(\.[a-z]+)?`, "latest"
		w.produce(0, 3)
		got := make(chan string, 100)
		r := w.run(cfg, func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
			got <- m.Origin.Topic
			return task.Settled
		})
		eventually(t, "the beginning is committed", func() bool { return w.committed()[0] == 3 })
		longer, later := w.topic+".later.not", w.topic+".later"
		w.create(longer, 1)
		w.create(later, 1)
		t.Cleanup(func() { _, _ = w.admin.DeleteTopics(context.Background(), longer, later) })
		w.send(&kgo.Record{Topic: longer}, &kgo.Record{Topic: later})
		select {
		case topic := <-got:
			if topic != later {
				t.Fatalf("read %s", topic)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("not found: %+v", r.Status())
		}
		for _, p := range r.parts.all() { // both were found at once, if both match
			if p.topic == longer {
				t.Fatalf("also reads %s", longer)
			}
		}
	})
}

func TestATopicThatIsMadeAfterTheGroupBeganIsReadFromItsStartAlsoWithLatest(t *testing.T) {
	t.Parallel()
	each(t, 1, func(t *testing.T, w *world) {
		w.produce(0, 3)
		cfg, j, later := w.config(), newJournal(), w.topic+"-later"
		cfg.Topics, cfg.Start = append(cfg.Topics, later), "latest"
		r := w.run(cfg, j.settleAll)
		eventually(t, "the beginning is committed", func() bool { return w.committed()[0] == 3 })
		r.says(later)
		w.create(later, 1)
		t.Cleanup(func() { _, _ = w.admin.DeleteTopics(context.Background(), later) })
		for range 5 {
			w.send(&kgo.Record{Topic: later})
		}
		within(t, 60*time.Second, "it is found", func() bool { return r.Status().Partitions == 2 })
		w.send(&kgo.Record{Topic: later})
		within(t, 60*time.Second, "6 calls", func() bool { return j.count() == 6 })
	})
}

func TestTheFirstTopicsThatAPatternMatchesAreReadFromTheirStartAlsoWithLatest(t *testing.T) {
	t.Parallel()
	each(t, 1, func(t *testing.T, w *world) {
		cfg, j, first, second := w.config(), newJournal(), w.topic+".first", w.topic+".second"
		cfg.Topics, cfg.Pattern, cfg.Start = nil, w.topic+`\.[a-z]+`, "latest"
		r := w.run(cfg, j.settleAll)
		r.says("no topic matches")
		w.create(first, 1)
		w.create(second, 1)
		t.Cleanup(func() { _, _ = w.admin.DeleteTopics(context.Background(), first, second) })
		for range 5 {
			w.send(&kgo.Record{Topic: first}, &kgo.Record{Topic: second})
		}
		within(t, 60*time.Second, "they are found", func() bool { return r.Status().Partitions == 2 })
		within(t, 60*time.Second, "10 calls", func() bool { return j.count() == 10 })
	})
}

func TestWhatAPatternFoundLaterIsReadFromItsStartAlsoByAListAndWithLatest(t *testing.T) {
	t.Parallel()
	each(t, 1, func(t *testing.T, w *world) {
		later := w.topic + ".later"
		cfg := w.config()
		cfg.Topics, cfg.Pattern, cfg.Start = nil, w.topic+`(\.[a-z]+)?`, "latest"
		r := w.run(cfg, newJournal().settleAll)
		eventually(t, "the beginning is committed", func() bool { return len(w.committed()) == 1 })
		w.create(later, 1)
		t.Cleanup(func() { _, _ = w.admin.DeleteTopics(context.Background(), later) })
		within(t, 60*time.Second, "the beginning of the later one is committed", func() bool {
			commits, err := w.admin.FetchOffsets(t.Context(), w.group)
			at, ok := commits.Lookup(later, 0)
			return err == nil && ok && at.At == 0
		})
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		w.send(&kgo.Record{Topic: later}, &kgo.Record{Topic: later})
		j := newJournal()
		cfg.Topics, cfg.Pattern = []string{w.topic, later}, ""
		w.run(cfg, j.settleAll)
		eventually(t, "both records", func() bool { return j.count() == 2 })
	})
}

func TestATopicMadeAnewIsReadFromItsStartAlsoWithLatest(t *testing.T) {
	t.Parallel()
	each(t, 1, func(t *testing.T, w *world) {
		cfg, j := w.config(), newJournal()
		cfg.Start = "latest"
		w.run(cfg, j.settleAll)
		eventually(t, "the beginning is committed", func() bool { return len(w.committed()) == 1 })
		w.produce(0, 20)
		eventually(t, "20 calls", func() bool { return j.count() == 20 && w.committed()[0] == 20 })
		w.remake(1)
		fresh := newProducer(t, w)
		for range 30 {
			fresh(0)
		}
		within(t, 90*time.Second, "30 more calls", func() bool { return j.count() == 50 })
	})
}

func TestATopicDeletedAndMadeAnewIsReadFromItsStart(t *testing.T) {
	t.Parallel()
	each(t, 2, func(t *testing.T, w *world) { // one of the group's member, one of another fetcher
		w.produce(0, 20)
		w.produce(1, 20)
		cfg, j := w.config(), newJournal()
		cfg.Kafka.Fetchers = 2
		r := w.run(cfg, j.settleAll)
		eventually(t, "40 calls", func() bool { return j.count() == 40 && w.committed()[0] == 20 && w.committed()[1] == 20 })
		w.remake(2)
		fresh := newProducer(t, w)
		for range 30 {
			fresh(0)
			fresh(1)
		}
		within(t, 90*time.Second, "60 more calls", func() bool { return j.count() >= 100 })
		for p := range int32(2) {
			if got := j.of(p)[20:]; got[0] != 0 || len(got) != 30 {
				t.Fatalf("of partition %d of the new topic: %v; %+v", p, got, r.Status())
			}
		}
		eventually(t, "all is committed", func() bool { return w.committed()[0] == 30 && w.committed()[1] == 30 })
	})
}

// newProducer has no memory of a topic that was made anew.
func newProducer(t *testing.T, w *world) func(partition int32) {
	client, err := kgo.NewClient(kgo.SeedBrokers(w.seeds...), kgo.DefaultProduceTopic(w.topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return func(partition int32) {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Partition: partition, Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}
