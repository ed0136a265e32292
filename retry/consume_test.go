package retry_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/retry"
)

// instant puts messages with these offsets into the instant queue.
func (w *world) instant(offsets ...int64) {
	w.t.Helper()
	for _, o := range offsets {
		m := record("x")
		m.ID, m.Attempt, m.Origin.Offset = envelope.ID("orders.v1", 3, o), 2, o
		e := envelope.Envelope{Message: *m}
		w.put(w.retrier.Topology().Instant, e.Encode())
	}
}

func TestAMessageWithoutAVerdictGoesBackUncounted(t *testing.T) {
	inWorld(t, retry.Linear(s, 0, 0), func(w *world) {
		w.instant(1)
		r := w.start(func(ctx context.Context, _ *stepwell.Message, _ retry.Ticket) retry.Outcome {
			<-ctx.Done()
			return retry.Abandoned
		})
		synctest.Wait()
		if st := w.retrier.Status(); st.InFlight != 1 {
			t.Errorf("status %+v", st)
		}
		r.stop()
		synctest.Wait()
		r.abort()
		r.end()
		var c calls
		next := w.start(c.succeeding)
		synctest.Wait()
		next.end()
		if got := c.attempts(); !slices.Equal(got, []int{2}) || w.retrier.Status().InFlight != 0 {
			t.Errorf("attempts %v, status %+v", got, w.retrier.Status())
		}
		w.empty()
	})
}

func TestAForgottenOutcomeSettlesNothing(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.instant(1)
		var c calls
		r := w.start(func(_ context.Context, m *stepwell.Message, _ retry.Ticket) retry.Outcome {
			if c.add(m) == 1 {
				return 0
			}
			return retry.Settled
		})
		synctest.Wait()
		r.end()
		if len(c.tries) != 2 {
			t.Errorf("%d calls, want 2", len(c.tries))
		}
	})
}

func TestAPendingMessageStaysUntilItIsSettledAndAStopWaitsForIt(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.instant(1)
		tickets := make(chan retry.Ticket, 1)
		r := w.start(func(_ context.Context, _ *stepwell.Message, t retry.Ticket) retry.Outcome {
			tickets <- t
			return retry.Pending
		})
		ticket := <-tickets
		r.stop()
		time.Sleep(time.Hour)
		select {
		case err := <-r.ended:
			t.Fatalf("Run ended with a message pending: %v", err)
		default:
		}
		ticket.Settle()
		ticket.Settle() // once too often
		r.end()
		if st := w.retrier.Status(); st.InFlight != 0 {
			t.Errorf("status %+v", st)
		}
		w.empty()
	})
}

func TestAStopLetsRunningCallsFinish(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.instant(1)
		var c calls
		r := w.start(func(ctx context.Context, m *stepwell.Message, _ retry.Ticket) retry.Outcome {
			time.Sleep(3 * s)
			if ctx.Err() == nil {
				c.add(m)
			}
			return retry.Settled
		})
		synctest.Wait()
		r.end()
		if len(c.tries) != 1 {
			t.Error("the call was cut short")
		}
		w.empty()
	})
}

func TestAsManyMessagesRunAtOnceAsThereAreWorkers(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.cfg.Workers = 3
		w.renew()
		w.instant(1, 2, 3, 4, 5, 6, 7)
		var c calls
		r := w.start(func(_ context.Context, m *stepwell.Message, _ retry.Ticket) retry.Outcome {
			c.add(m)
			time.Sleep(s)
			return retry.Settled
		})
		for i, want := range []int{3, 6, 7} {
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if got := len(c.attempts()); got != want {
				t.Errorf("%d calls after %d s, want %d", got, i, want)
			}
			time.Sleep(s)
		}
		r.end()
	})
}

func TestARepeatOfARunningMessageWaitsForItAndIsNotCalled(t *testing.T) {
	tests := []struct {
		name              string
		first             retry.Outcome
		calls, duplicates int
	}{
		{"settled", retry.Settled, 1, 1},
		{"abandoned: the repeat runs", retry.Abandoned, 2, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, nil, func(w *world) {
				w.instant(1, 1)
				var c calls
				r := w.start(func(_ context.Context, m *stepwell.Message, _ retry.Ticket) retry.Outcome {
					n := c.add(m)
					time.Sleep(s)
					if n == 1 {
						return test.first
					}
					return retry.Settled
				})
				time.Sleep(s / 2)
				if len(c.attempts()) != 1 || w.counts.now().duplicates != 0 {
					t.Errorf("%d calls and %d duplicates while the first runs", len(c.attempts()), w.counts.now().duplicates)
				}
				time.Sleep(time.Minute)
				r.end()
				if len(c.tries) != test.calls || w.counts.now().duplicates != test.duplicates {
					t.Errorf("%d calls, %d duplicates", len(c.tries), w.counts.now().duplicates)
				}
				w.empty()
			})
		})
	}
}

func TestARepeatOfASettledMessageIsNotCalledUnlessItsPartitionWasForgotten(t *testing.T) {
	inWorld(t, retry.Linear(s, 0, 1), func(w *world) {
		var c calls
		r := w.start(c.succeeding)
		again := func(calls, duplicates int) {
			t.Helper()
			w.first(record("x"), retry.Failure{Err: errAway})
			time.Sleep(time.Minute)
			if got := len(c.attempts()); got != calls || w.counts.now().duplicates != duplicates {
				t.Errorf("%d calls, %d duplicates; want %d, %d", got, w.counts.now().duplicates, calls, duplicates)
			}
		}
		again(1, 0)
		again(1, 1)
		w.retrier.Forget("orders.v1", 3)
		again(2, 1)
		again(2, 2)
		r.end()
		w.empty()
	})
}

func TestWhatAnotherProcessForgotIsRetriedByOneThatRemembersIt(t *testing.T) {
	tests := []struct {
		name   string
		second string
		forget bool
	}{
		{"the same record, wanted again", "x", true},
		{"another record of that time", "y", true},
		{"another record of that time, and nobody saw it", "y", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, retry.Linear(s, 0, 1), func(w *world) {
				owner := w.retrier // of the partition; the other one has all retries
				w.renew()
				var c calls
				r := w.start(c.succeeding)
				for _, value := range []string{"x", test.second} {
					m := record(value)
					m.Time = time.UnixMilli(1000)
					parked := make(chan error, 1)
					owner.Fail(w.t.Context(), m, retry.Failure{Err: errAway}, func(err error) { parked <- err })
					if err := <-parked; err != nil {
						w.t.Fatal(err)
					}
					time.Sleep(time.Minute)
					if test.forget {
						owner.Forget("orders.v1", 3)
					}
				}
				r.end()
				if len(c.tries) != 2 || string(c.tries[1].Value) != test.second {
					t.Errorf("%d calls, want both", len(c.tries))
				}
				w.empty()
			})
		})
	}
}

func TestAPausedStreamHandlesNothingAndGoesOnWhereItWas(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		var c calls
		r := w.start(c.succeeding)
		w.retrier.Pause()
		w.retrier.Pause() // twice is fine
		synctest.Wait()
		w.instant(1, 2)
		time.Sleep(time.Hour)
		if n := len(c.attempts()); n != 0 || !w.retrier.Status().Paused {
			t.Errorf("%d calls, status %+v", n, w.retrier.Status())
		}
		w.retrier.Resume()
		time.Sleep(s)
		r.end()
		if len(c.tries) != 2 {
			t.Errorf("%d calls after the pause, want 2", len(c.tries))
		}
	})
}

func TestJunkInTheInstantQueueEndsInTheDeadSetAsItIs(t *testing.T) {
	tests := []struct {
		name string
		m    queue.Message
		says string
	}{
		{"nothing", queue.Message{}, "x-stepwell"},
		{"bytes", queue.Message{ID: "junk", Body: []byte{0, 0xff, '\n'}}, "x-stepwell"},
		{"half an envelope", queue.Message{Headers: map[string]any{"x-stepwell": "v2 at=t:1:seven", "mine": "kept"}}, "at: "},
		{"one of a layout before the first release", queue.Message{Headers: map[string]any{"x-stepwell-version": "1.0", "x-stepwell-offset": int64(7), "mine": "kept"}}, "x-stepwell"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, retry.Linear(s, 0, 3), func(w *world) {
				var c calls
				r := w.start(c.succeeding)
				w.put(w.retrier.Topology().Instant, test.m)
				synctest.Wait()
				r.end()
				all := w.dead()
				if len(all) != 1 || len(c.tries) != 0 || w.counts.now().died[stepwell.ReasonUndecodable] != 1 {
					t.Fatalf("%d dead, %d calls, counted %v", len(all), len(c.tries), w.counts.now().died)
				}
				f := envelope.FailureOf(all[0])
				if f.Reason != stepwell.ReasonUndecodable || !strings.Contains(f.Error, test.says) || string(all[0].Body) != string(test.m.Body) ||
					all[0].ID != test.m.ID || all[0].Headers["mine"] != test.m.Headers["mine"] {
					t.Errorf("dead: %+v", all[0])
				}
				w.empty()
			})
		})
	}
}

func TestJunkWhoseHeadersTheBrokerRefusesIsBuriedWithoutThem(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.refuses(func(m queue.Message) bool { return m.Headers["odd"] != nil })
		r := w.start((&calls{}).succeeding)
		w.put(w.retrier.Topology().Instant, queue.Message{ID: "junk", Headers: map[string]any{"odd": "x"}, Body: []byte("b")})
		synctest.Wait()
		r.end()
		all := w.dead()
		if len(all) != 1 || string(all[0].Body) != "b" || envelope.FailureOf(all[0]).Reason != stepwell.ReasonUndecodable || w.counts.now().died[stepwell.ReasonUndecodable] != 1 {
			t.Errorf("dead: %+v", all)
		}
	})
}

func TestAMessageThatCannotBeParkedStaysAndRestsBeforeItIsTriedAgain(t *testing.T) {
	inWorld(t, retry.Linear(s, 0, 3), func(w *world) {
		w.refuses(longerThan(-1))
		w.instant(1)
		w.put(w.retrier.Topology().Instant, queue.Message{ID: "junk"})
		var c calls
		r := w.start(c.failing(retry.Failure{Err: errAway}))
		for i, want := range []int{1, 2, 3} {
			time.Sleep(30 * s)
			synctest.Wait()
			if got := len(c.attempts()); got != want {
				t.Errorf("%d calls in minute %d, want %d", got, i+1, want)
			}
			time.Sleep(30 * s)
		}
		r.end()
		if n, err := w.broker.Depth(t.Context(), w.retrier.Topology().Instant); n != 2 || err != nil {
			t.Errorf("%d messages left, want 2, %v", n, err)
		}
		if !slices.Equal(c.attempts(), slices.Repeat([]int{2}, len(c.tries))) || len(w.counts.now().died)+len(w.counts.now().retried) != 0 {
			t.Errorf("attempts %v, counted %v and %v", c.attempts(), w.counts.now().died, w.counts.now().retried)
		}
	})
}

func TestAMessageOfANewerVersionGoesAroundForAnHourAndThenDies(t *testing.T) {
	newer := queue.Message{ID: "x", Headers: map[string]any{"x-stepwell": "v3 new", "sw-new": "kept"}, Body: []byte("b")}
	inWorld(t, retry.Linear(5*s, 5*s, 3), func(w *world) {
		r := w.start((&calls{}).succeeding)
		w.put(w.retrier.Topology().Instant, newer)
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		if n, err := w.broker.Depth(t.Context(), w.retrier.Topology().DeadSet); n != 0 || err != nil {
			t.Errorf("%d in the dead set before the hour was over, %v", n, err)
		}
		time.Sleep(2 * time.Minute)
		r.end()
		all := w.dead()
		if len(all) != 1 || all[0].Headers["sw-new"] != "kept" || all[0].Headers["x-stepwell"] != "v3 new" || string(all[0].Body) != "b" {
			t.Errorf("dead: %+v", all)
		}
	})
	t.Run("without a delay queue it dies at once", func(t *testing.T) {
		inWorld(t, nil, func(w *world) {
			r := w.start((&calls{}).succeeding)
			w.put(w.retrier.Topology().Instant, newer)
			synctest.Wait()
			r.end()
			if n := len(w.dead()); n != 1 {
				t.Errorf("%d in the dead set, want 1", n)
			}
		})
	})
}

func TestAHandlerTimeoutTheBrokerWouldNotWaitForDoesNotStart(t *testing.T) {
	_, err := retry.New(retry.Config{App: "a", Stream: "orders", HandlerTimeout: 16 * time.Minute})
	if err == nil || !strings.Contains(err.Error(), "orders") {
		t.Errorf("error %v", err)
	}
}
