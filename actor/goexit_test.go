package actor_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
)

func TestAHandlerThatCallsGoexitFailsAndEverythingGoesOn(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		const n, bad = 60, 20 // more than there are workers
		y := newTally()
		slow := make(chan time.Time)
		r := w.start(orders(func(ctx context.Context, m *stepwell.Message) error {
			_ = y.handler(failsOnce)(ctx, m)
			if strings.HasPrefix(string(m.Value), "bad") {
				if strings.HasSuffix(string(m.Value), "1") {
					select {
					case <-time.After(20 * time.Millisecond): // long enough for the rest of a stretch to go to others
					case <-slow:
					}
				}
				runtime.Goexit()
			}
			return nil
		}), settings{"RETRY_COUNT": "1", "CONCURRENCY": "3"})
		w.produce(several("good", n)...)
		w.produce(several("bad", bad)...)
		w.produce(several("better", n)...)
		for _, m := range r.deadCount(bad) {
			if m["attempts"] != 2.0 || m["error"] != "the function called runtime.Goexit" || m["reason"] != stepwell.ReasonExhausted {
				t.Errorf("%v", m)
			}
		}
		eventually(t, "all is tried", func() bool { tried, _ := y.count(); return tried == 2*n+bad })
		for i := range bad {
			if tries := y.triesOf(fmt.Sprintf("bad-%d", i)); tries != 2 {
				t.Errorf("bad-%d was tried %d times, want 2", i, tries)
			}
		}
		began := time.Now()
		r.end()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if got := w.committed(); got != 2*n+bad {
			t.Errorf("committed %d, want %d", got, 2*n+bad)
		}
	})
}

func TestAHandlerThatCallsGoexitIsTriedAgainInPlaceWhereRetriesAreOff(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	y := newTally()
	r := w.start(orders(func(ctx context.Context, m *stepwell.Message) error {
		_ = y.handler(failsOnce)(ctx, m)
		if m.Attempt < 4 {
			runtime.Goexit()
		}
		return nil
	}), settings{"RETRY_ENABLED": "false", "RETRY_DELAY": "1ms", "CONCURRENCY": "2"})
	w.produce(several("x", 20)...)
	eventually(t, "all are tried", func() bool {
		for i := range 20 {
			if y.triesOf(fmt.Sprintf("x-%d", i)) < 4 {
				return false
			}
		}
		return true
	})
	r.end()
	if got := w.committed(); got != 20 {
		t.Errorf("committed %d", got)
	}
}
