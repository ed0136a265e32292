package actor

import (
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// gcRoom is how much the heap may grow between two collections, where what lives is less than
	// that, and garbage does not come faster.
	gcRoom = 44 << 20
	// gcInterval is how far apart collections are where more than gcRoom becomes garbage in that
	// time, as long as the heap is not larger than gcHeap and a window.
	gcInterval = time.Second / 8
	gcHeap     = 56 << 20
	// gcMost is the highest percentage: more buys nothing.
	gcMost = 800
	// gcLeast is the lowest: with Go's 100, a window full of failures that wait for RabbitMQ would
	// take twice its bytes again.
	gcLeast = 50
)

// TuneGC lets the heap grow by up to 44 MiB between two collections, also where little of it lives:
// an actor that reads fast makes much garbage beside a small live heap, and Go's default (GOGC=100)
// would collect it hundreds of times a second. Where that much garbage comes in less than an eighth
// of a second it waits for that long, as long as the heap is below 56 MiB and window, the bytes of
// the largest window (see Config.LargestWindow). Where more than 88 MiB live, the heap may grow by
// half of that. It does nothing where GOGC or GOMEMLIMIT is set. The result undoes it.
//
// [Main] calls it, since it owns the process. A program that embeds an actor may.
func TuneGC(log *slog.Logger, window int) (undo func()) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(name) != "" {
			return func() {}
		}
	}
	log.Debug("the garbage collector runs when the heap has grown by 44 MiB, by what becomes garbage in 125 ms while the heap is small, or by half, whichever comes last; set GOGC or GOMEMLIMIT to have it otherwise")
	t := &gcTuner{heap: gcHeap + uint64(max(window, 0)), percent: gcMost, before: debug.SetGCPercent(gcMost), then: time.Now()}
	t.arm()
	return t.stop
}

// gcTuner sets the percentage anew after each collection, when what lives, or how fast garbage
// comes, has changed much.
type gcTuner struct {
	// heap is how large the heap may become for the sake of garbage that comes fast.
	heap uint64

	// mu guards the fields below: finalizers run on a goroutine of the runtime's.
	mu sync.Mutex
	// percent is what is set now; before is what was set by others, for the end.
	percent int
	before  int
	stopped bool
	// allocated is how much was allocated up to the last collection, which was then.
	allocated uint64
	then      time.Time
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
	read := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(read)
	t.adjust(read[0].Value.Uint64(), read[1].Value.Uint64(), time.Now())
	t.arm()
}

// adjust is for a collection that left so much alive.
func (t *gcTuner) adjust(live, allocated uint64, now time.Time) {
	garbage := float64(allocated-t.allocated) * float64(gcInterval) / float64(max(now.Sub(t.then), 1))
	t.allocated, t.then = allocated, now
	// A small change is not worth the stop of the world that setting it takes.
	if want := gcPercent(live, uint64(garbage), t.heap); want < t.percent*4/5 || want > t.percent*5/4 {
		t.percent = want
		debug.SetGCPercent(want)
	}
}

func (t *gcTuner) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	debug.SetGCPercent(t.before)
}

// gcPercent is how much of what lives the heap may grow by. garbage is what comes in
// gcInterval.
func gcPercent(live, garbage, heap uint64) int {
	room := max(gcRoom, min(garbage, heap-min(live, heap)))
	return int(min(max(room*100/max(live, 1), gcLeast), gcMost))
}
