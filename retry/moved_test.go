package retry_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/internal/testbroker"
	"github.com/stepwell/stepwell/retry"
)

// dying fails until it is healed.
func (c *calls) dying(healed *atomic.Bool) retry.Handle {
	failing := c.failing(retry.Failure{Err: errAway})
	return func(ctx context.Context, m *stepwell.Message, t retry.Ticket) task.Outcome {
		if healed.Load() {
			return c.succeeding(ctx, m, t)
		}
		return failing(ctx, m, t)
	}
}

func TestADeadMessageThatSomebodyMovesToTheInstantQueueIsHandledAsAReplay(t *testing.T) {
	for name, again := range map[string]bool{"it succeeds": false, "it dies again, and is moved again": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, retry.Linear(s, 0, 2), func(w *world) {
				var c calls
				var healed atomic.Bool
				r := w.start(c.dying(&healed))
				move := func() {
					dead := w.dead()
					if len(dead) != 1 {
						w.t.Fatalf("%d in the dead set, want 1", len(dead))
					}
					w.put(w.retrier.Topology().Instant, dead[0])
					time.Sleep(time.Minute)
				}
				w.first(record("x"), retry.Failure{Err: errAway})
				time.Sleep(time.Minute)
				wanted, replays := []int{2, 3}, 1
				if again {
					move()
					wanted, replays = append(wanted, 1, 2, 3), 2
				}
				healed.Store(true)
				move()
				r.end()
				if got := c.attempts(); !slices.Equal(got, append(wanted, 1)) {
					w.t.Fatalf("attempts %v, want %v and then 1", got, wanted)
				}
				if last := c.tries[len(c.tries)-1]; last.Replays != replays || string(last.Value) != "x" {
					t.Errorf("handled %q in replay %d, want %d", last.Value, last.Replays, replays)
				}
				w.empty()
			})
		})
	}
}

func TestADeadMessageThatIsMovedAndHandedOutTwiceIsCalledOnce(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.first(record("x"), retry.Failure{Err: errAway})
		dead := w.dead()[0]
		var c calls
		r := w.start(c.succeeding)
		for range 2 {
			w.put(w.retrier.Topology().Instant, dead)
			time.Sleep(s)
		}
		r.end()
		if len(c.tries) != 1 || w.counts.now().duplicates != 1 {
			t.Errorf("%d calls, %d duplicates", len(c.tries), w.counts.now().duplicates)
		}
		w.empty()
	})
}

func TestADeadMessageThatSomebodyMovesOnRabbitMQIsHandled(t *testing.T) {
	for _, node := range testbroker.Sample(t, testbroker.RabbitMQs(t)) {
		t.Run(node.Version, func(t *testing.T) {
			t.Parallel()
			w := onRabbit(t, node.URL, retry.Linear(100*time.Millisecond, 0, 1))
			var c calls
			var healed atomic.Bool
			r := w.start(c.dying(&healed))
			w.first(record("x"), retry.Failure{Err: errAway})
			var dead []queue.Message
			eventually(t, "it is dead", func() bool {
				dead = append(dead, w.dead()...)
				return len(dead) == 1
			})
			healed.Store(true)
			w.put(w.retrier.Topology().Instant, dead[0])
			eventually(t, "it is handled", func() bool { return slices.Equal(c.attempts(), []int{2, 1}) })
			r.end()
			w.empty()
		})
	}
}
