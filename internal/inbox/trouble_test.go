package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/queue"
)

func TestWhatIsHeldRestsUntilItsContextEndsAndIsNotGivenBackBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var trouble inbox.Trouble
		ctx, cancel := context.WithCancel(t.Context())
		said, over := 0, make(chan struct{}, 2)
		for _, id := range []string{"a", "b"} {
			trouble.Hold(ctx, inbox.Held{ID: id, Queue: "payments", Bytes: 300, Setting: "MAX_SIZE"}, func() { said++ }, func() { over <- struct{}{} })
		}
		time.Sleep(24 * time.Hour)
		const want = "2 messages are too large to be parked and are held until a stop, the last one is b of queue payments, of 300 bytes: raise MAX_SIZE, and what RabbitMQ takes"
		if text := trouble.Text(); said != 1 || len(over) != 0 || text != want {
			t.Errorf("said %d times, %d given back: %s", said, len(over), text)
		}
		cancel()
		synctest.Wait()
		if text := trouble.Text(); len(over) != 2 || text != "" {
			t.Errorf("%d given back at the end: %s", len(over), text)
		}
	})
}

func TestWhatRestsIsCountedWithTheLastReasonAndSaidOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var trouble inbox.Trouble
		said := 0
		var over atomic.Int32
		rest := func(ctx context.Context, err error) {
			trouble.Rest(ctx, err, func() { said++ }, func() { over.Add(1) })
		}
		if text := trouble.Text(); text != "" {
			t.Errorf("before anything rests: %s", text)
		}
		ctx, cancel := context.WithCancel(t.Context())
		rest(t.Context(), errors.New("alarm"))
		time.Sleep(30 * s)
		rest(ctx, errors.New("too large"))
		if text := trouble.Text(); said != 1 || !strings.HasPrefix(text, "2 messages") || !strings.Contains(text, "too large") {
			t.Errorf("said %d times: %s", said, text)
		}
		cancel()
		synctest.Wait()
		if text := trouble.Text(); over.Load() != 1 || !strings.HasPrefix(text, "1 messages") {
			t.Errorf("%d over after a stop: %s", over.Load(), text)
		}
		time.Sleep(30 * s)
		synctest.Wait()
		if text := trouble.Text(); over.Load() != 2 || text != "" {
			t.Errorf("%d over after a minute: %s", over.Load(), text)
		}
		rest(t.Context(), errors.New("alarm"))
		if said != 2 {
			t.Errorf("said %d times, a minute later", said)
		}
		time.Sleep(time.Minute)
	})
}

func TestWhatIsHeldIsToldBesideWhatRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var trouble inbox.Trouble
		ctx, cancel := context.WithCancel(t.Context())
		var said []string
		trouble.Rest(ctx, errors.New("alarm"), func() { said = append(said, "rests") }, func() {})
		trouble.Hold(ctx, inbox.Held{ID: "a"}, func() { said = append(said, "is held") }, func() {})
		if text := trouble.Text(); !strings.HasPrefix(text, "1 messages cannot be parked and wait for the next attempt, the last one because of: alarm, 1 messages are too large") {
			t.Errorf("it says %s", text)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if text := trouble.Text(); !strings.HasPrefix(text, "1 messages are too large") || len(said) != 2 {
			t.Errorf("when nothing rests any more it says %s; the log had %q", text, said)
		}
		cancel()
		synctest.Wait()
	})
}

func TestAnErrorComesFromAStopWhereTheContextOrTheBrokerHasEnded(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	wrapped := fmt.Errorf("park: %w", queue.ErrClosed)
	if !inbox.AsStop(t.Context(), wrapped) || !inbox.AsStop(ended, queue.ErrTooLarge) || inbox.AsStop(t.Context(), queue.ErrTooLarge) {
		t.Error("a stop is told wrongly from other errors")
	}
}
