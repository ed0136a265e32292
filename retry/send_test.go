package retry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/retry"
)

func TestADeadMessageSaysHowOftenItWasTriedAndWhenAndInWhichTraceItFailedFirst(t *testing.T) {
	const retries = envelope.MaxHistory + 2 // so that the first try is none of those that are told
	inWorld(t, retry.Linear(s, 0, retries), func(w *world) {
		began := time.Now()
		r := w.start(func(_ context.Context, _ *stepwell.Message, t retry.Ticket) task.Outcome {
			t.Fail(retry.Failure{Err: errAway, TraceParent: "00-later", TraceState: "c=d"})
			return task.Pending
		})
		w.first(record("x"), retry.Failure{Err: errAway, TraceParent: "00-first", TraceState: "a=b"})
		time.Sleep(time.Minute)
		synctest.Wait()
		r.end()
		e := w.oneDead()
		if e.Of != 1+retries || !e.Message.FirstFailed.Equal(began) || e.TraceParent != "00-first" || e.TraceState != "a=b" {
			t.Errorf("of %d tries, first failed %v after the beginning, in trace %q %q", e.Of,
				e.Message.FirstFailed.Sub(began), e.TraceParent, e.TraceState)
		}
	})
}

func TestAMessageIsParkedForItsStreamWhateverTheHandlerWroteThere(t *testing.T) {
	inWorld(t, retry.Linear(s, 0, 1), func(w *world) {
		m := record("x")
		m.Stream = "parcels"
		w.first(m, retry.Failure{Err: errAway, Reason: stepwell.ReasonDeadLetter})
		if e := w.oneDead(); e.Message.Stream != "orders" {
			t.Errorf("stream %q", e.Message.Stream)
		}
	})
}

func TestWhatWasParkedIsNoReasonToWaitForWhatTheBrokerRefuses(t *testing.T) {
	inWorld(t, retry.Linear(s, 0, 1), func(w *world) {
		relents, _ := w.grudging()
		relents.Store(true)
		w.first(record("parked"), retry.Failure{Err: errAway})
		relents.Store(false)
		parked := make(chan error, 1)
		w.retrier.Fail(w.t.Context(), record("refused"), nil, retry.Failure{Err: errAway}, func(err error) { parked <- err })
		synctest.Wait()
		if st := w.retrier.Status(); st.Hopeful {
			w.t.Errorf("it waits for what is parked: %+v", st)
		}
		relents.Store(true)
		if err := <-parked; err != nil {
			w.t.Errorf("park: %v", err)
		}
	})
}
