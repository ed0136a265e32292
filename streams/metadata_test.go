package streams

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/task"
)

func TestWhatWasDoneBeyondAGapIsNotRunAgainByTheNextOwner(t *testing.T) {
	t.Parallel()
	each(t, 1, func(t *testing.T, w *world) {
		w.produce(0, 300)
		first := newJournal()
		stuck := func(ctx context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
			if o := m.Origin.Offset; o == 100 || o == 200 {
				<-ctx.Done()
				return task.Abandoned
			}
			first.note(m)
			return task.Settled
		}
		r := w.run(w.byKey(), stuck)
		eventually(t, "all but two are done", func() bool { return first.count() == 298 })
		eventually(t, "that is committed", func() bool { return w.committed()[0] == 100 && strings.HasPrefix(w.metadata(), ledger.Prefix) })
		eventually(t, "with all that is beyond", func() bool {
			return len(ledger.ReadMetadata(100, w.metadata()).Spans) == 2
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
		r := w.run(w.byKey(), func(ctx context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
			if m.Origin.Offset == 3 {
				select {
				case <-release:
				case <-ctx.Done():
				}
				return task.Abandoned
			}
			first.note(m)
			return task.Settled
		})
		eventually(t, "all but one are done", func() bool { return first.count() == 99 })
		eventually(t, "that is committed", func() bool {
			said := ledger.ReadMetadata(3, w.metadata())
			return w.committed()[0] == 3 && slices.Equal(said.Spans, []ledger.Span{{First: 4, End: 100}}) && said.Topic != 0
		})
		close(release)
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		said := w.metadata()
		for name, test := range map[string]struct {
			offset   int64
			metadata string
		}{
			"a tool moved the offset and kept the metadata": {2, said},
			"it was copied from a group of another topic":   {3, ledger.WriteMetadata(3, ledger.Metadata{Topic: 1, Epoch: 1 << 30}, slices.Values([]ledger.Span{{First: 4, End: 100}}), 4096)},
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
	w.run(w.byKey(), func(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
		if m.Origin.Offset%2 == 0 { // as many gaps as there can be
			context.AfterFunc(ctx, func() {})
			go func() { <-release; tk.Settle() }()
			return task.Pending
		}
		return task.Settled
	})
	eventually(t, "too much was refused", func() bool { return refused.Load() > 0 })
	eventually(t, "less is taken", func() bool { return len(w.metadata()) > 400 })
	close(release)
	eventually(t, "all is committed", func() bool { return w.committed()[0] == 4000 })
}

func TestAStopWhoseMetadataTheBrokerRefusesCommitsWhatItTakes(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	const all, limit = 1200, 20 // which is a few halves of what may be sent
	w.produce(0, all)
	var settled atomic.Int64
	last := make(chan struct{})
	cfg := w.byKey()
	cfg.Group.LeaveTimeout = 30 * time.Second
	r := w.run(cfg, func(_ context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
		switch {
		case m.Origin.Offset == all-1:
			<-last
		case m.Origin.Offset%2 == 0: // as many gaps as there can be, until it is over
			w.t.Cleanup(tk.Settle)
			return task.Pending
		}
		settled.Add(1)
		return task.Settled
	})
	eventually(t, "all but the last are settled, and committed", func() bool {
		return settled.Load() == all/2-1 && len(w.metadata()) > 1000
	})
	var refused atomic.Int32
	w.refuseMetadataOver(limit, &refused)
	close(last)
	r.stop()
	eventually(t, "the last is settled", func() bool { return settled.Load() == all/2 })
	r.kill(ErrShutdown) // what is pending is not waited for
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if n := len(w.metadata()); refused.Load() == 0 || n > limit {
		t.Errorf("%d commits were refused, and the last has %d bytes of metadata, want at most %d", refused.Load(), n, limit)
	}
}

// There may be no next commit: partitions that go to another process are committed once.
func TestACommitOfWhichTheBrokerTakesNoMetadataIsSentWithLessAtOnce(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	w.produce(0, 100)
	var settled atomic.Int64
	last := make(chan struct{})
	r := w.run(w.byKey(), func(_ context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
		switch {
		case m.Origin.Offset == 99:
			<-last
		case m.Origin.Offset%2 == 0:
			w.t.Cleanup(tk.Settle)
			return task.Pending
		}
		settled.Add(1)
		return task.Settled
	})
	eventually(t, "all but the last are settled, and committed", func() bool { return settled.Load() == 49 && len(w.metadata()) > 20 })
	var refused atomic.Int32
	r.commits.turn <- struct{}{}
	w.refuseMetadataOver(20, &refused)
	close(last)
	eventually(t, "the last is settled", func() bool { return settled.Load() == 50 })
	<-r.commits.turn
	if all := r.commits.commit(t.Context(), r.parts.all()); !all || refused.Load() == 0 || len(w.metadata()) > 20 {
		t.Errorf("%d commits were refused, the last has %d bytes of metadata, and all is committed: %t", refused.Load(), len(w.metadata()), all)
	}
	r.kill(ErrShutdown)
}

// metadata is that of the group's commit of the first partition.
func (w *world) metadata() string {
	w.t.Helper()
	all, err := w.admin.FetchOffsets(w.t.Context(), w.group)
	if err != nil {
		w.t.Fatal(err)
	}
	o, _ := all.Lookup(w.topic, 0)
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
