package streams

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
)

// deafAtSeven is a reader whose call of the record at 7 does not heed its context, until release is
// called.
func deafAtSeven(t *testing.T) (r *Reader, tp topicPartition, release func()) {
	t.Helper()
	forever := make(chan struct{})
	r, tp = lone(t, func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		if m.Origin.Offset == 7 {
			<-forever
		}
		return task.Settled
	})
	return r, tp, func() { close(forever) }
}

func TestAStopNamesTheFirstRecordOfAPartitionWhoseHandlerDoesNotReturn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, tp, release := deafAtSeven(t)
		r.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {tp.partition}})
		r.intake.receive(tp, records(0, 9), [16]byte{})
		synctest.Wait()
		over, cancel := context.WithCancelCause(t.Context())
		cancel(ErrShutdown)
		const want = "stream orders: a handler of t/0 did not return though it was cancelled; the first record there that is not done is t:0:7"
		if err := r.wind(over); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		release()
	})
}

// As after an outage of Kafka: the assignment after that hands nothing out while the call runs.
func TestAHandlerOfAnEarlierAssignmentIsNamedByTheOneThatWaitsForIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, tp, release := deafAtSeven(t)
		ours := map[string][]int32{tp.topic: {tp.partition}}
		r.rebalances.onAssigned(t.Context(), new(kgo.Client), ours)
		r.intake.receive(tp, records(0, 9), [16]byte{})
		for range 3 { // the second and the third wait for the first
			synctest.Wait()
			if o := r.Status().Oldest; o == nil || o.Offset != 7 {
				t.Errorf("the oldest message is %+v, want 7", o)
			}
			r.rebalances.onLost(t.Context(), nil, ours)
			r.rebalances.onAssigned(t.Context(), new(kgo.Client), ours)
		}
		over, cancel := context.WithCancelCause(t.Context())
		cancel(ErrShutdown)
		const want = "stream orders: a handler of t/0 did not return though it was cancelled; the first record there that is not done is t:0:7"
		if err := r.wind(over); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		release()
		synctest.Wait()
		if o := r.Status().Oldest; o != nil {
			t.Errorf("the call has ended, and the oldest message is %+v", o)
		}
	})
}
