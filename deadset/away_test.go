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

// What makes pages before it has the lease finds out that RabbitMQ is away as soon as all other
// walks do: the one who runs it can then tell of it, and obey a pause.
func TestWhatFillsPagesWaitsForABrokerThatIsAwayNoLongerThanOtherWalks(t *testing.T) {
	for name, move := range map[string]func(context.Context, *deadset.Set) error{
		"a sort": func(ctx context.Context, s *deadset.Set) error {
			_, err := s.Pages().Sort(ctx, nil, "op", everything)
			return err
		},
		"a delete into the trash": func(ctx context.Context, s *deadset.Set) error {
			_, err := s.Trash(keep).Delete(ctx, "op", everything)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
				bury(t, b, 10)
				s := thrown(b, 8)
				b.SetUp(false)
				defer b.SetUp(true)
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				defer cancel()
				began := time.Now()
				if err := move(ctx, s); !errors.Is(err, queue.ErrUnavailable) || time.Since(began) != 10*time.Second {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			})
		})
	}
}

func TestTheRoomInATrashIsNotWaitedForWithoutABound(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		s := thrown(b, 8)
		b.SetUp(false)
		defer b.SetUp(true)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		began := time.Now()
		if _, err := s.Trash(keep).Room(ctx); !errors.Is(err, queue.ErrUnavailable) || time.Since(began) != 30*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
