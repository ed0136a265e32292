package inbox_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/task"
)

// While the broker confirms nothing it may hand out what is on its way to another queue again and
// again, once after each lost connection.
func TestWhatIsToBeMovedIsThereOnceHoweverOftenItsSessionEndsBefore(t *testing.T) {
	for what, put := range map[string]func(w *world){
		"what is diverted": func(w *world) {
			w.put(w.cfg.Queue, queue.Message{ID: "x", Headers: map[string]any{"elsewhere": "orders.dead"}})
		},
		"a message of a newer version": func(w *world) {
			w.put(w.cfg.Queue, queue.Message{ID: "x", Headers: map[string]any{"x-stepwell": "v99"}})
		},
		"junk":                                  func(w *world) { w.put(w.cfg.Queue, queue.Message{ID: "x", Body: []byte("junk")}) },
		"a suspect that is announced":           func(w *world) { w.announced("x", "") },
		"the copy of a suspect for another one": func(w *world) { w.announced("x", "00000008") },
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, 10*time.Minute, func(w *world) {
				w.cfg.Suspects.Limit, w.cfg.Suspects.Process = 3, 7
				w.renew()
				put(w)
				broker := w.broker.(*memory.Broker)
				broker.Block(true)
				var c calls
				r := w.start(c.succeeding)
				time.Sleep(s)
				for range 5 {
					broker.SetUp(false)
					time.Sleep(s)
					broker.SetUp(true)
					time.Sleep(s)
				}
				if n := w.inbox.Status().InFlight; n > 2 { // one may be on trial beside
					t.Errorf("%d deliveries of one message are in hand", n)
				}
				broker.Block(false)
				time.Sleep(2 * time.Minute) // the trial of a suspect that came back
				r.end()
				synctest.Wait()
				n := len(c.attempts()) + w.owner.duplicates()
				for _, q := range w.specs {
					n += w.depth(q.Name)
				}
				if n != 1 {
					t.Errorf("the message is there %d times", n)
				}
			})
		})
	}
}

// lingering is a broker whose consumer still takes acks when it is known of all publishes that they
// were given up: it has a connection of its own.
type lingering struct{ queue.Broker }

func (b lingering) Consume(stop, work context.Context, c queue.Consumption) error {
	later, end := context.WithCancel(context.WithoutCancel(work))
	defer context.AfterFunc(work, func() { time.AfterFunc(s, end) })()
	return b.Broker.Consume(stop, later, c)
}

// The broker takes nothing that is published meanwhile, but acks.
func TestWhatIsOnItsWayWhenWorkEndsIsInAQueueAfterwards(t *testing.T) {
	for what, m := range map[string]queue.Message{
		"a retry that failed":          (&envelope.Envelope{Message: stepwell.Message{ID: "fails", Attempt: 2}}).Encode(),
		"a message that is dead":       (&envelope.Envelope{Message: stepwell.Message{ID: "dies", Attempt: 2}}).Encode(),
		"junk":                         {ID: "x", Body: []byte("junk")},
		"a hop":                        {ID: "x", Headers: map[string]any{"elsewhere": "orders.dead"}},
		"a message of a newer version": {ID: "x", Headers: map[string]any{"x-stepwell": "v99"}},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, time.Hour, func(w *world) {
				w.cfg.Broker = lingering{w.broker}
				w.renew()
				w.owner.incomplete = func(e *envelope.Envelope) (string, error) {
					if e.Message.ID == "dies" {
						return stepwell.ReasonGone, errors.New("it is gone")
					}
					return "", nil
				}
				w.put(w.cfg.Queue, m)
				w.broker.(*memory.Broker).Block(true)
				r := w.start(new(calls).parked(w))
				time.Sleep(s)
				r.stop()
				time.Sleep(s)
				r.abort()
				r.end()
				w.broker.(*memory.Broker).Block(false)
				synctest.Wait()
				n := 0
				for _, q := range w.specs {
					n += w.depth(q.Name)
				}
				if n != 1 || w.inbox.Status().InFlight != 0 {
					t.Errorf("the message is there %d times, %d are in hand", n, w.inbox.Status().InFlight)
				}
			})
		})
	}
}

// Each has its message, body and all, and the call may take long.
func TestWhileAMessageRunsItsRepeatsOfEarlierSessionsAreNotKept(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.instant(1)
		r := w.start(func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
			time.Sleep(time.Minute)
			return task.Settled
		})
		time.Sleep(s)
		for range 5 {
			w.broker.(*memory.Broker).SetUp(false)
			time.Sleep(s)
			w.broker.(*memory.Broker).SetUp(true)
			time.Sleep(s)
		}
		if n := w.inbox.Status().InFlight; n != 2 {
			t.Errorf("%d deliveries are in hand, want the one that runs and the last", n)
		}
		time.Sleep(time.Minute)
		r.end()
		if n := w.inbox.Status().InFlight; n != 0 || w.owner.duplicates() != 1 {
			t.Errorf("%d are in hand at the end, and %d were repeats, want 0 and 1", n, w.owner.duplicates())
		}
		w.empty()
	})
}
