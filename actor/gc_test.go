package actor

import (
	"log/slog"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestTheHeapMayGrowByAFixedRoomOrByHalf(t *testing.T) {
	for live, want := range map[uint64]int{0: 800, 1 << 20: 800, 11 << 20: 400, 22 << 20: 200, 44 << 20: 100, 88 << 20: 50, 1 << 30: 50} {
		if got := gcPercent(live, 0, 120<<20); got != want {
			t.Errorf("%d MiB live: %d %%, want %d", live>>20, got, want)
		}
	}
}

func TestGarbageThatComesFastIsLeftForLongerAsLongAsTheHeapIsSmall(t *testing.T) {
	for _, c := range []struct {
		live, garbage, heap uint64
		want                int // MiB
	}{
		{20, 10, 120, 44}, // less than the room comes in that time
		{20, 80, 120, 80},
		{20, 500, 120, 100}, // the heap's bound
		{90, 500, 120, 45},  // half of what lives: beyond the bound as before
		{130, 500, 120, 65}, // what lives is larger than the bound
		{30, 500, 72, 44},   // a small window: no more than without
	} {
		want := c.want * 100 / int(c.live)
		if got := gcPercent(c.live<<20, c.garbage<<20, c.heap<<20); got != want {
			t.Errorf("%+v: %d %%, want %d", c, got, want)
		}
	}
}

func TestTheCollectorIsLeftAloneWhereTheEnvironmentSetsIt(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv("GOMEMLIMIT", "")
			log := slog.New(slog.DiscardHandler)
			before := debug.SetGCPercent(100)
			defer debug.SetGCPercent(before)

			undo := TuneGC(log, 0)
			if now := debug.SetGCPercent(gcMost); now != gcMost {
				t.Errorf("%d %%, want %d", now, gcMost)
			}
			undo()
			if now := debug.SetGCPercent(100); now != 100 {
				t.Errorf("%d %% afterwards, want 100", now)
			}

			t.Setenv(name, "150MiB")
			TuneGC(log, 0)()
			if now := debug.SetGCPercent(100); now != 100 {
				t.Errorf("%d %% though %s is set", now, name)
			}
		})
	}
}

func TestWithALargeLiveHeapTheCollectorRunsMoreOften(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	defer TuneGC(slog.New(slog.DiscardHandler), 0)()
	kept := make([]byte, 200<<20)
	if !afterSomeCollections(func(percent int) bool { return percent == gcLeast }) {
		t.Error("a large heap may grow by more than half")
	}
	runtime.KeepAlive(kept)
	if !afterSomeCollections(func(percent int) bool { return percent > 200 }) {
		t.Error("a heap that is small again is collected as often as a large one")
	}
}

func TestTheCollectorRunsLessOftenWhileGarbageComesFast(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	tuner := &gcTuner{heap: 1 << 30, percent: gcMost, before: 100}
	defer tuner.stop()
	kept := make([]byte, 100<<20) // 44 MiB more are less than half of it
	runtime.GC()
	runtime.KeepAlive(kept)
	for _, c := range []struct {
		ago  time.Duration
		want func(percent int) bool
	}{
		{time.Microsecond, func(percent int) bool { return percent > 200 }}, // all of it in a moment
		{time.Hour, func(percent int) bool { return percent == gcLeast }},
	} {
		tuner.mu.Lock()
		tuner.then, tuner.allocated = time.Now().Add(-c.ago), 0
		tuner.mu.Unlock()
		tuner.collected()
		tuner.mu.Lock()
		if percent := tuner.percent; !c.want(percent) {
			t.Errorf("what was allocated up to now in %s: the heap may grow by %d %%", c.ago, percent)
		}
		tuner.mu.Unlock()
	}
}

func afterSomeCollections(so func(percent int) bool) bool {
	for range 500 {
		runtime.GC()
		now := debug.SetGCPercent(100)
		debug.SetGCPercent(now)
		if so(now) {
			return true
		}
	}
	return false
}
