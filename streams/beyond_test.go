package streams

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"pgregory.net/rapid"

	"github.com/stepwell/stepwell"
)

func TestMetadataSaysWhatIsSettledBeyondTheCommitAsFarAsItFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offset := rapid.Int64Range(0, 1<<40).Draw(t, "offset")
		var spans []span
		at := offset
		for range rapid.IntRange(0, 3000).Draw(t, "spans") {
			first := at + rapid.Int64Range(1, 300).Draw(t, "gap")
			at = first + rapid.Int64Range(1, 300).Draw(t, "run")
			spans = append(spans, span{first, at})
		}
		limit := rapid.IntRange(64, beyondLimit).Draw(t, "limit")
		said := told{topic: rapid.Uint32().Draw(t, "topic"), epoch: rapid.Int32Range(-1, 1<<30).Draw(t, "epoch")}
		text := writeTold(offset, said, slices.Values(spans), limit)
		if len(text) > limit {
			t.Fatalf("%d bytes, %d are the limit", len(text), limit)
		}
		read := readTold(offset, text)
		got := read.spans
		if len(got) > 0 && (read.epoch != said.epoch || read.topic != said.topic || read.mark != nil) {
			t.Fatalf("%+v, want %+v", read, said)
		}
		elsewhere := offset + rapid.Int64Range(-offset, 1<<40).Filter(func(n int64) bool { return n != 0 }).Draw(t, "moved")
		if moved := readTold(elsewhere, text); len(moved.spans) > 0 || moved.mark != nil {
			t.Fatalf("at another offset it says %+v", moved)
		}
		if len(got) > len(spans) || !slices.Equal(got, spans[:len(got)]) {
			t.Fatalf("read %v of %v", got, spans)
		}
		if len(got) < len(spans) && len(text) < limit-20 {
			t.Fatalf("only %d of %d in %d bytes", len(got), len(spans), len(text))
		}
	})
}

func FuzzMetadataOfOthersSaysNothingWrong(f *testing.F) {
	f.Add(int64(5), "")
	f.Add(int64(5), "consumer-1-uuid")
	f.Add(int64(5), beyondMark+"AQI")
	f.Add(int64(1)<<62, beyondMark+"//////////8B")
	f.Add(int64(5), beyondMark+"BQABBwoDFAECAQAB")
	f.Fuzz(func(t *testing.T, offset int64, text string) {
		last := offset
		said := readTold(offset, text)
		spans, m := said.spans, markOf(said)
		if !reflect.DeepEqual(m, noMark()) && !reflect.DeepEqual(readMark(offset, appendMark(nil, offset, m)), m) {
			t.Fatalf("the mark %+v is not one that is written", m)
		}
		for _, s := range spans {
			if s.first <= last || s.end <= s.first {
				t.Fatalf("%v after %d", s, last)
			}
			last = s.end
		}
	})
}

func TestWhatWasDoneBeyondAGapIsNotRunAgainByTheNextOwner(t *testing.T) {
	t.Parallel()
	each(t, 1, func(t *testing.T, w *world) {
		w.produce(0, 300)
		first := newJournal()
		stuck := func(ctx context.Context, m *stepwell.Message, _ Ticket) Outcome {
			if o := m.Origin.Offset; o == 100 || o == 200 {
				<-ctx.Done()
				return Abandoned
			}
			first.note(m)
			return Settled
		}
		r := w.run(w.byKey(), stuck)
		eventually(t, "all but two are done", func() bool { return first.count() == 298 })
		eventually(t, "that is committed", func() bool { return w.committed()[0] == 100 && strings.HasPrefix(w.metadata(0), beyondMark) })
		eventually(t, "with all that is beyond", func() bool {
			return len(readTold(100, w.metadata(0)).spans) == 2
		})
		r.kill(nil)
		<-r.done

		heir := newJournal()
		c := &counter{}
		cfg := w.byKey()
		cfg.Telemetry = c
		second := w.run(cfg, heir.settleAll)
		eventually(t, "all is committed", func() bool { return w.committed()[0] == 300 })
		if got := heir.of(0); !slices.Equal(got, []int64{100, 200}) || c.duplicates.Load() != 198 {
			t.Errorf("handled %v and passed over %d, want the two that were stuck", got, c.duplicates.Load())
		}
		if err := second.end(); err != nil {
			t.Fatal(err)
		}

		// An operator goes back: everything is wanted again.
		w.commit(0, 50)
		again := newJournal()
		w.run(w.byKey(), again.settleAll)
		eventually(t, "what comes after is handled again", func() bool { return again.count() == 250 })
	})
}

func TestMetadataOfAnotherOffsetOrTopicIsNotBelieved(t *testing.T) {
	t.Parallel()
	each(t, 1, func(t *testing.T, w *world) {
		w.produce(0, 100)
		first := newJournal()
		release := make(chan struct{})
		r := w.run(w.byKey(), func(ctx context.Context, m *stepwell.Message, _ Ticket) Outcome {
			if m.Origin.Offset == 3 {
				select {
				case <-release:
				case <-ctx.Done():
				}
				return Abandoned
			}
			first.note(m)
			return Settled
		})
		eventually(t, "all but one are done", func() bool { return first.count() == 99 })
		eventually(t, "that is committed", func() bool {
			said := readTold(3, w.metadata(0))
			return w.committed()[0] == 3 && slices.Equal(said.spans, []span{{4, 100}}) && said.topic != 0
		})
		close(release)
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		said := w.metadata(0)
		for name, test := range map[string]struct {
			offset   int64
			metadata string
		}{
			"a tool moved the offset and kept the metadata": {2, said},
			"it was copied from a group of another topic":   {3, writeTold(3, told{topic: 1, epoch: 1 << 30}, slices.Values([]span{{4, 100}}), 4096)},
		} {
			w.commitWith(0, test.offset, test.metadata)
			heir := newJournal()
			second := w.run(w.byKey(), heir.settleAll)
			eventually(t, name+": all is handled", func() bool { return int64(heir.count()) == 100-test.offset })
			if err := second.end(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestABrokerThatTakesLessMetadataGetsLess(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	w.produce(0, 4000)
	var refused atomic.Int32
	w.refuseMetadataOver(1000, &refused)
	release := make(chan struct{})
	w.run(w.byKey(), func(ctx context.Context, m *stepwell.Message, tk Ticket) Outcome {
		if m.Origin.Offset%2 == 0 { // as many gaps as there can be
			context.AfterFunc(ctx, func() {})
			go func() { <-release; tk.Settle() }()
			return Pending
		}
		return Settled
	})
	eventually(t, "too much was refused", func() bool { return refused.Load() > 0 })
	eventually(t, "less is taken", func() bool { return len(w.metadata(0)) > 400 })
	close(release)
	eventually(t, "all is committed", func() bool { return w.committed()[0] == 4000 })
}

// metadata is that of the group's commit of a partition.
func (w *world) metadata(partition int32) string {
	w.t.Helper()
	all, err := w.admin.FetchOffsets(w.t.Context(), w.group)
	if err != nil {
		w.t.Fatal(err)
	}
	o, _ := all.Lookup(w.topic, partition)
	return o.Metadata
}

// commit is what an operator does while no member runs.
func (w *world) commit(partition int32, offset int64) {
	w.t.Helper()
	w.commitWith(partition, offset, "")
}

func (w *world) commitWith(partition int32, offset int64, metadata string) {
	w.t.Helper()
	eventually(w.t, "the group has no members", func() bool {
		groups, err := w.admin.DescribeGroups(w.t.Context(), w.group)
		return err == nil && (groups[w.group].State == "Empty" || groups[w.group].State == "Dead")
	})
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: w.topic, Partition: partition, At: offset, LeaderEpoch: -1, Metadata: metadata})
	if err := w.admin.CommitAllOffsets(w.t.Context(), w.group, offsets); err != nil {
		w.t.Fatal(err)
	}
}
