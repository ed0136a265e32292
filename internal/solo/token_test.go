package solo

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestOnePartyAtATimeHoldsTheTokenAndEachGetsItsTurn(t *testing.T) {
	var k Token
	var holders atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			ready := make(chan struct{}, 1)
			turn := &Turn{Ready: func() { ready <- struct{}{} }}
			for range 500 {
				k.Request(turn)
				k.Request(turn)
				<-ready
				if !k.Holds(turn) || holders.Add(1) != 1 {
					t.Error("another holds it too")
				}
				holders.Add(-1)
				k.Release(turn)
			}
		})
	}
	all.Wait()
	if len(k.turns) != 0 {
		t.Errorf("%d turns are left", len(k.turns))
	}
}

func TestWhoTriesGetsTheTokenOnlyWhereNobodyHoldsIt(t *testing.T) {
	var k Token
	held, other := &Turn{Ready: func() {}}, &Turn{Ready: func() {}}
	k.Request(held)
	if k.Try(other) || k.Holds(other) {
		t.Error("taken though another holds it")
	}
	k.Release(held)
	if !k.Try(other) || !k.Holds(other) {
		t.Error("not taken though nobody holds it")
	}
}

func TestARequestThatIsTakenBackGetsNothing(t *testing.T) {
	var k Token
	var called []string
	turn := func(name string) *Turn { return &Turn{Ready: func() { called = append(called, name) }} }
	first, second, third := turn("first"), turn("second"), turn("third")
	for _, u := range []*Turn{first, second, third} {
		k.Request(u)
	}
	k.Release(second)
	k.Release(first)
	if len(called) != 2 || called[1] != "third" || !k.Holds(third) {
		t.Errorf("called %v", called)
	}
}
