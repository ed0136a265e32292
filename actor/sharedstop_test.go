package actor

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/records"
)

// cutOff is a broker whose Follow ends with the error of its context alone, as RabbitMQ's does.
type cutOff struct{ *memory.Broker }

func (cutOff) Follow(ctx context.Context, _ string, _ int64, _ func(queue.Entry)) error {
	<-ctx.Done()
	return ctx.Err()
}

// Else a pause that is asked for then is told that this app shares nothing.
func TestThatTheProcessStopsIsNoReasonForWhichNothingIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := cutOff{memory.New()}
		s := &sharing{store: records.New(records.Config{Broker: b, Log: "app.records"})}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for _, run := range []func(context.Context) error{b.Run, s.store.Run} {
			all.Go(func() {
				if err := run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait() // it follows
		cancel()
		all.Wait()
		if _, trouble := s.store.Status(); !errors.Is(trouble, context.Canceled) {
			t.Fatalf("the store says %v", trouble)
		}
		if why := s.missing(); why != nil {
			t.Errorf("missing: %v", why)
		}
	})
}
