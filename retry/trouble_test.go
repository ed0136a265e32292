package retry_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/retry"
)

// grudging makes the broker refuse everything until it is told to relent. What is logged is in the
// buffer.
func (w *world) grudging() (relents *atomic.Bool, log *bytes.Buffer) {
	relents, log = &atomic.Bool{}, &bytes.Buffer{}
	w.cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	w.refuses(func(queue.Message) bool { return !relents.Load() })
	return relents, log
}

func TestAFirstFailureThatTheBrokerDoesNotTakeIsToldAndTriedAgainUntilItDoes(t *testing.T) {
	inWorld(t, retry.Linear(s, 0, 2), func(w *world) {
		relents, log := w.grudging()
		parked := make(chan error, 2)
		for range 2 {
			w.retrier.Fail(w.t.Context(), record("x"), nil, retry.Failure{Err: errAway}, func(err error) { parked <- err })
		}
		synctest.Wait()
		if st := w.retrier.Status(); !strings.Contains(st.Trouble, "2 messages cannot be parked") || !strings.Contains(st.Trouble, "larger than the broker takes") || st.Hopeful {
			w.t.Errorf("status %+v", st)
		}
		time.Sleep(150 * s)
		synctest.Wait()
		if lines := strings.Count(log.String(), "level=ERROR"); lines != 3 || !strings.Contains(log.String(), "cannot be parked") {
			w.t.Errorf("%d lines in two and a half minutes, want 3:\n%s", lines, log)
		}
		if len(parked) > 0 {
			w.t.Errorf("it was given up: %v", <-parked)
		}
		relents.Store(true)
		for range 2 {
			if err := <-parked; err != nil {
				w.t.Errorf("park: %v", err)
			}
		}
		if st := w.retrier.Status(); st.Trouble != "" || !st.Hopeful {
			w.t.Errorf("afterwards: %+v", st)
		}
		if all := w.dead(); len(all) != 2 { // it is a pointer by then
			w.t.Errorf("%d messages are parked, want 2", len(all))
		}
	})
}

func TestAFirstFailureThatCannotBeParkedIsGivenUpWhenItsContextEnds(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.grudging()
		ctx, cancel := context.WithCancel(w.t.Context())
		parked := make(chan error, 1)
		w.retrier.Fail(ctx, record("x"), nil, retry.Failure{Err: errAway}, func(err error) { parked <- err })
		synctest.Wait()
		began := time.Now()
		cancel()
		if err := <-parked; !errors.Is(err, queue.ErrTooLarge) || time.Since(began) > 0 {
			w.t.Errorf("after %v: %v", time.Since(began), err)
		}
		if st := w.retrier.Status(); st.Trouble != "" || !st.Hopeful {
			w.t.Errorf("afterwards: %+v", st)
		}
	})
}

func TestAFirstFailureThatIsInNoLogAndTooLargeIsGivenUpAtOnce(t *testing.T) {
	inWorld(t, retry.Linear(s, 0, 2), func(w *world) {
		w.grudging()
		parked := make(chan error, 1)
		m := record("x")
		m.Origin = stepwell.Origin{Queue: &stepwell.QueueOrigin{Name: "payments"}}
		began := time.Now()
		w.retrier.Fail(w.t.Context(), m, nil, retry.Failure{Err: errAway}, func(err error) { parked <- err })
		if err := <-parked; !errors.Is(err, queue.ErrTooLarge) || time.Since(began) > 0 {
			w.t.Errorf("after %v: %v", time.Since(began), err)
		}
		if st := w.retrier.Status(); !st.Hopeful {
			w.t.Errorf("afterwards: %+v", st)
		}
	})
}

func TestOneFailureOnItsWayBesideARefusedOneIsWorthWaitingFor(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		relents, _ := w.grudging()
		w.retrier.Fail(w.t.Context(), record("x"), nil, retry.Failure{Err: errAway}, func(error) {})
		synctest.Wait()
		relents.Store(true)
		w.broker.(*memory.Broker).Block(true)
		w.retrier.Fail(w.t.Context(), record("y"), nil, retry.Failure{Err: errAway}, func(error) {})
		synctest.Wait()
		if st := w.retrier.Status(); !st.Hopeful {
			w.t.Errorf("status %+v", st)
		}
		w.broker.(*memory.Broker).Block(false)
		time.Sleep(2 * time.Minute)
	})
}
