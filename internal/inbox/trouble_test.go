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
		for range 2 {
			trouble.Hold(ctx, errors.New("too large"), func() { said++ }, func() { over <- struct{}{} })
		}
		time.Sleep(24 * time.Hour)
		if text := trouble.Text(); said != 1 || len(over) != 0 || !strings.HasPrefix(text, "2 messages") {
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

func TestAnErrorComesFromAStopWhereTheContextOrTheBrokerHasEnded(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	wrapped := fmt.Errorf("park: %w", queue.ErrClosed)
	if !inbox.AsStop(t.Context(), wrapped) || !inbox.AsStop(ended, queue.ErrTooLarge) || inbox.AsStop(t.Context(), queue.ErrTooLarge) {
		t.Error("a stop is told wrongly from other errors")
	}
}
