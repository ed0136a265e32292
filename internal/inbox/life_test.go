package inbox_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/seats"
	"github.com/stepwell/stepwell/internal/task"
)

// cutOff ends all sessions, and lets new ones begin.
func (w *world) cutOff() {
	b := w.broker.(*memory.Broker)
	b.SetUp(false)
	synctest.Wait()
	b.SetUp(true)
	synctest.Wait()
}

// Another process may have handled it long before that worker is free, and nobody has begun it
// here.
func TestWhatWaitedForAWorkerOrASeatAsItsSessionEndedIsNotCalled(t *testing.T) {
	for name, workers := range map[string]int{"a worker": 1, "a seat": 2} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, s, func(w *world) {
				w.cfg.Workers = workers
				if workers > 1 {
					w.cfg.Seats = seats.New(1).Retry()
				}
				w.renew()
				var here, there calls
				one := w.start(func(_ context.Context, m *stepwell.Message, _ inbox.Ticket) task.Outcome {
					here.add(m)
					time.Sleep(time.Minute)
					return task.Settled
				})
				w.named("a", "b")
				time.Sleep(s)
				here.mu.Lock()
				runs := here.tries[0].ID // either
				here.mu.Unlock()
				w.cfg.Seats = nil
				w.renew()
				other := w.start(func(_ context.Context, m *stepwell.Message, _ inbox.Ticket) task.Outcome {
					there.add(m)
					return task.Settled
				})
				time.Sleep(s)
				w.cutOff()
				time.Sleep(5 * time.Minute)
				one.end()
				other.end()
				n := 0
				for _, m := range append(here.tries, there.tries...) {
					if m.ID != runs {
						n++
					}
				}
				if n != 1 {
					t.Errorf("what only waited was called %d times", n)
				}
				w.empty()
			})
		})
	}
}

// The rest of a stop, the user's stop function for one, is not to wait for it.
func TestAHandlerThatDoesNotReturnIsNamedAndLeftBehind(t *testing.T) {
	inWorld(t, s, func(w *world) {
		forever := make(chan struct{})
		defer func() { close(forever); synctest.Wait() }()
		w.named("quick", "hangs")
		r := w.start(func(_ context.Context, m *stepwell.Message, _ inbox.Ticket) task.Outcome {
			if m.ID == "hangs" {
				<-forever
			}
			return task.Settled
		})
		time.Sleep(s)
		if c := w.inbox.Status().Oldest; c.ID != "hangs" || c.Attempt != 2 || time.Since(c.Began) != s {
			t.Errorf("what runs for the longest is %+v", c)
		}
		r.stop()
		time.Sleep(time.Minute)
		select {
		case err := <-r.ended:
			t.Fatalf("the drain is not over, and Run has returned: %v", err)
		default:
		}
		r.abort()
		time.Sleep(2 * s)
		select {
		case err := <-r.ended:
			if want := "consume orders: a handler did not return though it was cancelled; it has message hangs (attempt 2)"; fmt.Sprint(err) != want {
				t.Errorf("got %v", err)
			}
		default:
			t.Error("Run waits for it")
		}
	})
}

// It came back, and goes on to the instant queue, where it is called. What is gathered anew is no
// more than before.
func TestWhatWasGatheredInASessionThatEndedIsNotCalled(t *testing.T) {
	inWorld(t, time.Hour, func(w *world) {
		w.cfg.Foreign = true
		w.cfg.Divert = func(_ context.Context, d queue.Delivery) (string, queue.Message, bool) {
			return w.cfg.Wait, d.Message, d.Redelivered // as a stranger's is, to the instant queue
		}
		var all []int64
		for i := range int64(100) {
			all = append(all, i)
		}
		w.instant(all...)
		const most = 3
		r, g := w.gather(most)
		synctest.Wait()
		for range 10 {
			w.cutOff()
			ours := 0
			origins, _ := g.of(0)
			for _, o := range origins {
				if o.Calls().Err() == nil {
					ours++
				}
			}
			if ours > most {
				t.Fatalf("%d wait for a call", ours)
			}
		}
		r.stop()
		r.abort()
		r.end()
	})
}
