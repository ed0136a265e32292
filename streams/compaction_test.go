package streams

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// compact has Kafka compact the topic as soon as it can. Tombstones stay: they would be gone with
// one of the next rounds, nobody knows when.
func (w *world) compact() {
	w.t.Helper()
	set := func(name, value string) kadm.AlterConfig { return kadm.AlterConfig{Name: name, Value: &value} }
	answers, err := w.admin.AlterTopicConfigs(w.t.Context(), []kadm.AlterConfig{
		set("cleanup.policy", "compact"), set("segment.ms", "100"), set("min.cleanable.dirty.ratio", "0.001"), set("delete.retention.ms", "86400000"),
	}, w.topic)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, answer := range answers {
		if answer.Err != nil {
			w.t.Fatal(answer.Name, answer.Err, answer.ErrMessage)
		}
	}
}

// left is which offsets of partition 0 have a record, up to the end of the log.
func (w *world) left(end int64) (offsets []int64) {
	w.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.seeds...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{w.topic: {0: kgo.NewOffset().At(0)}}))
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	for len(offsets) == 0 || offsets[len(offsets)-1] != end-1 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			w.t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { offsets = append(offsets, r.Offset) })
	}
	return offsets
}

func TestWhatCompactionHasTakenIsNeitherLostNorWaitedFor(t *testing.T) {
	t.Parallel()
	w := realWorld(t, 1)
	w.compact()
	value := func(key, n int) *kgo.Record {
		return &kgo.Record{Key: fmt.Appendf(nil, "key-%d", key), Value: fmt.Appendf(nil, "%d", n)}
	}
	for n := range 100 {
		w.send(value(n%10, n))
	}
	j := newJournal()
	r := w.run(w.config(), j.settleAll)
	eventually(t, "the first hundred are committed", func() bool { return w.committed()[0] == 100 })
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	// The offset that is committed, and most behind it, will be gone.
	for n := 100; n < 1000; n++ {
		w.send(value(n%10, n))
	}
	for key := range 5 {
		w.send(&kgo.Record{Key: fmt.Appendf(nil, "key-%d", key)}) // a tombstone
	}
	// The segment that is written to is left alone: each of these ends one, and begins the next.
	end := int64(1005)
	var left []int64
	var sent time.Time
	within(t, 2*time.Minute, "the log is compacted", func() bool {
		if time.Since(sent) > 2*time.Second {
			w.send(value(10, int(end)))
			sent, end = time.Now(), end+1
		}
		// Of the last key the newest in the segment that is written to, and in those before it.
		left = w.left(end)
		return left[0] == 995 && len(left) <= 12
	})
	t.Logf("of %d records %d are left, from %d on", end, len(left), left[0])

	for name, group := range map[string]string{"from a commit whose record is gone": w.group, "from the earliest": w.group + "-2"} {
		t.Run(name, func(t *testing.T) {
			c, j := &counter{}, newJournal()
			cfg := w.config()
			cfg.Group.ID = group
			cfg.Telemetry = c
			r := w.run(cfg, j.settleAll)
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("handled are %v, and %+v", j.of(0), r.Status())
				}
			})
			eventually(t, "all that is left is handled", func() bool { return j.count() >= len(left) })
			eventually(t, "no lag", func() bool { return r.Status().Lag == 0 })
			if got := j.of(0); !slices.Equal(got, left) {
				t.Errorf("calls of %v, not of %v", got, left)
			}
			if c.lost.Load() != 0 || c.duplicates.Load() != 0 || c.consumed.Load() != int64(len(left)) {
				t.Errorf("%d consumed, %d lost, %d duplicates", c.consumed.Load(), c.lost.Load(), c.duplicates.Load())
			}
			if s := r.Status(); s.InFlight != 0 || s.Span != 0 {
				t.Errorf("in flight: %+v", s)
			}
			if err := r.end(); err != nil {
				t.Error(err)
			}
			if at := (&world{t: t, topic: w.topic, group: group, admin: w.admin}).committed()[0]; at != end {
				t.Errorf("committed at %d, the log ends at %d", at, end)
			}
		})
	}
}
