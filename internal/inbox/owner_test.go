package inbox_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/seats"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/internal/testbroker"
)

func TestWhatIsNotToBeCalledHereIsMovedAndAckedOnlyOnceThatIsConfirmed(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		relents, log := w.grudging()
		var c calls
		r := w.start(c.succeeding)
		dead := w.cfg.Queue + ".dead"
		w.put(w.cfg.Queue, queue.Message{ID: "hop", Headers: map[string]any{"elsewhere": dead}, Body: []byte("b")})
		time.Sleep(30 * s)
		if n := w.inbox.Status().InFlight; n != 1 || w.depth(dead) != 0 {
			t.Errorf("%d in flight, %d moved while the broker takes nothing:\n%s", n, w.depth(dead), log)
		}
		relents.Store(true)
		time.Sleep(time.Minute)
		r.end()
		all := w.dead()
		if len(all) != 1 || all[0].ID != "hop" || all[0].Headers["moved"] != true || string(all[0].Body) != "b" || len(c.tries) != 0 {
			t.Errorf("moved %+v, %d calls", all, len(c.tries))
		}
		w.empty()
	})
}

func TestWhatIsNotCalledHereMovesOnWhileAllWorkersAreBusy(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		w.cfg.Workers = 1
		w.renew()
		w.instant(1)
		finish := make(chan struct{})
		r := w.start(func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
			<-finish
			return task.Settled
		})
		synctest.Wait()
		w.put(w.cfg.Queue, queue.Message{ID: "hop", Headers: map[string]any{"elsewhere": w.cfg.Queue + ".dead"}})
		synctest.Wait()
		if n := w.depth(w.cfg.Queue + ".dead"); n != 1 || w.inbox.Status().InFlight != 1 {
			t.Errorf("%d moved on beside a slow call, %d in flight", n, w.inbox.Status().InFlight)
		}
		close(finish)
		r.end()
	})
}

func TestAMessageWithoutItsOtherPartRestsWhereItIsUntilThatCanBeRead(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		reads := 0
		w.owner.incomplete = func(e *envelope.Envelope) (string, error) {
			if reads++; reads == 1 {
				return "", errors.New("no broker answers")
			}
			e.Message.Value = []byte("whole")
			return "", nil
		}
		w.instant(1)
		var c calls
		r := w.start(c.succeeding)
		time.Sleep(59 * s)
		if n := len(c.attempts()); n != 0 {
			t.Errorf("%d calls of half a message", n)
		}
		time.Sleep(2 * s)
		r.end()
		if len(c.tries) != 1 || string(c.tries[0].Value) != "whole" || reads != 2 {
			t.Errorf("calls %+v after %d reads", c.tries, reads)
		}
		w.empty()
	})
}

func TestAMessageWhoseOtherPartIsGoneIsBuriedUncalled(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		w.owner.incomplete = func(*envelope.Envelope) (string, error) {
			return stepwell.ReasonGone, errors.New("nothing there")
		}
		w.instant(1)
		var c calls
		r := w.start(c.succeeding)
		synctest.Wait()
		r.end()
		if e := w.oneDead(); e.Failure.Reason != stepwell.ReasonGone || e.Failure.Error != "nothing there" || len(c.tries) != 0 {
			t.Errorf("after %d calls: %+v", len(c.tries), e.Failure)
		}
		w.empty()
	})
}

// timed is what one call was told, and what was told of it.
type timed struct {
	lane  int
	began time.Time
	took  time.Duration
}

func TestEachWorkerHasALaneAndItsCallsAreTimedWithoutTheWaitForASeat(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		var mu sync.Mutex
		var begun, ended []timed
		all := seats.New(2)
		w.cfg.Workers, w.cfg.FirstLane, w.cfg.Seats = 2, 5, all.Retry()
		w.cfg.Ended = func(lane int, took, last time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			if took != last {
				t.Errorf("%v for one call of %v", took, last)
			}
			ended = append(ended, timed{lane: lane, took: took})
		}
		w.renew()
		held := all.First()
		for range 2 {
			held.Take(nil)
		}
		w.instant(1, 2)
		r := w.start(func(_ context.Context, _ *stepwell.Message, tk inbox.Ticket) task.Outcome {
			mu.Lock()
			lane, began := tk.Running()
			begun = append(begun, timed{lane: lane, began: began})
			mu.Unlock()
			time.Sleep(3 * s)
			return task.Settled
		})
		time.Sleep(10 * s) // both wait for seats
		began := time.Now()
		for range 2 {
			held.Leave()
		}
		time.Sleep(4 * s)
		r.end()
		byLane := func(a, b timed) int { return a.lane - b.lane }
		slices.SortFunc(begun, byLane)
		slices.SortFunc(ended, byLane)
		if want := []timed{{5, began, 0}, {6, began, 0}}; !slices.EqualFunc(begun, want, func(a, b timed) bool { return a.lane == b.lane && a.began.Equal(b.began) }) {
			t.Errorf("begun %+v, want %+v", begun, want)
		}
		if want := []timed{{lane: 5, took: 3 * s}, {lane: 6, took: 3 * s}}; !slices.Equal(ended, want) {
			t.Errorf("ended %+v, want %+v", ended, want)
		}
		if n := all.Taken(); n != 0 {
			t.Errorf("%d seats are taken after the calls", n)
		}
	})
}

func TestAStopGivesBackWhatWaitsForASeat(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		all := seats.New(1)
		all.First().Take(nil)
		w.cfg.Seats = all.Retry()
		w.renew()
		w.instant(1)
		var c calls
		r := w.start(c.succeeding)
		synctest.Wait()
		r.end()
		if n := w.depth(w.cfg.Queue); n != 1 || len(c.tries) != 0 || all.Taken() != 1 {
			t.Errorf("%d back, %d calls, %d seats taken", n, len(c.tries), all.Taken())
		}
	})
}

func TestASuspectRunsAtOnceAndIsToldThatItRunsAloneAndNobodyElseIs(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit = 3
		w.returned("suspect")
		w.named("other")
		w.renew()
		var mu sync.Mutex
		alone := map[string]bool{}
		r := w.start(func(_ context.Context, m *stepwell.Message, tk inbox.Ticket) task.Outcome {
			mu.Lock()
			defer mu.Unlock()
			alone[m.ID] = tk.Alone()
			return task.Settled
		})
		time.Sleep(s)
		mu.Lock()
		called := len(alone)
		mu.Unlock()
		r.end()
		if called != 2 || !alone["suspect"] || alone["other"] {
			t.Errorf("%d called within a second; alone: %v", called, alone)
		}
		w.empty()
	})
}

func TestAQueueOnRabbitMQIsWorkedOffAndEachOfItsMessagesComesToItsEnd(t *testing.T) {
	for _, node := range testbroker.RabbitMQs(t) {
		t.Run(node.Version, func(t *testing.T) {
			t.Parallel()
			w := onRabbit(t, node.URL, 100*time.Millisecond)
			dead := w.cfg.Queue + ".dead"
			w.put(w.cfg.Queue, queue.Message{ID: "junk", Body: []byte("b")})
			w.put(w.cfg.Queue, queue.Message{ID: "hop", Headers: map[string]any{"elsewhere": dead}})
			w.instant(1, 2, 2, 3)
			var c calls
			r := w.start(func(_ context.Context, m *stepwell.Message, tk inbox.Ticket) task.Outcome {
				if c.add(m); m.Attempt < 4 {
					return w.park(tk)
				}
				return task.Settled
			})
			eventually(t, "the dead set has two messages, and each of the others was called three times", func() bool {
				n, err := w.broker.Depth(t.Context(), dead)
				return err == nil && n == 2 && len(c.attempts()) == 9 && w.inbox.Status().InFlight == 0
			})
			r.end()
			if n := w.owner.duplicates(); n != 1 {
				t.Errorf("%d repeats, want one of the message that came twice", n)
			}
			var ids []string
			for _, m := range w.dead() {
				ids = append(ids, m.ID)
			}
			if slices.Sort(ids); !slices.Equal(ids, []string{"hop", "junk"}) {
				t.Errorf("dead: %v", ids)
			}
			w.empty()
		})
	}
}
