package records

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/queue"
)

// stuck hands out nothing more to the first who follows its log once it is, and tells him nothing.
type stuck struct {
	queue.Broker
	is       *atomic.Bool
	follows  *atomic.Int64
	withheld *atomic.Int64
}

func stuckOn(b queue.Broker) stuck {
	return stuck{b, new(atomic.Bool), new(atomic.Int64), new(atomic.Int64)}
}

func (b stuck) Follow(ctx context.Context, log string, from int64, entry func(queue.Entry)) error {
	first := b.follows.Add(1) == 1
	return b.Broker.Follow(ctx, log, from, func(e queue.Entry) {
		if first && b.is.Load() {
			b.withheld.Add(1)
			return
		}
		entry(e)
	})
}

// A queue that was made anew under a name may leave who followed the old one without a word.
func TestALogThatGivesNothingBackIsReadAnewAndNobodyWaitsForEver(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
		broker := stuckOn(w.Broker)
		s := w.ready((&world{Broker: broker, t: t, log: w.log}).store())
		w.set(s, "a", 1)
		broker.is.Store(true)
		began := time.Now()
		if err := put(t.Context(), s, "k", "b"); !errors.Is(err, errLate) {
			t.Errorf("what did not come back: %v", err)
		}
		if took := time.Since(began); took != s.cfg.patience {
			t.Errorf("it took %s", took)
		}
		time.Sleep(10 * time.Second)
		if n := broker.follows.Load(); n != 2 || broker.withheld.Load() == 0 {
			t.Errorf("the log was followed %d times", n)
		}
		w.set(s, "a", 2)
		if r, ok, err := s.Current("k", "a"); err != nil || !ok || string(r.Value) != "2" {
			t.Errorf("Current once it was read anew: %v, %v, %v", r, ok, err)
		}
	})
}

// Else a caller with little time would have all others not know the records for a while.
func TestWhoHasLittleTimeHasNothingReadAnew(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
		broker := stuckOn(w.Broker)
		s := w.ready((&world{Broker: broker, t: t, log: w.log}).store())
		w.set(s, "a", 1)
		broker.is.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := put(ctx, s, "k", "b"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("what did not come back: %v", err)
		}
		time.Sleep(10 * time.Second)
		if r, ok, err := s.Current("k", "a"); err != nil || !ok || string(r.Value) != "1" || broker.follows.Load() != 1 {
			t.Errorf("%v, %v, %v, and the log was followed %d times", r, ok, err, broker.follows.Load())
		}
	})
}

func TestWhoWaitedInVainForAnEntryIsForgotten(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
		broker := stuckOn(w.Broker)
		s := w.ready((&world{Broker: broker, t: t, log: w.log}).store())
		broker.is.Store(true)
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if err := put(ctx, s, "k", "a"); err == nil {
				t.Error("it is said to be stored, and did not come back")
			}
			cancel()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if n := len(s.echoes); n > 0 {
			t.Errorf("%d who waited are kept", n)
		}
	})
}

func TestOnceTheStoreIsOverNobodyIsToldThatAnythingIsKnownOrStored(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
		s := New(Config{Broker: w.Broker, Log: w.log, Logger: slog.New(slog.DiscardHandler), pause: time.Millisecond})
		stop := run(t, s.Run)
		w.ready(s)
		w.set(s, "a", 1)
		stop()
		began := time.Now()
		if err := s.Sync(t.Context()); !errors.Is(err, ErrUnknown) || !errors.Is(err, queue.ErrClosed) {
			t.Errorf("Sync: %v", err)
		}
		if err := put(t.Context(), s, "k", "a"); !errors.Is(err, queue.ErrClosed) {
			t.Errorf("Change: %v", err)
		}
		if _, _, err := s.Latest(t.Context(), "k", "a"); !errors.Is(err, queue.ErrClosed) {
			t.Errorf("Latest: %v", err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("that took %s to say", took)
		}
	})
}

// Nothing is wrong with the log, only with the broker: that is all that there is to say.
func TestWhoLearnsNotInTimeWhereTheLogEndsIsToldWhatIsWrongInWords(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
		var alarm atomic.Bool
		s := w.ready((&world{Broker: mute{w.Broker, &alarm}, t: t, log: w.log}).store())
		alarm.Store(true)
		synctest.Wait()
		err := s.Sync(t.Context())
		if !errors.Is(err, ErrUnknown) || !errors.Is(err, errLate) || strings.Contains(err.Error(), "%!") {
			t.Errorf("Sync: %v", err)
		}
	})
}

// Nobody waits here that would ask once more.
func TestRecordsAreKnownOnceAnAlarmIsOverUnderWhichTheProcessBegan(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
		w.set(w.ready(w.store()), "a", 1)
		var alarm atomic.Bool
		alarm.Store(true)
		s := (&world{Broker: mute{w.Broker, &alarm}, t: t, log: w.log}).store()
		time.Sleep(10 * time.Minute)
		if known, _ := s.Status(); known {
			t.Error("nobody could say where the log ends, and they are known")
		}
		alarm.Store(false)
		time.Sleep(time.Minute)
		if r, ok, err := s.Current("k", "a"); err != nil || !ok || string(r.Value) != "1" {
			t.Errorf("after the alarm: %v, %v, %v", r, ok, err)
		}
	})
}
