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
	now := time.Now()
	tuner := &gcTuner{heap: 120 << 20, percent: gcMost, then: now}
	allocated := uint64(0)
	for _, c := range []struct {
		after, allocates uint64 // ms, MiB
		want             int
	}{
		{1000, 44, 220}, // 44 MiB, by which the heap may grow at the least
		{63, 44, 436},   // 87 MiB come in an interval
		{125, 80, 436},  // 400 %, and 450: changes that are not worth it
		{125, 90, 436},
		{125, 20, 220},
		{20, 90, 500}, // the bound of the heap
	} {
		now = now.Add(time.Duration(c.after) * time.Millisecond)
		allocated += c.allocates << 20
		tuner.adjust(20<<20, allocated, now)
		set := debug.SetGCPercent(100)
		debug.SetGCPercent(set)
		if set != c.want {
			t.Errorf("%d MiB after %d ms: %d %%, want %d", c.allocates, c.after, set, c.want)
		}
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
