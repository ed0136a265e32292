package inbox_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/solo"
	"github.com/stepwell/stepwell/internal/task"
)

// announced puts the copy of a suspect into the queue that names the process which runs it.
func (w *world) announced(id, process string) {
	w.t.Helper()
	e := envelope.Envelope{Message: stepwell.Message{ID: id, Value: []byte("x"), Attempt: 2, Origin: stepwell.Origin{Topic: "t"}}}
	m := e.Encode()
	m.Headers["x-stepwell-suspect"], m.Headers["x-stepwell-suspect-by"] = "", process
	w.put(w.cfg.Queue, m)
}

// If it ran here as it is, and ended this process, the death would be put down to the other one.
func TestTheCopyOfASuspectThatNamesAProcessWhichIsGoneRunsElsewhereUnderItsOwnName(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit, w.cfg.Suspects.Process = 3, 7
		w.renew()
		w.announced("x", "00000008")
		var c calls
		r := w.start(c.succeeding)
		synctest.Wait()
		if n := len(c.attempts()); n != 0 {
			t.Errorf("%d calls under the name of another process", n)
		}
		time.Sleep(30 * time.Second) // no trial: nobody has died
		r.end()
		if n := len(c.attempts()); n != 1 {
			t.Errorf("%d calls", n)
		}
		w.empty()
	})
}

func TestTheCopyOfASuspectThatComesLateWaitsForTheTokenAgain(t *testing.T) {
	inWorld(t, s, func(w *world) {
		var token solo.Token
		w.cfg.Suspects.Limit, w.cfg.Suspects.Process, w.cfg.Suspects.Token = 3, 7, &token
		w.renew()
		other := &solo.Turn{Ready: func() {}}
		if !token.Try(other) {
			t.Fatal("the token is taken")
		}
		w.announced("x", "00000007")
		var c calls
		r := w.start(c.succeeding)
		time.Sleep(time.Minute)
		if n := len(c.attempts()); n != 0 {
			t.Errorf("%d calls beside another suspect", n)
		}
		token.Release(other)
		time.Sleep(time.Minute)
		r.end()
		if n := len(c.attempts()); n != 1 {
			t.Errorf("%d calls once the token was free", n)
		}
		w.empty()
	})
}

func TestOnceASuspectCameToItsEndOthersAreCondemnedAgain(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit = 3
		w.renew()
		var c calls
		r := w.start(c.succeeding)
		for _, id := range []string{"a", "b", "runs", "d"} {
			w.accused(id, 4)
			time.Sleep(time.Hour)
		}
		r.end()
		if dead := len(w.dead()); dead != 3 || len(c.tries) != 1 || c.tries[0].ID != "runs" {
			t.Errorf("%d dead and %d calls, want 3 and 1", dead, len(c.tries))
		}
	})
}

// The message belongs to the handler, which may change it.
func TestWhatAHandlerChangesInItsMessageIsNotWhatIsParked(t *testing.T) {
	inWorld(t, time.Hour, func(w *world) {
		e := envelope.Envelope{Message: stepwell.Message{
			ID: "t:0:1", Value: []byte("x"), Attempt: 2, Origin: stepwell.Origin{Topic: "t"},
			Headers: []stepwell.Header{{Key: "a", Value: []byte("1")}},
		}}
		w.put(w.cfg.Queue, e.Encode())
		var c calls
		first := w.start(func(_ context.Context, m *stepwell.Message, t inbox.Ticket) task.Outcome {
			m.Headers[0] = stepwell.Header{Key: "b"}
			return w.park(t)
		})
		synctest.Wait()
		first.end()
		next := w.start(c.succeeding)
		time.Sleep(2 * time.Hour)
		next.end()
		if len(c.tries) != 1 || !slices.EqualFunc(c.tries[0].Headers, e.Message.Headers, func(a, b stepwell.Header) bool { return a.Key == b.Key }) {
			t.Errorf("the next try has %+v", c.tries)
		}
	})
}
