package inbox_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/task"
)

// A stop that looks clean would let such a message end all processes again and again.
func TestAMessageWhoseHandlerEndsItsGoroutineEachTimeIsCondemnedAfterRestartsAndNoOtherIs(t *testing.T) {
	inWorld(t, s, func(w *world) {
		const n, deserter = 30, "t:0:7"
		for i := range n {
			w.named(fmt.Sprintf("t:0:%d", i))
		}
		w.cfg.Suspects.Limit = 3
		w.sees(func(context.Context, string) (bool, error) { return true, nil }) // in their drains
		var mu sync.Mutex
		done := map[string]int{}
		deaths := 0
		for range 10 {
			w.renew()
			r := w.start(func(ctx context.Context, m *stepwell.Message, _ inbox.Ticket) task.Outcome {
				if m.ID == deserter {
					time.Sleep(time.Millisecond)
					runtime.Goexit()
				}
				select {
				case <-time.After(10 * time.Millisecond):
				case <-ctx.Done():
					return task.Abandoned
				}
				mu.Lock()
				defer mu.Unlock()
				done[m.ID]++
				return task.Settled
			})
			ended := false
			select {
			case err := <-r.ended:
				ended = true
				if text := fmt.Sprint(err); !strings.Contains(text, "runtime.Goexit") || !strings.Contains(text, deserter) {
					t.Errorf("the error says %q", text)
				}
			case <-time.After(time.Hour):
				r.stop()
				r.end()
			}
			if !ended {
				break
			}
			deaths++
		}
		if deaths != 4 {
			t.Errorf("%d processes ended, want 4", deaths)
		}
		e := w.oneDead()
		if e.Message.ID != deserter || e.Failure.Reason != stepwell.ReasonCrashLoop {
			t.Errorf("dead: %s, %s", e.Message.ID, e.Failure.Reason)
		}
		if len(done) != n-1 {
			t.Errorf("%d are done, want all but one", len(done))
		}
	})
}

func TestAHandlerThatEndsTheGoroutineOfTheLastWorkerHoldsNothingBack(t *testing.T) {
	inWorld(t, s, func(w *world) {
		const n = 5
		for i := range n {
			w.named(fmt.Sprintf("t:0:%d", i))
		}
		w.cfg.Workers = 1
		w.renew()
		r := w.start(func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
			time.Sleep(time.Millisecond)
			runtime.Goexit()
			return task.Settled
		})
		select {
		case <-r.ended:
		case <-time.After(time.Hour):
			t.Fatal("the run goes on, with messages that wait for a worker")
		}
		if depth := w.depth(w.cfg.Queue); depth != n {
			t.Errorf("%d messages in the queue, want all %d", depth, n)
		}
	})
}

func TestASuspectThatWaitsForTheWorkerWhoseHandlerEndsItsGoroutineTellsOfNoDeath(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit, w.cfg.Suspects.Process, w.cfg.Workers = 3, 7, 1
		w.renew()
		r := w.start(func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
			time.Sleep(2 * s)
			runtime.Goexit()
			return task.Settled
		})
		w.put(w.cfg.Queue, unsuspected("runs"))
		w.announced("waits for the worker", "00000008")
		if err := <-r.ended; err == nil {
			t.Error("no error")
		}
		w.has(0, 2)
		w.namesNobody(2)
	})
}

func TestAMessageWhoseHandlerEndsItsGoroutineGoesBackWhereDeathsAreNotCounted(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.named("t:0:1")
		for range 5 {
			w.renew()
			r := w.start(func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
				runtime.Goexit()
				return task.Settled
			})
			if err := <-r.ended; err == nil {
				t.Error("no error")
			}
		}
		w.renew()
		done := make(chan string, 10)
		r := w.start(func(_ context.Context, m *stepwell.Message, _ inbox.Ticket) task.Outcome {
			done <- m.ID
			return task.Settled
		})
		time.Sleep(time.Minute)
		r.stop()
		r.end()
		if len(done) != 1 || len(w.dead()) != 0 {
			t.Errorf("%d handled, %d dead", len(done), len(w.dead()))
		}
	})
}

// What goes back while the process still runs would be moved as redelivered, run, and count a death
// more.
func TestWhatABatchLeavesBehindThatEndedItsGoroutineIsNotTakenAgainByThisProcess(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		w.cfg.Gather = &inbox.Gather{Messages: 10, Full: func() {}}
		w.cfg.Divert = func(_ context.Context, d queue.Delivery) (string, queue.Message, bool) {
			return "orders.dead", d.Message, d.Redelivered
		}
		w.renew()
		var mu sync.Mutex
		var of task.Gatherable
		var offsets []int64
		r := w.start(func(_ context.Context, _ *stepwell.Message, t inbox.Ticket) task.Outcome {
			mu.Lock()
			defer mu.Unlock()
			g, offset := t.Place()
			of, offsets = g, append(offsets, offset)
			return task.Gathered
		})
		w.instant(1, 2, 3)
		synctest.Wait()
		if err := fmt.Sprint(of.Desert(offsets)); !strings.Contains(err, "runtime.Goexit") || !strings.Contains(err, "it had message orders.v1:3:") {
			t.Errorf("the error says %v", err)
		}
		if err := fmt.Sprint(of.Desert(offsets)); !strings.HasSuffix(err, "it had message that was settled already") {
			t.Errorf("once they have their end the error says %v", err)
		}
		time.Sleep(time.Minute) // nobody ends the run yet
		if n := w.inbox.Status().InFlight; n != 0 || len(offsets) != 3 {
			t.Errorf("%d are in hand, and %d were handed out, want 0 and 3", n, len(offsets))
		}
		r.end()
		if n, dead := w.depth("orders"), w.depth("orders.dead"); n != 3 || dead != 0 {
			t.Errorf("%d messages are in the queue, and %d were moved, want 3 and 0", n, dead)
		}
	})
}
