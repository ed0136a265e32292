package deadset_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/queue"
)

// slow takes nothing back before free is closed, and then with the error.
type slow struct {
	queue.Broker
	free chan struct{}
	err  error
	cut  int // a window ends after so many; 0: it does not
}

type slowLease struct {
	queue.Lease
	of *slow
}

type slowWindow struct {
	queue.Window
	of *slow
}

func (b *slow) Lease(ctx context.Context, name string) (queue.Lease, error) {
	l, err := b.Broker.Lease(ctx, name)
	if err != nil {
		return nil, err
	}
	return slowLease{l, b}, nil
}

func (l slowLease) Window(ctx context.Context, most, maxBytes int) (queue.Window, error) {
	if l.of.cut > 0 {
		most = min(most, l.of.cut)
	}
	w, err := l.Lease.Window(ctx, most, maxBytes)
	return slowWindow{w, l.of}, err
}

func (w slowWindow) Close(ctx context.Context) (int, error) {
	select {
	case <-w.of.free:
	case <-ctx.Done():
	}
	depth, err := w.Window.Close(ctx)
	return depth, errors.Join(err, w.of.err, ctx.Err())
}

// slowly runs the test with four messages in the dead set of a broker that takes nothing back
// before it is told to.
func slowly(t *testing.T, test func(t *testing.T, b *memory.Broker, of *slow, s *deadset.Set, log *bytes.Buffer)) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 4)
		var log bytes.Buffer
		of := &slow{Broker: b, free: make(chan struct{})}
		cfg := deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: of, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		test(t, b, of, deadset.New(cfg), &log)
	})
}

func TestAPeekAnswersBeforeTheBrokerTookBackWhatItHeldAndKeepsTheLeaseUntilThen(t *testing.T) {
	slowly(t, func(t *testing.T, b *memory.Broker, of *slow, s *deadset.Set, _ *bytes.Buffer) {
		began := time.Now()
		if got := peek(t, s, 2); got != "0 1" || time.Since(began) != 2*time.Second { // that is peek's own
			t.Errorf("it shows %s after %v", got, time.Since(began))
		}
		if _, err := b.Lease(t.Context(), dead); !errors.Is(err, queue.ErrLeased) {
			t.Errorf("lease: %v", err)
		}
		close(of.free)
		synctest.Wait()
		if left := ids(t, b, dead); len(left) != 4 {
			t.Errorf("left: %v", left)
		}
	})
}

func TestWhatComesAfterAPeekWaitsUntilAllIsBackAndActsOnWhatItShowed(t *testing.T) {
	slowly(t, func(t *testing.T, b *memory.Broker, of *slow, s *deadset.Set, _ *bytes.Buffer) {
		if got := peek(t, s, 2); got != "0 1" {
			t.Fatalf("it shows %s", got)
		}
		ended := make(chan error, 2)
		go func() {
			r, err := s.Delete(t.Context(), 2)
			if err == nil && r != (deadset.Result{Requested: 2, Done: 2, Left: 2}) {
				t.Errorf("%+v", r)
			}
			ended <- err
		}()
		time.Sleep(20 * time.Second)
		select {
		case err := <-ended:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
		close(of.free)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if left := ids(t, b, dead); strings.Join(left, " ") != "t:0:2 t:0:3" {
			t.Errorf("left: %v", left)
		}
	})
}

func TestAPeekThatCannotShareAPageWaitsForTheOneBefore(t *testing.T) {
	slowly(t, func(t *testing.T, _ *memory.Broker, of *slow, s *deadset.Set, _ *bytes.Buffer) {
		if got := peek(t, s, 2); got != "0 1" {
			t.Fatalf("it shows %s", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		if _, err := s.Peek(ctx, 4); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("peek: %v", err)
		}
		time.AfterFunc(time.Second, func() { close(of.free) })
		if page, err := s.Peek(t.Context(), 4); err != nil || len(page.Messages) != 4 {
			t.Errorf("%d messages, %v", len(page.Messages), err)
		}
	})
}

func TestAReplayAndADeleteWaitTwoSecondsForTheWalkOfAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		bury(t, b, 4)
		for name, do := range map[string]func(context.Context, int) (deadset.Result, error){"replay": s.Replay, "delete": s.Delete} {
			lease, err := b.Lease(t.Context(), dead)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			r, err := do(t.Context(), 2)
			if took := time.Since(began); took < 1900*time.Millisecond || took > 2*time.Second {
				t.Errorf("%s gives up after %v", name, took)
			}
			if !errors.Is(err, queue.ErrLeased) || r.Done != 0 {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
			time.AfterFunc(1900*time.Millisecond, lease.Release)
			if r, err := do(t.Context(), 1); err != nil || r.Done != 1 {
				t.Errorf("%s when the other is done: %+v, %v", name, r, err)
			}
		}
		if left, moved := depth(t, b, dead), depth(t, b, ready); left != 2 || moved != 1 {
			t.Errorf("%d left, %d moved", left, moved)
		}
	})
}

func TestAWalkThatGivesUpWaitingMovesNothing(t *testing.T) {
	slowly(t, func(t *testing.T, b *memory.Broker, of *slow, s *deadset.Set, _ *bytes.Buffer) {
		if got := peek(t, s, 2); got != "0 1" {
			t.Fatalf("it shows %s", got)
		}
		for _, waits := range []string{"for a peek", "for another walk"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if r, err := s.Replay(ctx, 2); !errors.Is(err, context.DeadlineExceeded) || r != (deadset.Result{Requested: 2, Left: deadset.Unknown}) {
				t.Errorf("%s: %+v, %v", waits, r, err)
			}
			cancel()
			if waits == "for a peek" {
				close(of.free)
				synctest.Wait()
				lease, err := b.Lease(t.Context(), dead)
				if err != nil {
					t.Fatal(err)
				}
				defer lease.Release()
			}
		}
		if left, moved := depth(t, b, dead), depth(t, b, ready); left != 4 || moved != 0 {
			t.Errorf("%d left, %d moved", left, moved)
		}
	})
}

func TestCloseWaitsForWhatAPeekGivesBackAndLetsNoOtherBegin(t *testing.T) {
	slowly(t, func(t *testing.T, b *memory.Broker, of *slow, s *deadset.Set, _ *bytes.Buffer) {
		if got := peek(t, s, 2); got != "0 1" {
			t.Fatalf("it shows %s", got)
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Close(soon); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
		if _, err := s.Peek(t.Context(), 2); !errors.Is(err, queue.ErrClosed) {
			t.Errorf("peek: %v", err)
		}
		time.AfterFunc(time.Second, func() { close(of.free) })
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
		if left := ids(t, b, dead); len(left) != 4 {
			t.Errorf("left: %v", left)
		}
	})
}

func TestTroubleInGivingBackIsLoggedAndItsPageNotShownAgain(t *testing.T) {
	tests := map[string]struct {
		err  error
		free bool
		says string
	}{
		"an error":                 {errors.New("three are missing"), true, "three are missing"},
		"the broker takes nothing": {nil, false, context.DeadlineExceeded.Error()},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			slowly(t, func(t *testing.T, b *memory.Broker, of *slow, s *deadset.Set, log *bytes.Buffer) {
				of.err = test.err
				if test.free {
					close(of.free)
				}
				if got := peek(t, s, 2); got != "0 1" {
					t.Fatalf("it shows %s", got)
				}
				if err := s.Close(t.Context()); err != nil {
					t.Errorf("close: %v", err)
				}
				if !strings.Contains(log.String(), test.says) || !strings.Contains(log.String(), dead) {
					t.Errorf("the log says %q", log)
				}
				if left := ids(t, b, dead); len(left) != 4 {
					t.Errorf("left: %v", left)
				}
			})
		})
	}
}

func TestAPageWhoseMessagesWereNotSeenToComeBackIsNotShared(t *testing.T) {
	slowly(t, func(t *testing.T, b *memory.Broker, of *slow, s *deadset.Set, _ *bytes.Buffer) {
		of.err = errors.New("three are missing")
		close(of.free)
		if got := peek(t, s, 2); got != "0 1" {
			t.Fatalf("it shows %s", got)
		}
		lease, err := b.Lease(t.Context(), dead)
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release()
		if _, err := s.Peek(t.Context(), 2); !errors.Is(err, queue.ErrLeased) { // it looks anew
			t.Errorf("peek: %v", err)
		}
	})
}

func TestAPeekThatReadLessThanItWasAskedForAnswersWhenItKnowsWhy(t *testing.T) {
	slowly(t, func(t *testing.T, b *memory.Broker, of *slow, s *deadset.Set, _ *bytes.Buffer) {
		of.cut = 3
		close(of.free)
		of.err = errors.New("the broker ended the window")
		if _, err := s.Peek(t.Context(), 4); !errors.Is(err, of.err) {
			t.Errorf("peek: %v", err)
		}
		of.err = nil
		if page, err := s.Peek(t.Context(), 4); err != nil || len(page.Messages) != 3 || page.Depth != 4 {
			t.Errorf("%d of %d messages, %v", len(page.Messages), page.Depth, err)
		}
		if left := ids(t, b, dead); len(left) != 4 { // at once
			t.Errorf("left: %v", left)
		}
	})
}
