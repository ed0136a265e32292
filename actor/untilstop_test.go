package actor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestWhatEndsWithTheBeginningOfAStopIsOverBesideTheDrainAndIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, begins := context.WithCancel(t.Context())
		defer begins()
		var took time.Duration
		s := newStack()
		s.push(stop, "operations", untilStop(stop, func(ctx context.Context) error {
			<-ctx.Done()
			began := time.Now()
			time.Sleep(4 * time.Second) // a turn that nobody confirms
			took = time.Since(began)
			return nil
		}))
		s.push(stop, "streams", func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(6 * time.Second) // a drain
			return nil
		})
		began := time.Now()
		begins()
		if err := s.unwind(t.Context()); err != nil || took == 0 || time.Since(began) != 6*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		select {
		case p := <-s.failed:
			t.Errorf("a failure: %v", p.failure())
		default:
		}
	})
}

func TestWhatEndsByItselfBeforeAStopIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, want := range []error{nil, errors.New("no")} {
			s := newStack()
			s.push(t.Context(), "operations", untilStop(t.Context(), func(context.Context) error { return want }))
			if err := (<-s.failed).failure(); err == nil || want != nil && !errors.Is(err, want) {
				t.Errorf("%v", err)
			}
			_ = s.unwind(t.Context()) // it was told
		}
	})
}

func TestAStopThatIsOutOfTimeSaysWhichPartItWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, forever := newStack(), make(chan struct{})
		defer time.Sleep(2 * time.Second) // until the parts have ended
		defer close(forever)
		for _, name := range []string{"http", "brokers"} {
			s.push(t.Context(), name, func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Second)
				return nil
			})
		}
		s.push(t.Context(), "streams", func(context.Context) error {
			<-forever
			return nil
		})
		s.push(t.Context(), "depths", func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
		budget, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		const want = "the time for the stop is over and this part still runs: streams; these had no time left to end: brokers, http"
		if err := s.unwind(budget); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	})
}
