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

// scripted publishes as its script says, and closes a window with what its script makes of it.
type scripted struct {
	*memory.Broker
	publish func(done func(error)) // nil: as the broker does
	close   func(ctx context.Context, depth int) (int, error)
}

func (s scripted) Publisher(name string) queue.Publisher {
	if s.publish == nil {
		return s.Broker.Publisher(name)
	}
	return s
}

func (s scripted) Publish(_ context.Context, _ string, _ queue.Message, done func(error)) {
	s.publish(done)
}

func (s scripted) Lease(ctx context.Context, name string) (queue.Lease, error) {
	l, err := s.Broker.Lease(ctx, name)
	return scriptedLease{l, s}, err
}

type scriptedLease struct {
	queue.Lease
	of scripted
}

func (l scriptedLease) Window(ctx context.Context, most, maxBytes int) (queue.Window, error) {
	w, err := l.Lease.Window(ctx, most, maxBytes)
	return scriptedWindow{w, l.of}, err
}

type scriptedWindow struct {
	queue.Window
	of scripted
}

func (w scriptedWindow) Close(ctx context.Context) (int, error) {
	depth, err := w.Window.Close(ctx)
	if w.of.close == nil {
		return depth, err
	}
	return w.of.close(ctx, depth)
}

func (s scripted) set() *deadset.Set {
	return deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: s})
}

func TestAWalkWhoseEndIsNotSeenCountsOnlyWhatIsGoneAndSaysWhy(t *testing.T) {
	lost := errors.New("nobody could look")
	for after, want := range map[int]int{9: 0, 3: 1, 2: 2, 0: 2} {
		inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
			bury(t, b, 4)
			s := scripted{Broker: b, close: func(context.Context, int) (int, error) { return after, lost }}.set()
			r, err := s.Delete(t.Context(), 2)
			if want := (deadset.Result{Requested: 2, Done: want, Left: 4 - want, Stopped: lost.Error()}); !errors.Is(err, lost) || r != want {
				t.Errorf("the queue shows %d: %+v, %v", after, r, err)
			}
		})
	}
}

func TestAWalkThatIsCancelledBeginsWithNoMoreAndStillRemovesWhatIsConfirmed(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		const count = 1000
		bury(t, b, count)
		ctx, cancel := context.WithCancel(t.Context())
		published := 0
		r, err := scripted{
			Broker:  b,
			publish: func(done func(error)) { published++; cancel(); done(nil) },
			close: func(ctx context.Context, depth int) (int, error) {
				if ctx.Err() != nil {
					t.Error("its end is cancelled too")
				}
				return depth, nil
			},
		}.set().Replay(ctx, count)
		if !errors.Is(err, context.Canceled) || published == count || r.Done != published || depth(t, b, dead) != count-published {
			t.Errorf("%+v, %v; %d were published", r, err, published)
		}
	})
}

func TestAWalkThatIsCancelledWaitsTwoSecondsForConfirms(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 2)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		r, err := scripted{Broker: b, publish: func(func(error)) {}}.set().Replay(ctx, 2)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || r.Done != 0 || took != 7*time.Second {
			t.Errorf("after %v: %+v, %v", took, r, err)
		}
	})
}

func TestAReplayTakesAsLongAsConfirmsCome(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 5)
		confirm := time.Duration(0)
		r, err := scripted{Broker: b, publish: func(done func(error)) {
			confirm += 9 * time.Second
			time.AfterFunc(confirm, func() { done(nil) })
		}}.set().Replay(t.Context(), 5)
		if want := (deadset.Result{Requested: 5, Done: 5}); err != nil || r != want {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
