package streams

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
)

func TestOfTwoRecordsTheOneThatIsFirstForLongerHoldsTheWindow(t *testing.T) {
	now := time.Now()
	inOrder := []Oldest{
		{Topic: "b", Partition: 7, Offset: 900, Since: now},
		{Topic: "a", Partition: 1, Offset: 5, Since: now.Add(1), Behind: 9},
		{Topic: "a", Partition: 2, Offset: 4, Since: now.Add(1)}, // at the same time: as they are named
		{Topic: "b", Partition: 0, Offset: 3, Since: now.Add(1)},
	}
	for i, a := range inOrder {
		for j, b := range inOrder {
			if a.before(b) != (i < j) {
				t.Errorf("%+v before %+v: %v", a, b, a.before(b))
			}
		}
	}
}

// holds waits until the status names that record with so many behind it, and returns since when.
func (r *running) holds(partition int32, offset int64, behind int) (since time.Time) {
	r.t.Helper()
	var o *Oldest
	defer func() { r.t.Logf("oldest: %+v", o) }()
	eventually(r.t, "the status names the record that holds the window", func() bool {
		o = r.Status().Oldest
		return o != nil && o.Topic == r.cfg.Topics[0] && o.Partition == partition && o.Offset == offset && o.Behind == behind
	})
	return o.Since
}

func TestTheStatusNamesTheRecordThatHoldsTheWindow(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 2)
	began := time.Now()
	release := map[string]chan struct{}{"slow": make(chan struct{}), "slower": make(chan struct{})}
	j := newJournal()
	r := w.run(w.byKey(), func(ctx context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		if blocked := release[string(m.Key)]; blocked != nil {
			select {
			case <-blocked:
			case <-ctx.Done():
				return task.Abandoned
			}
		}
		j.note(m)
		return task.Settled
	})
	w.produce(0, 20)
	w.produce(1, 3)
	eventually(t, "all is settled, and nothing holds the window", func() bool { return j.count() == 23 && r.Status().Oldest == nil })

	w.send(&kgo.Record{Partition: 1, Key: []byte("slow")})
	w.produce(1, 6)
	since := r.holds(1, 3, 6)
	if since.Before(began) || since.After(time.Now()) {
		t.Errorf("since %v, want a time of this test, which began at %v", since, began)
	}
	w.send(&kgo.Record{Partition: 0, Key: []byte("slower")})
	w.produce(0, 50)
	eventually(t, "all others are handled", func() bool { return j.count() == 23+6+50 })
	w.produce(1, 4)
	if still := r.holds(1, 3, 10); !still.Equal(since) {
		t.Errorf("the same record is the oldest since %v, and was since %v", still, since)
	}
	close(release["slow"])
	if next := r.holds(0, 20, 50); !next.After(since) {
		t.Errorf("the one after it is the oldest since %v, and the one before was since %v", next, since)
	}
	close(release["slower"])
	eventually(t, "nothing holds the window", func() bool { return r.Status().Oldest == nil })
}

func TestTheCommitterNotesTheOldestAlsoWhereNobodyAsks(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	w.produce(0, 5)
	release := make(chan struct{})
	r := w.run(w.config(), func(ctx context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		if m.Origin.Offset == 2 {
			select {
			case <-release:
			case <-ctx.Done():
				return task.Abandoned
			}
		}
		return task.Settled
	})
	eventually(t, "what is before it is committed", func() bool { return w.committed()[0] == 2 })
	asked := time.Now()
	if since := r.holds(0, 2, 2); !since.Before(asked) {
		t.Errorf("known since %v, when somebody asked", since)
	}
	close(release)
}
