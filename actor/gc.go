package actor

import (
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// gcRoom is how much the heap may grow between two collections, where what lives is less than
	// that.
	gcRoom = 44 << 20
	// gcMost is the highest percentage: more buys nothing.
	gcMost = 400
	// gcLeast is the lowest: with Go's 100, a window full of failures that wait for RabbitMQ would
	// take twice its bytes again.
	gcLeast = 50
)

// TuneGC lets the heap grow by up to 44 MiB between two collections, also where little of it lives:
// an actor that reads fast makes much garbage beside a small live heap, and Go's default (GOGC=100)
// would collect it hundreds of times a second. Where more than 88 MiB live, it may grow by half of
// that. It does nothing where GOGC or GOMEMLIMIT is set. The result undoes it.
//
// [Main] calls it, since it owns the process. A program that embeds an actor may.
func TuneGC(log *slog.Logger) (undo func()) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(name) != "" {
			return func() {}
		}
	}
	log.Debug("the garbage collector runs when the heap has grown by 44 MiB or by half, whichever comes last; set GOGC or GOMEMLIMIT to have it otherwise")
	t := &gcTuner{percent: gcMost, before: debug.SetGCPercent(gcMost)}
	t.arm()
	return t.stop
}

// gcTuner sets the percentage anew after each collection, when what lives has changed much.
type gcTuner struct {
	// mu guards the fields below: finalizers run on a goroutine of the runtime's.
	mu sync.Mutex
	// percent is what is set now; before is what was set by others, for the end.
	percent int
	before  int
	stopped bool
}

// arm leaves garbage behind whose finalizer runs after the next collection. It needs no goroutine,
// and is never late.
func (t *gcTuner) arm() {
	runtime.SetFinalizer(&gcMark{}, func(*gcMark) { t.collected() })
}

type gcMark struct{ _ [16]byte } // larger than what the runtime allocates together with others

func (t *gcTuner) collected() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	// A small change is not worth the stop of the world that setting it takes.
	if want := gcPercent(live[0].Value.Uint64()); want < t.percent*4/5 || want > t.percent*5/4 {
		t.percent = want
		debug.SetGCPercent(want)
	}
	t.arm()
}

func (t *gcTuner) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	debug.SetGCPercent(t.before)
}

// gcPercent is how much of what lives the heap may grow by.
func gcPercent(live uint64) int {
	return int(min(max(gcRoom*100/max(live, 1), gcLeast), gcMost))
}
