package inbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/seats"
	"github.com/stepwell/stepwell/internal/task"
)

// What a process gives back in order did not kill it, whyever it does.
func TestASuspectThatIsGivenBackInOrderTellsOfNoDeath(t *testing.T) {
	for why, prepare := range map[string]func(w *world) inbox.Handle{
		"it waits for a seat": func(w *world) inbox.Handle {
			all := seats.New(1)
			all.First().Take(nil)
			w.cfg.Seats = all.Retry()
			return new(calls).succeeding
		},
		"its call ends without a verdict": func(*world) inbox.Handle {
			return func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
				time.Sleep(2 * s)
				return task.Abandoned
			}
		},
		"it cannot be parked": func(*world) inbox.Handle {
			return func(_ context.Context, _ *stepwell.Message, t inbox.Ticket) task.Outcome {
				t.Park(func(_ context.Context, _ *envelope.Envelope, done func(error)) { go done(errors.New("too large")) })
				return task.Pending
			}
		},
	} {
		t.Run(why, func(t *testing.T) {
			inWorld(t, s, func(w *world) {
				handle := prepare(w)
				w.cfg.Suspects.Limit = 1
				w.returned("innocent")
				for number := range uint32(5) {
					w.cfg.Suspects.Process = number + 7
					w.renew()
					r := w.start(handle)
					time.Sleep(61*s + s/2) // the probation, and the announcement
					r.end()
				}
				if n := len(w.dead()); n != 0 {
					t.Errorf("%d in the dead set, and no process has died", n)
				}
			})
		})
	}
}

func TestTheAnnouncedCopyOfAMessageThatRunsHereAndIsGivenBackTellsOfNoDeath(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit, w.cfg.Suspects.Process = 1, 7
		w.renew()
		r := w.start(func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
			time.Sleep(5 * s)
			return task.Abandoned
		})
		w.put(w.cfg.Queue, unsuspected("x"))
		time.Sleep(s)
		w.announced("x", "00000008") // it waits for how the other one ends
		time.Sleep(s)
		w.inbox.Pause()
		time.Sleep(10 * s)
		r.end()
		w.namesNobody(2)
	})
}

func TestAnAnnouncedCopyThatNoWorkerTookAndIsGivenBackTellsOfNoDeath(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit, w.cfg.Suspects.Process, w.cfg.Workers = 1, 7, 1
		w.cfg.HandlerTimeout = 10 * s // which lets more be prefetched than there is room for here
		w.renew()
		r := w.start(func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
			time.Sleep(5 * s)
			return task.Abandoned
		})
		for _, id := range []string{"runs", "waits for the worker"} {
			w.put(w.cfg.Queue, unsuspected(id))
		}
		w.announced("comes too late", "00000008")
		time.Sleep(s)
		w.inbox.Pause()
		time.Sleep(10 * s)
		r.end()
		w.namesNobody(3)
	})
}

// In a queue of somebody else's a header of that name is a stranger's, and its messages have
// properties that a copy would not have.
func TestAMessageOfSomebodyElsesIsGivenBackAsItIsWhateverItsHeadersSay(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Foreign, w.cfg.Workers, w.cfg.HandlerTimeout = true, 1, 10*s
		w.renew()
		r := w.start(func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
			time.Sleep(5 * s)
			return task.Settled
		})
		w.put(w.cfg.Queue, unsuspected("runs"))
		for _, id := range []string{"waits for the worker", "is taken by none"} {
			w.announced(id, "somebody")
		}
		time.Sleep(s)
		w.inbox.Pause()
		time.Sleep(10 * s)
		r.end()
		for _, by := range w.announcers(2) {
			if by != "somebody" {
				w.t.Errorf("a message came back with another header: %q", by)
			}
		}
	})
}

// namesNobody empties the queue of n messages, of which none is to name a process.
func (w *world) namesNobody(n int) {
	w.t.Helper()
	for _, by := range w.announcers(n) {
		if by != "" {
			w.t.Errorf("a copy came back and names process %s, which lives", by)
		}
	}
}

// announcers empties the queue of n messages, and returns whom each names.
func (w *world) announcers(n int) (all []string) {
	ctx, end := context.WithCancel(w.t.Context())
	_ = w.broker.Consume(ctx, ctx, queue.Consumption{Queue: w.cfg.Queue, Prefetch: func() int { return 9 }, Handle: func(_ context.Context, d queue.Delivery) bool {
		by, _ := d.Headers["x-stepwell-suspect-by"].(string)
		all = append(all, by)
		d.Ack()
		if len(all) == n {
			end()
		}
		return true
	}})
	return all
}
