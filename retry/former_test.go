package retry_test

import (
	"testing"
	"time"

	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/retry"
)

// An empty queue of a former delay may be deleted, while a message that came from it is still in
// the instant queue, with most of its wait left.
func TestAMessageOnItsWayDoesNotGoBackToTheQueueOfAFormerDelay(t *testing.T) {
	inWorld(t, retry.Linear(2*time.Hour, 0, 3), func(w *world) {
		former := w.retrier.Topology().Delays()[0]
		w.first(record("x"), retry.Failure{Err: errAway, After: 270 * time.Minute})
		began := time.Now()
		w.cfg.Delays = retry.Linear(s, 0, 3)
		w.renew()
		if err := w.retrier.Declare(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.retrier.Pause()
		var c calls
		r := w.start(c.succeeding)
		time.Sleep(3 * time.Hour)
		if n := w.depth(former); n != 0 {
			t.Errorf("%d messages are in the queue of the former delay", n)
		}
		w.broker.(*memory.Broker).Delete(former)
		w.retrier.Resume()
		time.Sleep(5 * time.Hour)
		r.stop()
		r.abort() // what cannot go on holds up no stop
		r.end()
		if len(c.at) != 1 || c.at[0].Sub(began) < 270*time.Minute {
			t.Errorf("called at %v", c.at)
		}
	})
}
