package streams

import (
	"context"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/task"
)

func TestWhoeverRemembersOffsetsIsToldBeforeTheyMeanSomethingElse(t *testing.T) {
	t.Parallel()
	const told = -1
	tests := map[string]struct {
		then func(r *Reader, tp topicPartition)
		want []int64
	}{
		"it goes on where it was": {func(r *Reader, tp topicPartition) { again(r, tp, 10, 1) }, []int64{told, 10, 11}},
		"an operator went back":   {func(r *Reader, tp topicPartition) { again(r, tp, 7, 1) }, []int64{told, 7, 8, 9, 10, 11}},
		"the topic was made anew": {func(r *Reader, tp topicPartition) { again(r, tp, 10, 2) }, []int64{told, 10, 11}},
		"the log was cut and grew again": {func(r *Reader, tp topicPartition) {
			r.fetched(tp, records(9, 12), nil)
			r.fetched(tp, records(9, 12), nil) // again: the reader goes back there
		}, []int64{told, 9, 10, 11}},
		"the log was cut, as Kafka says": {func(r *Reader, tp topicPartition) {
			r.wasCut(tp, 9)
			r.fetched(tp, records(9, 12), nil)
		}, []int64{told, 9, 10, 11}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events := make(chan int64, 100)
			r, tp := lone(t, func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
				events <- m.Origin.Offset
				return task.Settled
			})
			r.cfg.Forgotten = func(topic string, id int32) {
				if (topicPartition{topic, id}) != tp {
					t.Errorf("told of %s/%d", topic, id)
				}
				events <- told
			}
			r.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {tp.partition}})
			r.parts.lookup(tp).begin(ledger.At(0, 0), false)
			r.intake.receive(tp, records(0, 10), [16]byte{1})
			for range 10 {
				<-events
			}
			test.then(r, tp)
			var got []int64
			for len(got) == 0 || got[len(got)-1] != 11 {
				if e := <-events; e != told || !slices.Contains(got, told) {
					got = append(got, e)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// again takes the partition away and gives it back.
func again(r *Reader, tp topicPartition, start int64, id byte) {
	ours := map[string][]int32{tp.topic: {tp.partition}}
	r.rebalances.onLost(context.Background(), nil, ours)
	r.rebalances.onAssigned(context.Background(), new(kgo.Client), ours)
	r.parts.lookup(tp).begin(ledger.At(start, 0), false)
	r.intake.receive(tp, records(start, 12), [16]byte{id})
}
