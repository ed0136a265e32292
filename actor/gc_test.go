package actor

import (
	"log/slog"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestTheHeapMayGrowByAFixedRoomOrByHalf(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 1 << 20: 400, 11 << 20: 400, 22 << 20: 200, 44 << 20: 100, 88 << 20: 50, 1 << 30: 50} {
		if got := gcPercent(live); got != want {
			t.Errorf("%d MiB live: %d %%, want %d", live>>20, got, want)
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

			undo := TuneGC(log)
			if now := debug.SetGCPercent(gcMost); now != gcMost {
				t.Errorf("%d %%, want %d", now, gcMost)
			}
			undo()
			if now := debug.SetGCPercent(100); now != 100 {
				t.Errorf("%d %% afterwards, want 100", now)
			}

			t.Setenv(name, "150MiB")
			TuneGC(log)()
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
	defer TuneGC(slog.New(slog.DiscardHandler))()
	kept := make([]byte, 200<<20)
	if !afterSomeCollections(func(percent int) bool { return percent == gcLeast }) {
		t.Error("a large heap may grow by more than half")
	}
	runtime.KeepAlive(kept)
	if !afterSomeCollections(func(percent int) bool { return percent > 200 }) {
		t.Error("a heap that is small again is collected as often as a large one")
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
