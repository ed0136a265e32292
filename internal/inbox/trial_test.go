package inbox_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/solo"
	"github.com/stepwell/stepwell/internal/task"
)

// accused puts a suspect into the queue that so many processes died of.
func (w *world) accused(id string, deaths int) {
	w.t.Helper()
	e := envelope.Envelope{Message: stepwell.Message{ID: id, Value: []byte("x"), Attempt: 2, Origin: stepwell.Origin{Topic: "t"}}}
	m := e.Encode()
	m.Headers["x-stepwell-suspect"] = strings.Repeat("00000007,", deaths)
	m.Headers["x-stepwell-suspect-by"] = ""
	w.put(w.cfg.Queue, m)
}

func TestAThirdMessageInARowIsNotCondemnedAndRuns(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit = 3
		w.renew()
		for _, id := range []string{"a", "b", "c"} {
			w.accused(id, 4)
		}
		var c calls
		r := w.start(c.succeeding)
		time.Sleep(time.Hour)
		r.end()
		if dead := len(w.dead()); dead != 2 || len(c.tries) != 1 {
			t.Errorf("%d dead and %d calls, want 2 and 1", dead, len(c.tries))
		}
		w.empty()
	})
}

// copied puts copies of one suspect into the queue, each with its own processes that died of it.
func (w *world) copied(id string, died ...string) {
	w.t.Helper()
	e := envelope.Envelope{Message: stepwell.Message{ID: id, Value: []byte("x"), Attempt: 2, Origin: stepwell.Origin{Topic: "t"}}}
	for _, names := range died {
		m := e.Encode()
		m.Headers["x-stepwell-suspect"], m.Headers["x-stepwell-suspect-by"] = names, ""
		w.put(w.cfg.Queue, m)
	}
}

// A process that dies between the confirm of a suspect's copy and the ack of what it stands for
// leaves two of them.
func TestWhatCopiesOfASuspectToldOfDeathsCountsForAllOfThem(t *testing.T) {
	for _, c := range []struct {
		name      string
		copies    []string
		living    map[uint32]bool
		condemned bool
	}{
		{"each has too few", []string{"00000001,00000002", "00000003,00000004"}, nil, true},
		{"they tell of the same", []string{"00000001,00000002", "00000002,00000003"}, nil, false},
		{"one process lives", []string{"00000001,00000002", "00000003,00000004"}, map[uint32]bool{3: true}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, s, func(w *world) {
				w.cfg.Suspects.Limit = 3
				w.cfg.Suspects.Living = func(context.Context) (map[uint32]bool, error) { return c.living, nil }
				w.renew()
				w.copied("x", c.copies...)
				var made calls
				r := w.start(made.succeeding)
				time.Sleep(time.Hour)
				r.end()
				if dead := len(w.dead()); (dead > 0) != c.condemned || (len(made.tries) == 0) != c.condemned {
					t.Errorf("%d dead and %d calls", dead, len(made.tries))
				}
				w.empty()
			})
		})
	}
}

func TestTheCopyOfAMessageThatWasCondemnedHereIsARepeat(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit = 3
		w.renew()
		var made calls
		r := w.start(made.succeeding)
		for _, died := range []string{"00000001,00000002,00000003,00000004", "", "00000005"} {
			w.copied("x", died)
			time.Sleep(time.Hour)
		}
		r.end()
		if dead, repeats := len(w.dead()), w.owner.duplicates(); dead != 1 || repeats != 2 || len(made.tries) != 0 {
			t.Errorf("%d dead, %d repeats and %d calls, want 1, 2 and 0", dead, repeats, len(made.tries))
		}
		w.empty()
	})
}

// Else a stop, and a trial in the next process, would condemn it all the same.
func TestDeathsThatWereNoMessagesFaultAreForgottenForAllCopies(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit = 3
		w.renew()
		for _, id := range []string{"a", "b", "c"} {
			w.accused(id, 4)
		}
		called, finish := make(chan struct{}), make(chan struct{})
		r := w.start(func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
			close(called)
			<-finish // it heeds no stop: a copy has to say that it killed nobody
			return task.Abandoned
		})
		<-called
		r.stop()
		time.Sleep(3 * s)
		close(finish)
		r.end()
		var left []queue.Delivery
		ctx, end := context.WithCancel(w.t.Context())
		_ = w.broker.Consume(ctx, ctx, queue.Consumption{Queue: w.cfg.Queue, Handle: func(_ context.Context, d queue.Delivery) bool {
			left = append(left, d)
			end()
			return false
		}})
		if got := left[0].Headers["x-stepwell-suspect"]; got != "" || len(w.dead()) != 2 {
			t.Errorf("it is said to have killed %v", got)
		}
	})
}

// As settled it would be acked uncalled when it is handed out again, and be nowhere.
func TestAMessageThatTheDeadSetDoesNotTakeIsNotSettledByBeingCondemned(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit = 3
		var takes atomic.Bool
		w.refuses(func(m queue.Message) bool {
			_, suspect := m.Headers["x-stepwell-suspect"]
			return !suspect && !takes.Load()
		})
		w.accused("x", 4)
		var c calls
		r := w.start(c.succeeding)
		time.Sleep(10 * time.Minute)
		if n := len(w.dead()); n != 0 {
			t.Fatalf("%d in a dead set that takes nothing", n)
		}
		takes.Store(true)
		time.Sleep(10 * time.Minute)
		r.end()
		if e := w.oneDead(); e.Failure.Reason != stepwell.ReasonCrashLoop || len(c.tries) != 0 {
			t.Errorf("%s, after %d calls", e.Failure.Reason, len(c.tries))
		}
		w.empty()
	})
}

func TestATrialThatCannotSeeWhoLivesPutsTheMessageOffAndTriesAgain(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit = 3
		var sees atomic.Bool
		w.cfg.Suspects.Living = func(context.Context) (map[uint32]bool, error) {
			if !sees.Load() {
				return nil, errors.New("no broker answers")
			}
			return nil, nil
		}
		w.renew()
		w.accused("x", 1)
		var c calls
		r := w.start(c.succeeding)
		time.Sleep(10 * time.Minute)
		if n := len(c.attempts()); n != 0 {
			t.Errorf("%d calls while nobody can say who lives", n)
		}
		sees.Store(true)
		time.Sleep(5 * time.Minute)
		r.end()
		if len(c.tries) != 1 || len(w.dead()) != 0 {
			t.Errorf("%d calls", len(c.tries))
		}
		w.empty()
	})
}

func TestAStopEndsATrialAndGivesMessageAndTurnBack(t *testing.T) {
	inWorld(t, s, func(w *world) {
		var token solo.Token
		w.cfg.Suspects = inbox.Suspects{Limit: 3, Token: &token}
		w.renew()
		w.accused("x", 1)
		var c calls
		r := w.start(c.succeeding)
		time.Sleep(30 * s)
		other := &solo.Turn{Ready: func() {}}
		if st := w.inbox.Status(); st.Suspect == "" || token.Try(other) {
			t.Errorf("status %+v, and the token is free, while the trial is on", st)
		}
		began := time.Now()
		r.end()
		if took, n := time.Since(began), w.depth(w.cfg.Queue); took > 0 || n != 1 || len(c.tries) != 0 {
			t.Errorf("the stop took %v, %d are back, %d calls", took, n, len(c.tries))
		}
		if st := w.inbox.Status(); st.Suspect != "" || !token.Try(other) {
			t.Errorf("status %+v, and the token is taken, after the stop", st)
		}
	})
}

func TestASuspectIsShownWhileItRunsAndItsTurnEndsWithItsCall(t *testing.T) {
	inWorld(t, s, func(w *world) {
		var token solo.Token
		w.cfg.Suspects = inbox.Suspects{Limit: 3, Token: &token}
		w.returned("slow")
		w.renew()
		finish := make(chan struct{})
		r := w.start(func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
			<-finish
			return task.Settled
		})
		time.Sleep(time.Minute) // longer than the token is kept for the announced copy
		other := &solo.Turn{Ready: func() {}}
		if st := w.inbox.Status(); st.Suspect != "slow" || token.Try(other) {
			t.Errorf("status %+v while it runs", st)
		}
		close(finish)
		synctest.Wait()
		if st := w.inbox.Status(); st.Suspect != "" || !token.Try(other) {
			t.Errorf("status %+v afterwards", st)
		}
		r.end()
		w.empty()
	})
}
