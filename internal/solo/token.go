// Package solo has the one token of a process that a suspect holds while it runs.
//
// A message that may have killed the process runs while no other suspect does: else a death would
// say nothing about which of them is to blame. Whoever is not suspected needs no token and waits
// for nobody.
package solo

import (
	"slices"
	"sync"
)

// Token is held by one party at a time. The zero value is free.
type Token struct {
	mu sync.Mutex
	// turns has who holds the token, and behind it who waits, in order.
	turns []*Turn
}

// Turn is one party's wish to hold the token. A party uses the same one again and again.
type Turn struct {
	// Ready is called, perhaps with locks of the caller of Request or Release held, when the party
	// has come to hold the token. It must not block.
	Ready func()
}

// Request takes the token, now or when those who asked before have released it: then t.Ready is
// called. To ask again changes nothing.
func (k *Token) Request(t *Turn) {
	k.mu.Lock()
	if slices.Contains(k.turns, t) {
		k.mu.Unlock()
		return
	}
	k.turns = append(k.turns, t)
	first := len(k.turns) == 1
	k.mu.Unlock()
	if first {
		t.Ready()
	}
}

// Try takes the token if nobody holds it.
func (k *Token) Try(t *Turn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.turns) > 0 {
		return false
	}
	k.turns = append(k.turns, t)
	return true
}

// Holds says whether t holds the token.
func (k *Token) Holds(t *Turn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.turns) > 0 && k.turns[0] == t
}

// Release gives the token to who waits next, or takes a request back.
func (k *Token) Release(t *Turn) {
	k.mu.Lock()
	at := slices.Index(k.turns, t)
	if at >= 0 {
		k.turns = slices.Delete(k.turns, at, at+1)
	}
	var next *Turn
	if at == 0 && len(k.turns) > 0 {
		next = k.turns[0]
	}
	k.mu.Unlock()
	// Without the lock, since Ready may ask for the token, or release it.
	if next != nil {
		next.Ready()
	}
}
