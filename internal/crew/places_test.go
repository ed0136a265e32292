package crew

import (
	"context"
	"testing"
	"testing/synctest"
)

// The state is set by hand: a worker that was called and does not have the lock yet is hardly ever
// met with goroutines.
func TestAFreeLaneIsNotKeptFromAWorkerThatComesBackFromARest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{Size: 2})
		called, calling, first, second := newWorker(c), newWorker(c), newWorker(c), newWorker(c)
		c.place(called)
		c.place(calling)
		first.lane, second.lane = noLane, noLane
		c.idle = 1 // called was
		s := newSource(c, nil)
		defer s.cancel()
		s.roster.Offer()
		halted := make(chan struct{})
		defer close(halted)
		entered := map[*worker]bool{}
		for _, w := range []*worker{first, second} {
			go func() { entered[w] = c.enter(context.Background(), w, halted) }()
			synctest.Wait()
		}
		c.leave(calling) // the first comes back, though a roster waits: the next turn is the roster's
		synctest.Wait()
		c.leave(first)
		c.idle-- // now called has the lock
		if r := c.take(called); r != s.roster {
			t.Fatal("the worker that was called did not take the roster")
		}
		synctest.Wait()
		if !entered[second] {
			t.Error("a lane is free, and a worker that comes back waits until the call of another is over")
		}
	})
}
