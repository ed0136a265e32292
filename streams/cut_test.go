package streams

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
)

func (p *partition) mustBe(t *testing.T, done chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(2 * time.Second):
		t.Error(what)
	}
}

// a cut while paused; Resume forgets the replaced partition.
func TestResumeWakesWhatACutReplaced(t *testing.T) {
	got := make(chan int64, 100)
	r, tp := lone(t, func(_ context.Context, m *stepwell.Message, _ Ticket) Outcome {
		got <- m.Origin.Offset
		return Settled
	})
	r.workers.Go(r.crew.watch)
	r.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {0}})
	r.lookup(tp).begin(position{0, 0}, false)
	r.Pause()
	r.receive(tp, records(0, 10), [16]byte{1})
	old := r.lookup(tp)
	within(t, 2*time.Second, "a worker looked and found the pause", func() bool { r.crew.mu.Lock(); defer r.crew.mu.Unlock(); return r.crew.idle == 1 })
	r.receive(tp, records(5, 8), [16]byte{1}) // the log was cut
	r.Resume()
	fresh := r.lookup(tp)
	fresh.mustBe(t, old.done, "the replaced partition is never handed out after Resume: its successor is blocked for ever")
}

// a stretch of one with more behind it in the queue: the watch sleeps.
func TestASlowSingleStretchDoesNotHoldTheQueueBack(t *testing.T) {
	r, tp := lone(t, nil2)
	release, other := make(chan struct{}), make(chan struct{})
	r.handle = func(ctx context.Context, m *stepwell.Message, _ Ticket) Outcome {
		if m.Origin.Offset == 0 {
			select {
			case <-release:
			case <-ctx.Done():
			}
			return Settled
		}
		if m.Origin.Offset == 9 {
			close(other)
		}
		return Settled
	}
	r.cfg.Order = OrderNone
	r.workers.Go(r.crew.watch)
	r.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {0}})
	p := r.lookup(tp)
	p.begin(position{0, 0}, false)
	within(t, 2*time.Second, "the watch sleeps", func() bool { return !r.crew.watched.Load() })
	r.Pause()
	r.receive(tp, records(0, 1), [16]byte{1})
	r.receive(tp, records(1, 10), [16]byte{1})
	r.Resume()
	p.mustBe(t, other, "nine messages without a key wait for a slow one while 15 places are free")
	close(release)
}

func nil2(context.Context, *stepwell.Message, Ticket) Outcome { return Settled }

// commit at the cut while what is before it is open.
func TestACutDoesNotCommitWhatIsNotSettledBeforeIt(t *testing.T) {
	began := make(chan struct{}, 100)
	r, tp := lone(t, func(_ context.Context, m *stepwell.Message, _ Ticket) Outcome {
		began <- struct{}{}
		if m.Origin.Offset == 3 {
			return Pending // its failure is not confirmed yet
		}
		return Settled
	})
	r.workers.Go(r.crew.watch)
	r.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {0}})
	r.lookup(tp).begin(position{0, 0}, false)
	r.receive(tp, records(0, 10), [16]byte{1})
	for range 10 {
		<-began
	}
	_ = r.trouble(nil, tp, &kgo.ErrDataLoss{Topic: tp.topic, ConsumedTo: 10, ResetTo: 8})
	r.receive(tp, records(8, 9), [16]byte{1})
	<-began
	p := r.lookup(tp)
	within(t, 2*time.Second, "offset 8 is settled", func() bool { c, _ := p.dirty(4096); return c.changes > 0 || c.at.offset <= 3 })
	if c, dirty := p.dirty(4096); dirty && c.at.offset > 3 {
		t.Errorf("commits %d (%q) while 3 is still pending", c.at.offset, c.metadata)
	}
	r.lookup(tp).replaced.settle(3)
	if c, dirty := p.dirty(4096); !dirty || c.at.offset != 9 {
		t.Errorf("then commits %v %v, want 9", c, dirty)
	}
}

// the client puts errors behind records, also that of the cut which the records come after.
func TestACutThatComesWithItsFirstRecordsDoesNotCommitPastThem(t *testing.T) {
	began := make(chan int64, 100)
	r, tp := lone(t, func(_ context.Context, m *stepwell.Message, _ Ticket) Outcome {
		began <- m.Origin.Offset
		if len(m.Key) > 0 {
			return Pending // its failure is not confirmed yet
		}
		return Settled
	})
	r.workers.Go(r.crew.watch)
	r.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {0}})
	r.lookup(tp).begin(position{0, 0}, false)
	fetch := func(f kgo.FetchPartition) kgo.Fetch {
		return kgo.Fetch{Topics: []kgo.FetchTopic{{Topic: tp.topic, TopicID: [16]byte{1}, Partitions: []kgo.FetchPartition{f}}}}
	}
	r.distribute(nil, kgo.Fetches{fetch(*records(0, 100))})
	for range 100 {
		<-began
	}
	within(t, 2*time.Second, "all is settled", func() bool { c, _ := r.lookup(tp).dirty(4096); return c.at.offset == 100 })

	first := records(50, 51)
	first.Records[0].Key = []byte("pending")
	got := r.distribute(nil, kgo.Fetches{fetch(*first), fetch(kgo.FetchPartition{Err: &kgo.ErrDataLoss{Topic: tp.topic, ConsumedTo: 100, ResetTo: 50}})})
	got.add(r.distribute(nil, kgo.Fetches{fetch(*records(51, 60))}))
	if got.records != 10 {
		t.Errorf("%d records were taken, want 10", got.records)
	}
	for range 10 {
		<-began
	}
	p := r.lookup(tp)
	within(t, 2*time.Second, "what follows is settled", func() bool { return p.knows(59) })
	if c, dirty := p.dirty(4096); dirty && c.at.offset > 50 {
		t.Errorf("commits %d (%q) while 50 is still pending", c.at.offset, c.metadata)
	}
}

// a line that is never empty.
func TestALineThatIsNeverEmptyDoesNotGrow(t *testing.T) {
	s := newSchedule()
	s.Add(task{offset: 0, key: 1})
	cur, _ := s.Next()
	s.Add(task{offset: 1, key: 1})
	s.Next()
	for o := int64(2); o < 200_000; o++ {
		s.Add(task{offset: o, key: 1})
		s.Next()
		next, ok := s.Done(cur)
		if !ok || next.offset != o-1 {
			t.Fatal(next, ok)
		}
		cur = next
	}
	if l := s.busy[1]; cap(l.tasks) > 10_000 {
		t.Errorf("one task waits in a line of capacity %d", cap(l.tasks))
	}
}

// metadata after part of a restored span is read.
func TestMetadataStaysReadableInTheMiddleOfARestoredSpan(t *testing.T) {
	r, tp := lone(t, nil2)
	r.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {0}})
	p := r.lookup(tp)
	p.restored(100, writeTold(100, told{}, slices.Values([]span{{101, 200}, {300, 400}}), 4096))
	p.begin(position{100, 0}, false)
	r.receive(tp, records(100, 150), [16]byte{1})
	within(t, 2*time.Second, "100 is settled", func() bool { c, _ := p.dirty(4096); return c.at.offset == 150 })
	c, _ := p.dirty(4096)
	got := readTold(c.at.offset, c.metadata).spans
	if len(got) == 0 || got[len(got)-1] != (span{300, 400}) {
		t.Errorf("commit at %d, metadata %q says %v", c.at.offset, c.metadata, got)
	}
}

// forget after recall.
func TestForgetAlsoForgetsWhatWasRecalled(t *testing.T) {
	got := make(chan int64, 100)
	r, tp := lone(t, func(_ context.Context, m *stepwell.Message, tk Ticket) Outcome {
		got <- m.Origin.Offset
		if m.Origin.Offset == 0 {
			return Pending
		}
		return Settled
	})
	ours := map[string][]int32{tp.topic: {0}}
	r.onAssigned(t.Context(), new(kgo.Client), ours)
	r.lookup(tp).begin(position{0, 0}, false)
	r.receive(tp, records(0, 20), [16]byte{1})
	for range 20 {
		<-got
	}
	within(t, 2*time.Second, "all but the pending one are settled", func() bool { r.flushAll(); return r.load.records.Load() == 1 })
	r.onLost(t.Context(), nil, ours)
	r.onAssigned(t.Context(), new(kgo.Client), ours)
	p := r.lookup(tp)
	p.begin(position{0, 0}, false)
	r.receive(tp, records(0, 5), [16]byte{1})
	<-got // 0 again
	// 5 and 6 were control records.
	_ = r.trouble(nil, tp, &kgo.ErrDataLoss{Topic: tp.topic, ConsumedTo: 7, ResetTo: 5})
	r.receive(tp, records(5, 8), [16]byte{1})
	done := make(chan struct{})
	go func() { <-got; close(done) }()
	p.mustBe(t, done, "new records after a cut are passed over as settled")
	select {
	case got <- 0:
	default:
	}
}

// epochs gives records from an offset on a leader epoch.
func epochs(f *kgo.FetchPartition, from int64, epoch int32) *kgo.FetchPartition {
	for _, r := range f.Records {
		if r.Offset >= from {
			r.LeaderEpoch = epoch
		}
	}
	return f
}

func TestRecordsOfANewerEpochAreNotThoseThatWereSettled(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, r *Reader, tp topicPartition){
		"by the owner before us": func(_ *testing.T, r *Reader, tp topicPartition) {
			r.onAssigned(context.Background(), new(kgo.Client), map[string][]int32{tp.topic: {0}})
			r.lookup(tp).restored(0, writeTold(0, told{epoch: 1}, slices.Values([]span{{3, 10}}), 4096))
		},
		"when the partition was ours before": func(t *testing.T, r *Reader, tp topicPartition) {
			ours := map[string][]int32{tp.topic: {0}}
			r.onAssigned(context.Background(), new(kgo.Client), ours)
			r.lookup(tp).begin(position{0, 1}, false)
			r.receive(tp, epochs(records(0, 10), 0, 1), [16]byte{1})
			within(t, 2*time.Second, "all but the pending ones are settled", func() bool { r.flushAll(); return r.load.records.Load() == 3 })
			r.onLost(context.Background(), nil, ours)
			r.onAssigned(context.Background(), new(kgo.Client), ours)
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJournal()
			r, tp := lone(t, func(_ context.Context, m *stepwell.Message, _ Ticket) Outcome {
				j.note(m)
				if m.Origin.Offset < 3 {
					return Pending
				}
				return Settled
			})
			before(t, r, tp)
			p := r.lookup(tp)
			p.begin(position{0, 1}, false)
			handled := j.count()
			// While nobody of us had the partition the log was cut at 5, by an unclean election, and has grown again.
			r.receive(tp, epochs(epochs(records(0, 10), 0, 1), 5, 2), [16]byte{1})
			within(t, 2*time.Second, "what is new is handled", func() bool { return j.count() >= handled+8 })
			if got := j.of(0)[handled:]; !slices.Equal(got, []int64{0, 1, 2, 5, 6, 7, 8, 9}) {
				t.Errorf("handled %v, want those before 3, which were not settled, and from 5 on", got)
			}
		})
	}
}
