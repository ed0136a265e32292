package webhook

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestAHostHasNoMoreCallsAtOnceThanItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGates(2)
		a, b := g.enter(t.Context(), "x"), g.enter(t.Context(), "x")
		if a == nil || b == nil || g.enter(t.Context(), "y") == nil {
			t.Fatal("there is room")
		}
		began := time.Now()
		if g.enter(t.Context(), "x") != nil {
			t.Error("a third call entered")
		}
		if waited := time.Since(began); waited != longestWait {
			t.Errorf("waited for %s, want %s", waited, longestWait)
		}
		time.Sleep(10 * time.Second)
		a.leave(up) // it took long: from here on nobody waits in the process
		if c := g.enter(t.Context(), "x"); c == nil {
			t.Error("the place that was given back is not free")
		}
		began = time.Now()
		if g.enter(t.Context(), "x") != nil || time.Since(began) > 0 {
			t.Errorf("a call waited for %s for a slow host", time.Since(began))
		}
		b.leave(up)
	})
}

func TestACallWaitsInTheProcessForAHostThatIsFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGates(2)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				p := g.enter(t.Context(), "x")
				if p == nil {
					t.Error("put off")
					return
				}
				time.Sleep(2 * time.Millisecond)
				p.leave(up)
			})
		}
		all.Wait()
		if len(g.hosts) > 0 {
			t.Errorf("%d hosts are remembered of which there is nothing to remember", len(g.hosts))
		}
	})
}

func TestAGateIsShutAfterFailuresInARowAndOneAtATimeLooksWhetherTheHostIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGates(8)
		fail := func() {
			p := g.enter(t.Context(), "x")
			if p == nil {
				t.Fatal("shut too early")
			}
			p.leave(down)
		}
		for range tooMany - 1 {
			fail()
		}
		g.enter(t.Context(), "x").leave(up) // a success between them: they are not in a row
		for range tooMany {
			fail()
		}
		for _, shut := range []time.Duration{5, 10, 20, 40, 60, 60} {
			time.Sleep(shut*time.Second - time.Millisecond)
			if g.enter(t.Context(), "x") != nil {
				t.Fatalf("open before %ds", shut)
			}
			time.Sleep(time.Millisecond)
			probe := g.enter(t.Context(), "x")
			if probe == nil {
				t.Fatalf("still shut after %ds", shut)
			}
			if g.enter(t.Context(), "x") != nil {
				t.Fatal("two look at once whether the host is back")
			}
			probe.leave(down)
		}
		if g.enter(t.Context(), "y") == nil {
			t.Error("another host is shut too")
		}
		time.Sleep(time.Minute)
		g.enter(t.Context(), "x").leave(unknown) // stopped: the next one looks
		g.enter(t.Context(), "x").leave(up)
		for range 8 {
			if g.enter(t.Context(), "x") == nil {
				t.Fatal("the host is back, and not all may call it")
			}
		}
	})
}

func TestCallsUnderWayWhenAGateIsShutDoNotKeepItShutForLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGates(8)
		var all []*pass
		for range 8 {
			all = append(all, g.enter(t.Context(), "x"))
		}
		for _, p := range all {
			p.leave(down)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(shortestShut - 3*100*time.Millisecond)
		if g.enter(t.Context(), "x") == nil {
			t.Error("still shut")
		}
	})
}

func TestHostsThatAreRememberedHaveABound(t *testing.T) {
	g := newGates(1)
	busy := g.enter(t.Context(), "busy")
	for i := range 3 * maxGates {
		g.enter(t.Context(), fmt.Sprint(i)).leave(down)
	}
	if len(g.hosts) > maxGates {
		t.Errorf("%d hosts", len(g.hosts))
	}
	if g.hosts["busy"] == nil {
		t.Error("a host with a call under way was forgotten")
	}
	busy.leave(up)
}
