package inbox_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/task"
)

// gathered are the messages that wait for a call, as who makes the call knows them.
type gathered struct {
	mu      sync.Mutex
	tickets []task.Ticket
	full    int // how often no more were handed out
}

// of are the places of the messages that came, from one on.
func (g *gathered) of(from int) (origins []task.Gatherable, offsets []int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.tickets[from:] {
		origin, offset := g.tickets[from+i].Place()
		origins, offsets = append(origins, origin), append(offsets, offset)
	}
	return origins, offsets
}

// ticket is that of the message which came at that place.
func (g *gathered) ticket(i int) task.Ticket {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tickets[i]
}

// gather starts an inbox that holds at most so many messages, all of which wait for a call.
func (w *world) gather(most int) (*running, *gathered) {
	g := &gathered{}
	w.cfg.Workers = 1
	w.cfg.Gather = &inbox.Gather{Messages: most, Full: func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.full++
	}}
	w.renew()
	return w.start(func(_ context.Context, _ *stepwell.Message, t inbox.Ticket) task.Outcome {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.tickets = append(g.tickets, t.Ticket)
		return task.Gathered
	}), g
}

// has checks how many messages the inbox has in hand, and how many are ready in the queue.
func (w *world) has(inHand, ready int) {
	w.t.Helper()
	if n := w.inbox.Status().InFlight; n != inHand || w.depth(w.cfg.Queue) != ready {
		w.t.Errorf("%d in hand and %d in the queue, want %d and %d", n, w.depth(w.cfg.Queue), inHand, ready)
	}
}

func TestOfABatchWhatIsSettledIsAckedAndWhatHasNoVerdictComesAgain(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		r, g := w.gather(10)
		w.instant(1, 2, 3)
		synctest.Wait()
		origins, offsets := g.of(0)
		if !slices.Equal(offsets, []int64{1, 2, 3}) {
			t.Fatalf("the places of three messages are %v, want those of their order", offsets)
		}
		of := origins[0]
		of.Ended(offsets[:1], task.Settled)
		of.Ended(offsets[1:2], task.Abandoned)
		of.Ended(offsets[2:], task.Pending) // on its way elsewhere
		synctest.Wait()
		w.has(2, 0) // the third, and the second once more
		if _, again := g.of(3); !slices.Equal(again, []int64{4}) {
			t.Fatalf("what came again has the places %v, want a new one", again)
		}
		g.ticket(2).Settle()
		g.ticket(2).Settle()
		of.Ended(offsets, task.Abandoned) // each had its end
		synctest.Wait()
		w.has(1, 0)
		g.ticket(3).Settle()
		r.end()
		w.has(0, 0)
	})
}

// likeRabbitMQ is a broker that is told another prefetch only where it is off by more than a factor
// of two, and a smaller one only while it is not busy: every five seconds.
type likeRabbitMQ struct {
	queue.Broker
	busy *atomic.Bool
}

func (b likeRabbitMQ) Consume(stop, work context.Context, c queue.Consumption) error {
	wanted, has := c.Prefetch, 0
	c.Prefetch = func() int {
		if n := wanted(); has == 0 || n > 2*has || has > 2*n && !b.busy.Load() {
			has = n
		}
		return has
	}
	return b.Broker.Consume(stop, work, c)
}

// What fits into the bytes is not what the broker was told: messages have become smaller, or one
// was larger.
func TestABatchIsToldThatNoMoreComesWhateverWouldFitNow(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		var busy atomic.Bool
		w.cfg.Broker, w.cfg.Prefetch = likeRabbitMQ{w.broker, &busy}, inbox.Prefetch{Bytes: 100_000}
		r, g := w.gather(300)
		next, done := 0, 0
		put := func(n, bytes int) {
			for range n {
				next++
				e := &envelope.Envelope{Message: stepwell.Message{Stream: "orders", Value: make([]byte, bytes), Attempt: 1, Origin: stepwell.Origin{Topic: "t", Offset: int64(next)}}}
				w.put(w.cfg.Queue, e.Encode())
			}
			synctest.Wait()
		}
		settle := func() {
			for done < next {
				synctest.Wait()
				origins, offsets := g.of(done)
				if len(offsets) == 0 {
					t.Fatalf("%d came", done)
				}
				if last := done+len(offsets) == next; !last && g.full == 0 {
					t.Fatalf("after %d no more came than %d, and it was not told", done, len(offsets))
				}
				g.full = 0
				done += len(offsets)
				origins[0].Ended(offsets, task.Settled)
			}
		}
		put(1, 5000)
		put(400, 3500)
		settle()
		busy.Store(true)
		put(1, 25_000)
		put(600, 2600)
		settle()
		r.end()
	})
}

func TestABatchIsToldThatNoMoreComesOnceAllThatMayBeHeldWaits(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		r, g := w.gather(3)
		w.instant(1, 2)
		synctest.Wait()
		if g.full != 0 {
			t.Error("two of three are held, and it is full")
		}
		w.instant(3, 4)
		synctest.Wait()
		if w.has(3, 1); g.full != 1 {
			t.Errorf("three are held, and it was told %d times that it is full, want once", g.full)
		}
		g.ticket(0).Settle() // so that there is room for the fourth
		synctest.Wait()
		if w.has(3, 0); g.full != 2 {
			t.Errorf("full again, and it was told %d times in all, want twice", g.full)
		}
		g.ticket(1).Settle()
		g.ticket(2).Settle()
		w.instant(5)
		synctest.Wait()
		if w.has(2, 0); g.full != 2 {
			t.Errorf("two of three are held, and it was told that it is full once more")
		}
		r.stop()
		origins, offsets := g.of(3)
		origins[0].Ended(offsets, task.Abandoned)
		r.end()
		w.has(0, 2)
	})
}

func TestAPauseEndsAGatheringAndWhatComesAfterItIsOfAnother(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		r, g := w.gather(10)
		w.instant(1)
		synctest.Wait()
		before, offsets := g.of(0)
		if before[0].Halted() {
			t.Error("halted while messages are handed out")
		}
		w.inbox.Pause()
		if !before[0].Halted() || before[0].Calls().Err() != nil {
			t.Errorf("in a pause: halted %v, and its calls end with %v, want those that run to go on", before[0].Halted(), before[0].Calls().Err())
		}
		w.inbox.Resume()
		if before[0].Calls().Err() == nil {
			t.Error("after the pause what was gathered before it may be called still")
		}
		w.instant(2)
		synctest.Wait()
		if after, _ := g.of(1); after[0] == before[0] || after[0].Halted() || after[0].Calls().Err() != nil {
			t.Error("what came after the pause cannot be told from what came before, or is not to be called")
		}
		before[0].Ended(offsets, task.Settled) // its call ran all the while
		synctest.Wait()
		w.has(1, 0)
		w.inbox.Resume() // which ends nothing: there was no pause
		if after, _ := g.of(1); after[0].Calls().Err() != nil {
			t.Error("a second resume ended the calls")
		}
		g.ticket(1).Settle()
		r.end()
	})
}

func TestAStopHaltsAGatheringAndItsCallsLiveAsLongAsWorkDoes(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		r, g := w.gather(10)
		w.instant(1)
		synctest.Wait()
		origins, offsets := g.of(0)
		of := origins[0]
		r.stop()
		if !of.Halted() || of.Calls().Err() != nil || of.Context().Err() != nil {
			t.Errorf("at a stop: halted %v, calls end with %v, settling with %v", of.Halted(), of.Calls().Err(), of.Context().Err())
		}
		of.Ended(offsets, task.Settled)
		r.end() // which ends work
		if of.Calls().Err() == nil || of.Context().Err() == nil {
			t.Error("work has ended, and calls or settling have not")
		}
		w.has(0, 0)
	})
}

func TestWhatABatchCannotParkRestsAMinuteAndIsGivenBackUnlessItWasSettled(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		r, g := w.gather(10)
		w.instant(1, 2)
		synctest.Wait()
		g.ticket(0).Settle()
		for i := range 2 {
			g.ticket(i).Refused(errors.New("no confirm"))
		}
		time.Sleep(59 * s)
		w.has(1, 0)
		if _, again := g.of(2); len(again) != 0 {
			t.Errorf("%d came again before the minute was over", len(again))
		}
		time.Sleep(2 * s)
		origins, again := g.of(2)
		if len(again) != 1 {
			t.Fatalf("%d came again after a minute, want the one that was not settled", len(again))
		}
		origins[0].Ended(again, task.Settled)
		r.end()
		w.has(0, 0)
	})
}

// What a queue of somebody else's hands out again goes elsewhere first: see Config.Divert.
func TestWhatIsGatheredHadNoTryAndIsNoSuspect(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		r, g := w.gather(10)
		w.put(w.cfg.Queue, (&envelope.Envelope{
			Message: stepwell.Message{ID: "t:0:1", Stream: "orders", Value: []byte("x"), Attempt: 1}, TraceParent: "00-1-2-01",
		}).Encode())
		synctest.Wait()
		ticket := g.ticket(0)
		if parent, _ := ticket.Trace(); parent != "" || ticket.Alone() {
			t.Errorf("its first try is %q, and it runs alone: %v", parent, ticket.Alone())
		}
		ticket.Settle()
		r.end()
	})
}
