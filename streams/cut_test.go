package streams

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/task"
)

func (p *partition) mustBe(t *testing.T, done chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(2 * time.Second):
		t.Error(what)
	}
}

func TestALogThatIsCutInAPauseIsReadOnAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		r, tp := lone(t, j.settleAll)
		r.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {0}})
		r.parts.lookup(tp).begin(ledger.At(0, 0), false)
		r.Pause()
		r.fetched(tp, records(0, 10), nil)
		old := r.parts.lookup(tp)
		synctest.Wait() // a worker looked and found the pause
		r.wasCut(tp, 5)
		r.fetched(tp, records(0, 8), nil)
		r.Resume()
		old.mustBe(t, old.done, "what the cut ended never comes to its end")
		within(t, 2*time.Second, "what is left is handled", func() bool { return slices.Equal(j.of(0), []int64{0, 1, 2, 3, 4, 5, 6, 7}) })
	})
}

func TestACutBeginsAnewAtTheFirstRecordThatIsNotSettledBeforeIt(t *testing.T) {
	for name, cut := range map[string]func(r *Reader, tp topicPartition){
		"as the client says": func(r *Reader, tp topicPartition) {
			first := records(8, 9) // read after the cut: they come with its error, and again
			r.fetched(tp, first, &kgo.ErrDataLoss{Topic: tp.topic, ConsumedTo: 10, ResetTo: 8})
		},
		"as the records show": func(r *Reader, tp topicPartition) { r.fetched(tp, records(8, 9), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			j := newJournal()
			tickets := make(chan task.Ticket, 100)
			r, tp := lone(t, func(_ context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
				j.note(m)
				if m.Origin.Offset == 3 {
					tickets <- tk
					return task.Pending // its failure is not confirmed yet
				}
				return task.Settled
			})
			r.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {0}})
			r.parts.lookup(tp).begin(ledger.At(0, 0), false)
			r.fetched(tp, records(0, 10), nil)
			within(t, 2*time.Second, "all are called", func() bool { return j.count() == 10 })
			cut(r, tp)
			p := r.parts.lookup(tp)
			if at := p.position(); at != 3 {
				t.Fatalf("goes on at %d, want the first that is not settled", at)
			}
			if c, dirty := p.dirty(4096); !dirty || c.At.Offset != 3 {
				t.Errorf("commits %v %v, want 3", c, dirty)
			}
			(<-tickets).Settle() // that of before the cut
			if c, _ := p.dirty(4096); c.At.Offset != 3 {
				t.Errorf("commits %v by a ticket of before the cut", c)
			}
			r.fetched(tp, records(3, 9), nil)
			within(t, 2*time.Second, "they are called", func() bool { return slices.Equal(j.of(0)[10:], []int64{3, 4, 5, 6, 7, 8}) })
			(<-tickets).Settle()
			within(t, 2*time.Second, "all is settled", func() bool { c, _ := p.dirty(4096); return c.At.Offset == 9 })
		})
	}
}

func TestWhereverALogIsCutItGetsAnotherNumberAndRecordsThatAreSkippedAreCounted(t *testing.T) {
	for name, test := range map[string]struct{ read, resetTo, lost, goesOn int64 }{
		"behind what was read":           {10, 13, 3, 13},
		"at the end of what was read":    {10, 10, 0, 10},
		"within what was read":           {10, 4, 0, 4},
		"before a first record was read": {0, 7, 7, 7},
		"before its commit is known":     {-1, 7, 0, -1},
	} {
		t.Run(name, func(t *testing.T) {
			var c counter
			var log logbook
			r, tp := lone(t, func(context.Context, *stepwell.Message, task.Ticket) task.Outcome { return task.Settled })
			r.cfg.Telemetry, r.log = &c, log.logger()
			r.cfg.Numbered = func(string, int32, uint32) {}
			r.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {0}})
			p := r.parts.lookup(tp)
			if test.read >= 0 {
				p.begin(ledger.At(0, 0), false)
				r.fetched(tp, records(0, test.read), nil)
				within(t, 2*time.Second, "all are settled", func() bool { c, _ := p.dirty(4096); return c.At.Offset == test.read })
			}
			before := numberOf(p)
			r.wasCut(tp, test.resetTo)
			if now := numberOf(r.parts.lookup(tp)); before == 0 || now == 0 || now == before {
				t.Errorf("the log's number is %d, and was %d", now, before)
			}
			if lost := c.lost.Load(); lost != test.lost {
				t.Errorf("%d are lost, want %d", lost, test.lost)
			}
			if told := log.count("level=ERROR", "records were deleted") > 0; told != (test.lost > 0) {
				t.Errorf("the log tells of a loss: %v", told)
			}
			if anew := r.parts.lookup(tp) != p; anew != (test.goesOn < test.read) && test.read >= 0 {
				t.Errorf("it begins anew: %v", anew)
			}
			if at := r.parts.lookup(tp).position(); at != test.goesOn {
				t.Errorf("it goes on at %d, want %d", at, test.goesOn)
			}
		})
	}
}

func TestAfterACutTheClientReadsAgainWhatIsNotSettledWhoeverReadsThePartition(t *testing.T) {
	t.Parallel()
	each(t, 2, func(t *testing.T, w *world) {
		w.produce(0, 100)
		w.produce(1, 100)
		j := newJournal()
		causes := make(chan error, 2)
		var waited sync.Map
		cfg := w.config()
		cfg.Kafka.Fetchers, cfg.Calls.Order = 2, OrderNone
		r := w.run(cfg, func(ctx context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
			if m.Origin.Offset == 0 {
				if _, again := waited.LoadOrStore(m.Origin.Partition, true); !again {
					<-ctx.Done()
					causes <- context.Cause(ctx)
					return task.Abandoned
				}
			}
			j.note(m)
			return task.Settled
		})
		eventually(t, "all but the first ones are handled", func() bool { return j.count() == 198 })
		for id := range int32(2) {
			tp := topicPartition{w.topic, id}
			f := r.parts.lookup(tp).fetcher
			if f.member == r.parts.lookup(topicPartition{w.topic, 1 - id}).fetcher.member {
				t.Fatal("one fetcher reads both")
			}
			r.gate.poll(t.Context(), func(context.Context) {
				r.intake.distribute(f, kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: tp.topic, Partitions: []kgo.FetchPartition{
					{Partition: id, Err: &kgo.ErrDataLoss{Topic: tp.topic, Partition: id, ConsumedTo: 100, ResetTo: 50}},
				}}}}})
			})
			if cause := <-causes; !errors.Is(cause, ErrLost) {
				t.Errorf("the call was cancelled by %v", cause)
			}
		}
		eventually(t, "all is handled from the first one on", func() bool { return j.count() == 398 })
		eventually(t, "that is committed", func() bool { return w.committed()[0] == 100 && w.committed()[1] == 100 })
	})
}

// the client puts errors behind records, also that of the cut which the records come after.
func TestACutThatComesWithItsFirstRecordsDoesNotCommitPastThem(t *testing.T) {
	began := make(chan int64, 100)
	r, tp := lone(t, func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		began <- m.Origin.Offset
		if len(m.Key) > 0 {
			return task.Pending // its failure is not confirmed yet
		}
		return task.Settled
	})
	r.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {0}})
	r.parts.lookup(tp).begin(ledger.At(0, 0), false)
	r.fetched(tp, records(0, 100), nil)
	for range 100 {
		<-began
	}
	within(t, 2*time.Second, "all is settled", func() bool { c, _ := r.parts.lookup(tp).dirty(4096); return c.At.Offset == 100 })

	fetch := func(f kgo.FetchPartition) kgo.Fetch {
		return kgo.Fetch{Topics: []kgo.FetchTopic{{Topic: tp.topic, TopicID: [16]byte{1}, Partitions: []kgo.FetchPartition{f}}}}
	}
	first := func() *kgo.FetchPartition {
		f := records(50, 51)
		f.Records[0].Key = []byte("pending")
		return f
	}
	r.intake.distribute(r.clients.all[0], kgo.Fetches{fetch(*first()), fetch(kgo.FetchPartition{Err: &kgo.ErrDataLoss{Topic: tp.topic, ConsumedTo: 100, ResetTo: 50}})})
	got := r.fetched(tp, first(), nil) // again: the reader goes back there
	got.add(r.fetched(tp, records(51, 60), nil))
	if got.records != 10 {
		t.Errorf("%d records were taken, want 10", got.records)
	}
	for range 10 {
		<-began
	}
	p := r.parts.lookup(tp)
	within(t, 2*time.Second, "what follows is settled", func() bool { p.mu.Lock(); defer p.mu.Unlock(); p.roster.Flush(); return p.ledger.Settled(59) })
	if c, dirty := p.dirty(4096); dirty && c.At.Offset > 50 {
		t.Errorf("commits %d (%q) while 50 is still pending", c.At.Offset, c.Metadata)
	}
}

// metadata after part of a restored span is read.
func TestMetadataStaysReadableInTheMiddleOfARestoredSpan(t *testing.T) {
	r, tp := lone(t, func(context.Context, *stepwell.Message, task.Ticket) task.Outcome { return task.Settled })
	r.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {0}})
	p := r.parts.lookup(tp)
	p.restored(100, ledger.WriteMetadata(100, ledger.Metadata{}, slices.Values([]ledger.Span{{First: 101, End: 200}, {First: 300, End: 400}}), 4096))
	p.begin(ledger.At(100, 0), false)
	r.fetched(tp, records(100, 150), nil)
	within(t, 2*time.Second, "100 is settled", func() bool { c, _ := p.dirty(4096); return c.At.Offset == 200 })
	c, _ := p.dirty(4096)
	got := ledger.ReadMetadata(c.At.Offset, c.Metadata).Spans
	if !slices.Equal(got, []ledger.Span{{First: 300, End: 400}}) {
		t.Errorf("commit at %d, metadata %q says %v", c.At.Offset, c.Metadata, got)
	}
}

func TestACutEndsWhatTheCommitSaidOfTheOffsetsBehindIt(t *testing.T) {
	j := newJournal()
	r, tp := lone(t, j.settleAll)
	r.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {0}})
	p := r.parts.lookup(tp)
	p.restored(0, ledger.WriteMetadata(0, ledger.Metadata{}, slices.Values([]ledger.Span{{First: 3, End: 10}}), 4096))
	p.begin(ledger.At(0, 0), false)
	r.fetched(tp, records(0, 5), nil)
	within(t, 2*time.Second, "those before 3 are handled", func() bool { return j.count() == 3 })
	r.wasCut(tp, 5)
	r.fetched(tp, records(5, 8), nil)
	within(t, 2*time.Second, "what is new is handled", func() bool { return j.count() == 6 })
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
	j := newJournal()
	r, tp := lone(t, func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		j.note(m)
		if m.Origin.Offset < 3 {
			return task.Pending
		}
		return task.Settled
	})
	r.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {0}})
	p := r.parts.lookup(tp)
	p.restored(0, ledger.WriteMetadata(0, ledger.Metadata{Epoch: 1}, slices.Values([]ledger.Span{{First: 3, End: 10}}), 4096))
	p.begin(ledger.At(0, 1), false)
	// While nobody of us had the partition the log was cut at 5, by an unclean election, and has
	// grown again.
	r.fetched(tp, epochs(epochs(records(0, 10), 0, 1), 5, 2), nil)
	within(t, 2*time.Second, "what is new is handled", func() bool { return j.count() >= 8 })
	if got := j.of(0); !slices.Equal(got, []int64{0, 1, 2, 5, 6, 7, 8, 9}) {
		t.Errorf("handled %v, want those before 3, which were not settled, and from 5 on", got)
	}
}
