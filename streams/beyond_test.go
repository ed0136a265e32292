package streams

import (
	"context"
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
		epoch := rapid.Int32Range(-1, 1<<30).Draw(t, "epoch")
		text := writeBeyond(offset, epoch, nil, slices.Values(spans), limit)
		if len(text) > limit {
			t.Fatalf("%d bytes, %d are the limit", len(text), limit)
		}
		got, of, _ := readBeyond(offset, text)
		if len(got) > 0 && of != epoch {
			t.Fatalf("epoch %d, want %d", of, epoch)
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
	f.Add(int64(5), crashMark+"BwoDFAECAQ")
	f.Fuzz(func(t *testing.T, offset int64, text string) {
		last := offset
		spans, _, m := readBeyond(offset, text)
		if m != noMark() && readMark(offset, appendMark(nil, offset, m)) != m {
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
			spans, _, _ := readBeyond(100, w.metadata(0))
			return len(spans) == 2
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
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: w.topic, Partition: partition, At: offset, LeaderEpoch: -1})
	if err := w.admin.CommitAllOffsets(w.t.Context(), w.group, offsets); err != nil {
		w.t.Fatal(err)
	}
}
