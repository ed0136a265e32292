// Package solo lets one part of a process run while nothing else does.
//
// A message that is suspected of killing the process runs alone: else a death would say nothing about it, and the innocent would be
// blamed for what ran beside them.
package solo

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Room is where handlers are called. Many may be inside at once, or one who is alone. The zero value works.
type Room struct {
	inside atomic.Int64
	closed atomic.Bool // changed under mu

	mu        sync.Mutex
	turns     []*Turn // who wants to be alone, in order; the door is closed while there is one
	listeners []*listener
}

type listener struct{ opened func() }

// Turn is one party's wish to be alone. A party uses the same one again and again.
type Turn struct {
	// Ready is called, perhaps with locks of the caller of Leave, Request or Release held, when the party is alone. It must not block.
	Ready func()

	queued, granted bool
}

// Enter reports whether the caller is inside; who is leaves. It does not wait: it refuses while somebody is alone or wants to be.
func (r *Room) Enter() bool {
	r.inside.Add(1)
	if !r.closed.Load() {
		return true
	}
	r.Leave()
	return false
}

// Await is an Enter that waits until the door opens. It reports false, and the caller is not inside, when over is closed first.
func (r *Room) Await(over <-chan struct{}) bool {
	opened := make(chan struct{}, 1)
	defer r.Listen(func() {
		select {
		case opened <- struct{}{}:
		default:
		}
	})()
	for !r.Enter() {
		select {
		case <-opened:
		case <-over:
			return false
		}
	}
	return true
}

// Leave ends what a successful Enter began.
func (r *Room) Leave() {
	if r.inside.Add(-1) == 0 && r.closed.Load() {
		r.grant()
	}
}

// Closed says that Enter would refuse.
func (r *Room) Closed() bool { return r.closed.Load() }

// Request closes the door; t is alone as soon as all who are inside have left and earlier turns are over. To ask again changes nothing.
func (r *Room) Request(t *Turn) {
	r.mu.Lock()
	if !t.queued {
		t.queued = true
		r.turns = append(r.turns, t)
		r.closed.Store(true)
	}
	r.mu.Unlock()
	r.grant()
}

// Alone says whether t is.
func (r *Room) Alone(t *Turn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return t.granted
}

// Release ends a turn, or takes its request back. When no other waits the door opens.
func (r *Room) Release(t *Turn) {
	r.mu.Lock()
	if !t.queued {
		r.mu.Unlock()
		return
	}
	t.queued, t.granted = false, false
	r.turns = slices.DeleteFunc(r.turns, func(u *Turn) bool { return u == t })
	var listeners []*listener
	if len(r.turns) == 0 {
		r.closed.Store(false)
		listeners = slices.Clone(r.listeners)
	}
	r.mu.Unlock()
	for _, l := range listeners {
		l.opened()
	}
	r.grant()
}

// grant gives the first turn what it waits for, if nobody is inside.
func (r *Room) grant() {
	r.mu.Lock()
	var ready func()
	if len(r.turns) > 0 && !r.turns[0].granted && r.inside.Load() == 0 {
		r.turns[0].granted, ready = true, r.turns[0].Ready
	}
	r.mu.Unlock()
	if ready != nil {
		ready()
	}
}

// Listen calls opened, which must not block, each time the door opens after it was closed, until the returned function is called.
func (r *Room) Listen(opened func()) (end func()) {
	l := &listener{opened}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listeners = append(r.listeners, l)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.listeners = slices.DeleteFunc(r.listeners, func(other *listener) bool { return other == l })
	}
}
