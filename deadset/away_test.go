package deadset_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/queue"
)

// A turn of a sort that finds RabbitMQ away says so, as turns of all other operations do: the one
// who runs it can then tell of it, and obey a pause.
func TestASortThatFindsTheBrokerAwaySaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 10)
		s := paged(b, 8)
		b.SetUp(false)
		defer b.SetUp(true)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		told := make(chan error, 1)
		go func() { _, err := s.Pages().Sort(ctx, nil, "op", everything); told <- err }()
		select {
		case err := <-told:
			if !errors.Is(err, queue.ErrUnavailable) {
				t.Error(err)
			}
		case <-time.After(time.Hour):
			cancel()
			t.Errorf("nothing for an hour, then %v", <-told)
		}
	})
}
