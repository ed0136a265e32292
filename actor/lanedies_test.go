package actor

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/retry"
	"github.com/stepwell/stepwell/streams"
)

// What a batch lets die is taken over one by one, and its partition may be lost meanwhile.
func TestWhatIsNoLongerOursWhenItsTurnComesIsNotTakenOver(t *testing.T) {
	dies := func(context.Context, *stepwell.Batch) error { return stepwell.DeadLetter(errUnavailable) }
	gather(t, 1, streams.OrderKey, dies, func(g *gathering) {
		lost, kept, calls := newOrigin(), newOrigin(), 0
		g.dispatch.retrier = &retry.Retrier{}
		g.dispatch.fallback = newFallback(func(context.Context, *stepwell.Message, error) error {
			calls++
			lost.cancel()
			return nil
		}, config.Stream{HandlerTimeout: time.Minute, Concurrency: 1}, nil)
		g.put(lost, 1, "a")
		g.put(lost, 2, "a")
		g.put(kept, 1, "a")
		synctest.Wait()
		if got := lost.with(task.Abandoned); calls != 2 || !slices.Equal(got, []int64{2}) {
			t.Errorf("OnDead was called %d times, not twice; left are %v", calls, got)
		}
		if got := kept.with(task.Settled); !slices.Equal(got, []int64{1}) {
			t.Errorf("settled of the other partition: %v", got)
		}
	})
}
