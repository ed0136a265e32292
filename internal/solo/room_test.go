package solo

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestWhoIsAloneHasNobodyBeside(t *testing.T) {
	var r Room
	var inside, alone atomic.Int64
	var all sync.WaitGroup
	opened := make(chan struct{}, 1)
	defer r.Listen(func() {
		select {
		case opened <- struct{}{}:
		default:
		}
	})()
	for range 4 {
		all.Go(func() {
			for range 2000 {
				if !r.Enter() {
					continue
				}
				inside.Add(1)
				if alone.Load() > 0 {
					t.Error("somebody is inside though another is alone")
				}
				inside.Add(-1)
				r.Leave()
			}
		})
	}
	for range 2 {
		all.Go(func() {
			ready := make(chan struct{}, 1)
			turn := &Turn{Ready: func() { ready <- struct{}{} }}
			for range 500 {
				r.Request(turn)
				<-ready
				if !r.Alone(turn) || alone.Add(1) > 1 || inside.Load() > 0 {
					t.Error("alone, but not the only one")
				}
				alone.Add(-1)
				r.Release(turn)
			}
		})
	}
	all.Wait()
	<-opened
	if r.Closed() || !r.Enter() {
		t.Error("the door stays closed")
	}
}

func TestARequestThatIsTakenBackOpensTheDoor(t *testing.T) {
	var r Room
	granted := false
	turn := &Turn{Ready: func() { granted = true }}
	r.Enter()
	r.Request(turn)
	if r.Enter() {
		t.Error("somebody enters while another waits to be alone")
	}
	r.Release(turn)
	if !r.Enter() {
		t.Error("nobody enters though nobody wants to be alone")
	}
	r.Leave()
	r.Leave()
	if granted {
		t.Error("a request that was taken back was granted")
	}
}
