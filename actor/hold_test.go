package actor

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/call"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/retry"
)

// unqueued is a message of a stream without queues, and what became of it.
type unqueued struct {
	outcome task.Outcome
	failed  *failed
	tries   []stepwell.Message // as the handler got them
	waits   []time.Duration    // before each try but the first
}

// holding calls a handler that returns one error after another, and then nil, in a stream without
// queues, until its message is done or given up.
func holding(ctx context.Context, h hold, says ...error) (m unqueued) {
	last := time.Now()
	handler := func(_ context.Context, try *stepwell.Message) error {
		if len(m.tries) > 0 {
			m.waits = append(m.waits, time.Since(last))
		}
		last = time.Now()
		m.tries = append(m.tries, *try)
		if n := len(m.tries); n <= len(says) {
			return says[n-1]
		}
		return nil
	}
	d := &dispatch{
		calls: call.New(call.Config{Handler: handler, Timeout: time.Minute, Lanes: 1, Direct: func(string) error { return nil }}),
		hold:  h, channels: map[string]*retry.Retrier{"slow": {}},
	}
	var w worker
	m.outcome, m.failed = d.run(ctx, &stepwell.Message{ID: "orders.v1:0:1", Attempt: 1}, w.ticket())
	return m
}

// attempts are the numbers of the tries, and how often the message had been put off before each.
func (m unqueued) attempts() (attempts, snoozes []int) {
	for _, try := range m.tries {
		attempts, snoozes = append(attempts, try.Attempt), append(snoozes, try.Snoozes)
	}
	return attempts, snoozes
}

// times are n of one error.
func times(n int, err error) []error { return slices.Repeat([]error{err}, n) }

func TestWithoutQueuesAMessageThatFailsIsTriedUntilItIsDoneWithPausesThatGrowToALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		m := holding(t.Context(), hold{pause: 2 * time.Second, longest: 10 * time.Second}, times(6, errUnavailable)...)
		if m.outcome != task.Settled || m.failed != nil {
			t.Errorf("it ended with %v, %v", m.outcome, m.failed)
		}
		if attempts, _ := m.attempts(); !slices.Equal(attempts, []int{1, 2, 3, 4, 5, 6, 7}) {
			t.Errorf("attempts %v", attempts)
		}
		for i, seconds := range []time.Duration{2, 4, 8, 10, 10, 10} {
			// By chance up to half of it is left out.
			if most := seconds * time.Second; m.waits[i] < most/2 || m.waits[i] > most {
				t.Errorf("wait %d is %s, want from %s to %s", i+1, m.waits[i], most/2, most)
			}
		}
		for _, try := range m.tries[1:] {
			if !try.FirstFailed.Equal(began) {
				t.Errorf("attempt %d says that the first failure was after %s", try.Attempt, try.FirstFailed.Sub(began))
			}
		}
	})
}

func TestWithoutQueuesDeadLetterIsAFailureLikeOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := holding(t.Context(), hold{pause: time.Second, longest: time.Second}, times(3, stepwell.DeadLetter(errUnavailable))...)
		if attempts, _ := m.attempts(); m.outcome != task.Settled || !slices.Equal(attempts, []int{1, 2, 3, 4}) {
			t.Errorf("it ended with %v after the attempts %v", m.outcome, attempts)
		}
	})
}

func TestWithoutQueuesAWaitThatTheHandlerAsksForIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 17 * time.Minute // more than the longest pause
		m := holding(t.Context(), hold{pause: time.Second, longest: time.Second}, stepwell.RetryAfter(errUnavailable, wait))
		if len(m.waits) != 1 || m.waits[0] != wait {
			t.Errorf("it waited %v, want %s", m.waits, wait)
		}
	})
}

func TestWithoutQueuesWhatIsPutOffCountsNoTryAndMakesNoPauseLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 3 * time.Minute
		snooze := stepwell.Snooze(wait)
		m := holding(t.Context(), hold{pause: 2 * time.Second, longest: time.Hour}, snooze, snooze, snooze, errUnavailable)
		attempts, snoozes := m.attempts()
		if !slices.Equal(attempts, []int{1, 1, 1, 1, 2}) || !slices.Equal(snoozes, []int{0, 1, 2, 3, 3}) {
			t.Errorf("attempts %v, put off %v times", attempts, snoozes)
		}
		if !slices.Equal(m.waits[:3], []time.Duration{wait, wait, wait}) || m.waits[3] > 2*time.Second {
			t.Errorf("waits %v, want three of %s and one of the first pause", m.waits, wait)
		}
		if first := m.tries[3].FirstFailed; !first.IsZero() {
			t.Errorf("a message that was only put off says that it failed at %s", first)
		}
	})
}

func TestWithoutQueuesAFailureIsDroppedWhereThatIsSetAndWhatIsPutOffIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drop := hold{drop: true, pause: time.Second, longest: time.Second}
		for _, test := range []struct {
			name  string
			says  []error
			calls int
		}{
			{"a failure", times(5, errUnavailable), 1},
			{"a dead letter", times(5, stepwell.DeadLetter(errUnavailable)), 1},
			{"put off, then done", []error{stepwell.Snooze(time.Second)}, 2},
			{"put off, then a failure", []error{stepwell.Snooze(time.Second), errUnavailable, errUnavailable}, 2},
		} {
			if m := holding(t.Context(), drop, test.says...); m.outcome != task.Settled || len(m.tries) != test.calls {
				t.Errorf("%s: it ended with %v after %d calls, want %d", test.name, m.outcome, len(m.tries), test.calls)
			}
		}
	})
}

func TestWithoutQueuesAMessageThatFailedMayStillBeSkippedOrHandedToAChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		still := hold{pause: time.Second, longest: time.Second}
		if m := holding(t.Context(), still, errUnavailable, stepwell.Skip("no longer wanted"), errUnavailable); m.outcome != task.Settled || len(m.tries) != 2 {
			t.Errorf("skipped: it ended with %v after %d calls", m.outcome, len(m.tries))
		}
		m := holding(t.Context(), still, errUnavailable, errUnavailable, stepwell.To("slow"))
		if m.outcome != task.Pending || m.failed == nil || m.failed.to == nil {
			t.Fatalf("handed over: it ended with %v, %+v", m.outcome, m.failed)
		}
		if over := m.failed.message; over.Attempt != 3 || over.FirstFailed.IsZero() {
			t.Errorf("the channel gets attempt %d, which first failed at %s", over.Attempt, over.FirstFailed)
		}
	})
}

func TestWithoutQueuesAMessageThatRestsIsGivenUpAtAStopWithoutAnotherCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(errors.New("a stop")) })
		began := time.Now()
		m := holding(ctx, hold{pause: time.Hour, longest: time.Hour}, times(5, errUnavailable)...)
		if took := time.Since(began); m.outcome != task.Abandoned || len(m.tries) != 1 || took != time.Minute {
			t.Errorf("it ended with %v after %d calls and %s", m.outcome, len(m.tries), took)
		}
	})
}
