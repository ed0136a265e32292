package streams

import (
	"context"
	"sync"
)

// gate lets either polls or a change of the assignment through, never both. The client drops what
// it has buffered of a partition before it tells us that the partition is gone, but a poll that
// began earlier may still come back with it: were the partition assigned anew meanwhile, old
// records would enter the new window.
//
// A change goes first: it cancels the polls, which then return without records.
type gate struct {
	mu       sync.Mutex
	free     *sync.Cond
	polls    int // that run
	changing bool
	changes  int // that wait or run
	cancel   context.CancelFunc
	pollable context.Context
}

func newGate() *gate {
	g := &gate{cancel: func() {}}
	g.free = sync.NewCond(&g.mu)
	return g
}

// poll runs fn when no change waits. The context it gets ends when a change wants to run, or with
// ctx.
func (g *gate) poll(ctx context.Context, fn func(context.Context)) {
	g.mu.Lock()
	for g.changes > 0 {
		g.free.Wait()
	}
	g.polls++
	if g.pollable == nil || g.pollable.Err() != nil {
		g.cancel()
		g.pollable, g.cancel = context.WithCancel(ctx)
	}
	pollable := g.pollable
	g.mu.Unlock()
	defer g.leave(func() { g.polls-- })
	fn(pollable)
}

// change runs fn while nothing polls, and nothing else changes.
func (g *gate) change(fn func()) {
	g.mu.Lock()
	g.changes++
	g.cancel()
	for g.polls > 0 || g.changing {
		g.free.Wait()
	}
	g.changing = true
	g.mu.Unlock()
	defer g.leave(func() { g.changing, g.changes = false, g.changes-1 })
	fn()
}

func (g *gate) leave(note func()) {
	g.mu.Lock()
	note()
	g.mu.Unlock()
	g.free.Broadcast()
}

// end releases what the last poll's context holds. No poll may follow.
func (g *gate) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cancel()
}
