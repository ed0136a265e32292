package webhook

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// enters is a pass, or nil.
func enters(t *testing.T, g *gates, host string) *pass {
	t.Helper()
	p, _ := g.enter(t.Context(), host, false)
	return p
}

func TestAHostHasNoMoreCallsAtOnceThanItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGates(2)
		a, b := enters(t, g, "x"), enters(t, g, "x")
		if a == nil || b == nil || enters(t, g, "y") == nil {
			t.Fatal("there is room")
		}
		began := time.Now()
		if enters(t, g, "x") != nil {
			t.Error("a third call entered")
		}
		if waited := time.Since(began); waited != longestWait {
			t.Errorf("waited for %s, want %s", waited, longestWait)
		}
		time.Sleep(10 * time.Second)
		a.leave(up) // it took long: from here on nobody waits in the process
		if c := enters(t, g, "x"); c == nil {
			t.Error("the place that was given back is not free")
		}
		began = time.Now()
		if enters(t, g, "x") != nil || time.Since(began) > 0 {
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
				p := enters(t, g, "x")
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
			p := enters(t, g, "x")
			if p == nil {
				t.Fatal("shut too early")
			}
			p.leave(down)
		}
		for range tooMany - 1 {
			fail()
		}
		enters(t, g, "x").leave(up) // a success between them: they are not in a row
		for range tooMany {
			fail()
		}
		for _, shut := range []time.Duration{5, 10, 20, 40, 60, 60} {
			time.Sleep(shut*time.Second - time.Millisecond)
			if enters(t, g, "x") != nil {
				t.Fatalf("open before %ds", shut)
			}
			time.Sleep(time.Millisecond)
			probe := enters(t, g, "x")
			if probe == nil {
				t.Fatalf("still shut after %ds", shut)
			}
			if enters(t, g, "x") != nil {
				t.Fatal("two look at once whether the host is back")
			}
			probe.leave(down)
		}
		if enters(t, g, "y") == nil {
			t.Error("another host is shut too")
		}
		time.Sleep(time.Minute)
		enters(t, g, "x").leave(unknown) // stopped: the next one looks
		enters(t, g, "x").leave(up)
		for range 8 {
			if enters(t, g, "x") == nil {
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
			all = append(all, enters(t, g, "x"))
		}
		for _, p := range all {
			p.leave(down)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(shortestShut - 3*100*time.Millisecond)
		if enters(t, g, "x") == nil {
			t.Error("still shut")
		}
	})
}

func TestHostsThatAreRememberedHaveABound(t *testing.T) {
	g := newGates(1)
	busy := enters(t, g, "busy")
	for i := range 3 * maxGates {
		enters(t, g, fmt.Sprint(i)).leave(down)
	}
	if len(g.hosts) > maxGates {
		t.Errorf("%d hosts", len(g.hosts))
	}
	if g.hosts["busy"] == nil {
		t.Error("a host with a call under way was forgotten")
	}
	busy.leave(up)
}

func TestCallsToAHostThatIsDownAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGates(8)
		for range tooMany {
			enters(t, g, "x").leave(down)
		}
		least := func() time.Duration {
			p, d := g.enter(t.Context(), "x", true)
			if p != nil {
				t.Fatal("the gate is open")
			}
			return d
		}
		if d := least(); d > time.Second {
			t.Errorf("the first call stays away for %s", d)
		}
		for range 99_999 {
			least()
		}
		if d := least(); d < longestSnooze {
			t.Errorf("one of 100,000 calls stays away for %s, want %s", d, longestSnooze)
		}
		time.Sleep(shortestShut)
		enters(t, g, "x").leave(up)
		for range tooMany {
			enters(t, g, "x").leave(down)
		}
		if d := least(); d > time.Second {
			t.Errorf("of those put off while the host was down before, %s is left", d)
		}
	})
}

func TestNobodyWaitsInTheProcessForAHostThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGates(2)
		enters(t, g, "x").leave(up) // it was fast
		enters(t, g, "x")
		enters(t, g, "x")
		time.Sleep(shortWait + time.Millisecond) // and hangs
		began := time.Now()
		if enters(t, g, "x") != nil || time.Since(began) > 0 {
			t.Errorf("a call waited for %s", time.Since(began))
		}
	})
}

// A host that hangs is not down before its first calls are given up; by then all others would have
// hopped each second.
func TestCallsToAHostThatHangsAreSpreadBeforeItIsKnownToBeDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGates(2)
		enters(t, g, "x")
		enters(t, g, "x")
		time.Sleep(shortWait + time.Millisecond)
		var d time.Duration
		for range 100_000 {
			_, d = g.enter(t.Context(), "x", false)
		}
		if d < longestSnooze {
			t.Errorf("one of 100,000 calls stays away for %s, want %s", d, longestSnooze)
		}
		if _, d := g.enter(t.Context(), "x", true); d > 0 {
			t.Errorf("one that was spread before stays away for %s", d)
		}
	})
}

// A host that answers is not left idle: those that it has no room for come back as fast as it
// answers.
func TestCallsToAHostThatIsFullComeBackAsFastAsItAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGates(8)
		var under []*pass
		for range 8 {
			under = append(under, enters(t, g, "x"))
		}
		for range 50 { // it takes 20 ms: 400 a second
			time.Sleep(20 * time.Millisecond)
			for i, p := range under {
				p.leave(up)
				under[i] = enters(t, g, "x")
			}
		}
		time.Sleep(shortWait + time.Millisecond)
		var d time.Duration
		for range 4000 {
			_, d = g.enter(t.Context(), "x", false)
		}
		if d < 9*time.Second || d > 11*time.Second {
			t.Errorf("the last of 4000 stays away for %s, want 10s", d)
		}
	})
}
