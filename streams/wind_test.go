package streams

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
)

func TestAStopNamesTheFirstRecordOfAPartitionWhoseHandlerDoesNotReturn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r, tp := lone(t, func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
			if m.Origin.Offset == 7 {
				<-release // deaf to its context
			}
			return task.Settled
		})
		r.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {tp.partition}})
		r.intake.receive(tp, records(0, 9), [16]byte{})
		synctest.Wait()
		over, cancel := context.WithCancelCause(t.Context())
		cancel(ErrShutdown)
		const want = "stream orders: a handler of t/0 did not return though it was cancelled; the first record there that is not done is t:0:7"
		if err := r.wind(over); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		close(release)
	})
}
