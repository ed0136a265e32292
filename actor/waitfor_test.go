package actor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
)

func TestAHandlerSaysWhenToTryAgain(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var c calls
		r := w.start(orders(func(_ context.Context, m *stepwell.Message) error {
			switch c.add(m) {
			case 1:
				return stepwell.RetryAfter(errFlaky, 1200*time.Millisecond)
			case 2:
				return stepwell.Snooze(time.Second)
			case 3:
				return stepwell.RetryAfter(errFlaky, 0) // the policy's wait
			}
			return nil
		}), settings{"RETRY_COUNT": "2", "RETRY_DELAY": "100ms"})
		w.produce(values("x")...)
		eventually(t, "fourth call", func() bool { return len(c.all()) == 4 })
		r.queuesEmpty()
		seen := c.all()
		for i, want := range []struct {
			after            time.Duration
			attempt, snoozes int
		}{{0, 1, 0}, {1200 * time.Millisecond, 2, 0}, {time.Second, 2, 1}, {100 * time.Millisecond, 3, 1}} {
			m := seen[i].m
			if m.Attempt != want.attempt || m.Snoozes != want.snoozes {
				t.Errorf("call %d: attempt %d, %d snoozes", i+1, m.Attempt, m.Snoozes)
			}
			if i > 0 && seen[i].at.Sub(seen[i-1].at) < want.after {
				t.Errorf("call %d came %s after the one before, want %s", i+1, seen[i].at.Sub(seen[i-1].at), want.after)
			}
		}
		if seen[2].m.ID != seen[0].m.ID || seen[3].m.FirstFailed.IsZero() {
			t.Errorf("messages changed: %+v", seen)
		}
	})
}

func TestWithoutRetriesWaitsThatAHandlerAsksForAreKeptInPlace(t *testing.T) {
	t.Parallel()
	for _, onFailure := range []string{"retry", "drop"} {
		t.Run(onFailure, func(t *testing.T) {
			everywhere(t, func(t *testing.T, w *world) {
				var c calls
				w.start(orders(func(_ context.Context, m *stepwell.Message) error {
					if c.add(m) == 1 {
						return stepwell.Snooze(time.Second)
					}
					return nil
				}), settings{"RETRY_ENABLED": "false", "RABBITMQ_URL": "", "ON_FAILURE": onFailure})
				w.produce(values("x")...)
				eventually(t, "second call", func() bool { return len(c.all()) == 2 })
				seen := c.all()
				if m := seen[1].m; m.Attempt != 1 || m.Snoozes != 1 || seen[1].at.Sub(seen[0].at) < time.Second {
					t.Errorf("attempt %d, %d snoozes, after %s", m.Attempt, m.Snoozes, seen[1].at.Sub(seen[0].at))
				}
			})
		})
	}
}

func TestWhereNoTryIsLeftRetryAfterLeadsToTheDeadSet(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		r := w.start(orders(func(context.Context, *stepwell.Message) error {
			return stepwell.RetryAfter(errors.New("429 Too Many Requests"), time.Hour)
		}), settings{"RETRY_COUNT": "0"})
		w.produce(values("x")...)
		dead := r.deadCount(1)
		if dead[0]["reason"] != stepwell.ReasonExhausted || dead[0]["error"] != "429 Too Many Requests" {
			t.Errorf("dead message says %v: %v", dead[0]["reason"], dead[0]["error"])
		}
	})
}
