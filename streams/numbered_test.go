package streams

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/task"
)

func TestWhoeverRemembersOffsetsIsToldBeforeTheyMeanSomethingElse(t *testing.T) {
	t.Parallel()
	const told = -1
	all := []int64{told, 10, 11}
	tests := map[string]struct {
		then func(r *Reader, tp topicPartition, last ledger.Checkpoint)
		want []int64
		same bool
	}{
		"its commit says that it goes on": {func(r *Reader, tp topicPartition, last ledger.Checkpoint) {
			again(r, tp, 10, last.Metadata, 1)
		}, all, true},
		"it has no commit": {func(r *Reader, tp topicPartition, _ ledger.Checkpoint) { again(r, tp, 10, "", 1) }, all, false},
		"its commit is of others": {func(r *Reader, tp topicPartition, _ ledger.Checkpoint) {
			again(r, tp, 10, "consumer-1", 1)
		}, all, false},
		"an operator went back": {func(r *Reader, tp topicPartition, _ ledger.Checkpoint) {
			again(r, tp, 7, "", 1)
		}, []int64{told, 7, 8, 9, 10, 11}, false},
		"a tool went back and left the metadata": {func(r *Reader, tp topicPartition, last ledger.Checkpoint) {
			again(r, tp, 7, last.Metadata, 1)
		}, []int64{told, 7, 8, 9, 10, 11}, false},
		"the topic was made anew": {func(r *Reader, tp topicPartition, last ledger.Checkpoint) {
			again(r, tp, 10, last.Metadata, 2)
		}, all, false},
		"the topic was made anew, and only who reads it knows": {func(r *Reader, tp topicPartition, _ ledger.Checkpoint) {
			r.intake.receive(tp, records(10, 12), [16]byte{2})
		}, all, false},
		"the log was cut and grew again": {func(r *Reader, tp topicPartition, _ ledger.Checkpoint) {
			r.fetched(tp, records(9, 12), nil)
			r.fetched(tp, records(9, 12), nil) // again: the reader goes back there
		}, []int64{told, 9, 10, 11}, false},
		"the log was cut, as Kafka says": {func(r *Reader, tp topicPartition, _ ledger.Checkpoint) {
			r.wasCut(tp, 9)
			r.fetched(tp, records(9, 12), nil)
		}, []int64{told, 9, 10, 11}, false},
		"the log was cut where it was read to": {func(r *Reader, tp topicPartition, _ ledger.Checkpoint) {
			r.wasCut(tp, 10)
			r.fetched(tp, records(10, 12), nil)
		}, all, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events, numbers := make(chan int64, 100), make(chan uint32, 100)
			r, tp := lone(t, func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
				events <- m.Origin.Offset
				return task.Settled
			})
			r.cfg.Numbered = func(topic string, id int32, log uint32) {
				if (topicPartition{topic, id}) != tp {
					t.Errorf("told of %s/%d", topic, id)
				}
				events <- told
				numbers <- log
			}
			r.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {tp.partition}})
			p := r.parts.lookup(tp)
			p.begin(ledger.At(0, 0), false)
			r.intake.receive(tp, records(0, 10), [16]byte{1})
			if first := <-events; first != told {
				t.Errorf("record %d was handed out before", first)
			}
			for range 10 {
				<-events
			}
			var last ledger.Checkpoint
			within(t, 2*time.Second, "all are settled", func() bool { last, _ = p.dirty(ledger.MetadataLimit); return last.At.Offset == 10 })
			test.then(r, tp, last)
			var got []int64
			for len(got) == 0 || got[len(got)-1] != 11 {
				got = append(got, <-events)
			}
			if !slices.Equal(got, test.want) {
				t.Fatalf("got %v, want %v", got, test.want)
			}
			before, after := <-numbers, <-numbers
			if before == 0 || after == 0 || (before == after) != test.same {
				t.Errorf("number %d, then %d", before, after)
			}
			if said := ledger.ReadMetadata(10, last.Metadata).Log; said != before {
				t.Errorf("the commit says %d, and %d was told", said, before)
			}
		})
	}
}

// numberOf is that of the log of which the records are that come next.
func numberOf(p *partition) uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ledger.Identify([16]byte{1})
	return p.ledger.Log.Number
}

// again takes the partition away and gives it back with a commit.
func again(r *Reader, tp topicPartition, start int64, metadata string, id byte) {
	ours := map[string][]int32{tp.topic: {tp.partition}}
	r.rebalances.onLost(context.Background(), nil, ours)
	r.rebalances.onAssigned(context.Background(), new(kgo.Client), ours)
	r.parts.lookup(tp).restored(start, metadata)
	r.parts.lookup(tp).begin(ledger.At(start, 0), false)
	r.intake.receive(tp, records(start, 12), [16]byte{id})
}

func TestWhereNobodyRemembersOffsetsCommitsSayNoMoreThanWithoutNumbers(t *testing.T) {
	r, tp := lone(t, func(context.Context, *stepwell.Message, task.Ticket) task.Outcome { return task.Settled })
	r.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {tp.partition}})
	p := r.parts.lookup(tp)
	p.restored(0, ledger.WriteMetadata(0, ledger.Metadata{Log: 7}, slices.Values([]ledger.Span(nil)), ledger.MetadataLimit))
	p.begin(ledger.At(0, 0), false)
	r.fetched(tp, records(0, 10), nil)
	within(t, 2*time.Second, "all are settled", func() bool {
		c, _ := p.dirty(ledger.MetadataLimit)
		return c.At.Offset == 10 && c.Metadata == ""
	})
}
