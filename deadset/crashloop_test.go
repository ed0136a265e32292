package deadset_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

func TestAReplayLeavesOutWhatKilledTheProcessUnlessAsked(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		for i, reason := range []string{"crash_loop", "crash_loop", "exhausted", "crash_loop", "exhausted", "exhausted"} {
			e := envelope.Envelope{
				DiedAt: time.Now(), Failure: envelope.Failure{Reason: reason, At: time.Now()},
				Message: stepwell.Message{ID: string(rune('a' + i)), Stream: "s", Value: []byte{byte('0' + i)}, Attempt: 1, Origin: stepwell.Origin{Topic: "t", Offset: int64(i)}},
			}
			put(t, b, dead, e.Encode())
		}
		for _, step := range []struct {
			name  string
			do    func() (deadset.Result, error)
			want  deadset.Result
			shows string
		}{
			{"the oldest that are harmless", func() (deadset.Result, error) { return s.Replay(t.Context(), 2) },
				deadset.Result{Requested: 2, Done: 2, Left: 4, LeftOut: 3}, "0 1 3 5"},
			{"all that are", func() (deadset.Result, error) { return s.Replay(t.Context(), 10) },
				deadset.Result{Requested: 10, Done: 1, Left: 3, LeftOut: 3}, "0 1 3"},
			{"none is left", func() (deadset.Result, error) { return s.Replay(t.Context(), 10) },
				deadset.Result{Requested: 10, Left: 3, LeftOut: 3}, "0 1 3"},
			{"asked for", func() (deadset.Result, error) { return s.ReplayAll(t.Context(), 2) },
				deadset.Result{Requested: 2, Done: 2, Left: 1}, "3"},
			{"a delete takes them as they come", func() (deadset.Result, error) { return s.Delete(t.Context(), 2) },
				deadset.Result{Requested: 2, Done: 1}, ""},
		} {
			if got, err := step.do(); err != nil || got != step.want {
				t.Errorf("%s: %+v %v, want %+v", step.name, got, err, step.want)
			}
			if shows := peek(t, s, 10); shows != step.shows {
				t.Errorf("%s: then it shows %q, want %q", step.name, shows, step.shows)
			}
		}
	})
}

func TestAReplayTouchesNothingThatWasNotThereWhenItBegan(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		for i := range 25 {
			reason := "crash_loop"
			if i%5 == 4 {
				reason = "exhausted"
			}
			e := envelope.Envelope{
				DiedAt: time.Now(), Failure: envelope.Failure{Reason: reason, At: time.Now()},
				Message: stepwell.Message{ID: fmt.Sprint(i), Stream: "s", Attempt: 1, Origin: stepwell.Origin{Topic: "t", Offset: int64(i)}},
			}
			put(t, b, dead, e.Encode())
		}
		ctx, stop := context.WithCancel(t.Context())
		var died atomic.Int64
		ended := make(chan error)
		go func() { // each that is replayed dies again at once
			ended <- b.Consume(ctx, ctx, queue.Consumption{Queue: ready, Prefetch: func() int { return 10 }, Handle: func(_ context.Context, d queue.Delivery) bool {
				died.Add(1)
				b.Publisher("handler").Publish(ctx, dead, d.Message, func(error) {})
				d.Ack()
				return true
			}})
		}()
		r, err := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: unhurried{b}}).Replay(t.Context(), 25)
		synctest.Wait()
		stop()
		<-ended
		if err != nil || r.Done != 5 || r.LeftOut != 20 || died.Load() != 5 {
			t.Errorf("%+v, %v; %d messages were handled again", r, err, died.Load())
		}
	})
}

func TestAReplayGoesOnPastWhatIsTooLargeToBePublished(t *testing.T) {
	for name, replay := range map[string]func(*deadset.Set, context.Context, int) (deadset.Result, error){
		"of the harmless": (*deadset.Set).Replay, "of all": (*deadset.Set).ReplayAll,
	} {
		t.Run(name, func(t *testing.T) { goesOnPastTheLarge(t, replay) })
	}
}

func goesOnPastTheLarge(t *testing.T, replay func(*deadset.Set, context.Context, int) (deadset.Result, error)) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		for i := range 6 {
			m := queue.Message{ID: fmt.Sprint(i), Body: []byte("x")}
			if i < 3 {
				m.Body = []byte("too large")
			}
			put(t, b, dead, m)
		}
		small := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: limited{b}})
		r, err := replay(small, t.Context(), 2)
		if want := (deadset.Result{Requested: 2, Done: 2, Left: 4, TooLarge: 3}); err != nil || r != want {
			t.Errorf("%+v, %v", r, err)
		}
		if left, moved := ids(t, b, dead), ids(t, b, ready); !slices.Equal(left, []string{"0", "1", "2", "5"}) || !slices.Equal(moved, []string{"3", "4"}) {
			t.Errorf("left %v, moved %v", left, moved)
		}
		r, err = replay(small, t.Context(), 2) // more than there are besides: it ends
		if want := (deadset.Result{Requested: 2, Done: 1, Left: 3, TooLarge: 3}); err != nil || r != want {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// unhurried opens a window when all others wait.
type unhurried struct{ *memory.Broker }

func (u unhurried) Lease(ctx context.Context, name string) (queue.Lease, error) {
	l, err := u.Broker.Lease(ctx, name)
	return unhurriedLease{l}, err
}

type unhurriedLease struct{ queue.Lease }

func (l unhurriedLease) Window(ctx context.Context, most, maxBytes int) (queue.Window, error) {
	synctest.Wait()
	return l.Lease.Window(ctx, most, maxBytes)
}

// limited takes no bodies above a byte.
type limited struct{ *memory.Broker }

func (l limited) Publisher(name string) queue.Publisher {
	return limitedPublisher{l.Broker.Publisher(name)}
}

type limitedPublisher struct{ queue.Publisher }

func (p limitedPublisher) Publish(ctx context.Context, name string, m queue.Message, done func(error)) {
	if len(m.Body) > 1 {
		go done(queue.ErrTooLarge)
		return
	}
	p.Publisher.Publish(ctx, name, m, done)
}
