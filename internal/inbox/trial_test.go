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
