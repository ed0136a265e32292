package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/task"
)

// grudging makes the broker refuse everything until it is told to relent. What is logged is in the
// buffer.
func (w *world) grudging() (relents *atomic.Bool, log *bytes.Buffer) {
	relents, log = &atomic.Bool{}, &bytes.Buffer{}
	w.cfg.Logger, w.cfg.Trouble = slog.New(slog.NewTextHandler(log, nil)), &inbox.Trouble{}
	w.refuses(func(queue.Message) bool { return !relents.Load() })
	return relents, log
}

func TestAMessageWithoutAVerdictGoesBackUncounted(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.instant(1)
		r := w.start(func(ctx context.Context, _ *stepwell.Message, _ inbox.Ticket) task.Outcome {
			<-ctx.Done()
			return task.Abandoned
		})
		synctest.Wait()
		if st := w.inbox.Status(); st.InFlight != 1 {
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
		if got := c.attempts(); !slices.Equal(got, []int{2}) || w.inbox.Status().InFlight != 0 {
			t.Errorf("attempts %v, status %+v", got, w.inbox.Status())
		}
		w.empty()
	})
}

// Producers use an id twice, also one that fills AMQP's 255 bytes. A repeat is a message that the
// broker hands out again, not one with an id that was seen before.
func TestTwoMessagesWithOneIDAreBothHandledAndTheirRepeatsAreNot(t *testing.T) {
	for name, id := range map[string]string{"short": "order-17", "of 255 bytes": strings.Repeat("i", 255)} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				for _, token := range []string{"FIRST", "SECOND", "SECOND"} {
					e := envelope.Envelope{Token: token, Message: stepwell.Message{ID: id, Value: []byte("x"), Attempt: 1}}
					w.put(w.cfg.Queue, e.Encode())
				}
				var c calls
				r := w.start(c.succeeding)
				synctest.Wait()
				r.end()
				if repeats := w.owner.duplicates(); len(c.tries) != 2 || repeats != 1 {
					t.Fatalf("%d calls and %d repeats, want 2 and 1", len(c.tries), repeats)
				}
				if c.tries[0].ID != id || c.tries[1].ID != id {
					t.Errorf("called with %q and %q", c.tries[0].ID, c.tries[1].ID)
				}
				w.empty()
			})
		})
	}
}

func TestAForgottenOutcomeSettlesNothing(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		w.instant(1)
		var c calls
		r := w.start(func(_ context.Context, m *stepwell.Message, _ inbox.Ticket) task.Outcome {
			if c.add(m) == 1 {
				return 0
			}
			return task.Settled
		})
		synctest.Wait()
		r.end()
		if len(c.tries) != 2 {
			t.Errorf("%d calls, want 2", len(c.tries))
		}
	})
}

func TestAPendingMessageStaysUntilItIsSettledAndAStopWaitsForIt(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		w.instant(1)
		tickets := make(chan inbox.Ticket, 1)
		r := w.start(func(_ context.Context, _ *stepwell.Message, t inbox.Ticket) task.Outcome {
			tickets <- t
			return task.Pending
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
		if st := w.inbox.Status(); st.InFlight != 0 {
			t.Errorf("status %+v", st)
		}
		w.empty()
	})
}

func TestWhatWaitsForAWorkerAtAStopOrAPauseGoesBackUncalled(t *testing.T) {
	for name, end := range map[string]func(w *world, r *running){
		"stop":  func(_ *world, r *running) { r.stop() },
		"pause": func(w *world, _ *running) { w.inbox.Pause() },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				const n = 7
				w.instant(1, 2, 3, 4, 5, 6, 7)
				w.cfg.Workers = 2
				w.renew()
				var c calls
				r := w.start(func(_ context.Context, m *stepwell.Message, _ inbox.Ticket) task.Outcome {
					time.Sleep(s)
					c.add(m)
					return task.Settled
				})
				synctest.Wait() // two run, and the others wait
				end(w, r)
				time.Sleep(time.Hour)
				if got := len(c.attempts()); got != 2 {
					t.Errorf("%d calls, want those of the two that ran", got)
				}
				r.end()
				w.inbox.Resume()
				next := w.start(c.succeeding)
				synctest.Wait()
				next.end()
				if got := len(c.attempts()); got != n || w.inbox.Status().InFlight != 0 {
					t.Errorf("%d calls in all, want %d; %+v", got, n, w.inbox.Status())
				}
				w.empty()
			})
		})
	}
}

func TestAStopLetsRunningCallsFinish(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		w.instant(1)
		var c calls
		r := w.start(func(ctx context.Context, m *stepwell.Message, _ inbox.Ticket) task.Outcome {
			time.Sleep(3 * s)
			if ctx.Err() == nil {
				c.add(m)
			}
			return task.Settled
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
	inWorld(t, 0, func(w *world) {
		w.cfg.Workers = 3
		w.renew()
		w.instant(1, 2, 3, 4, 5, 6, 7)
		var c calls
		r := w.start(func(_ context.Context, m *stepwell.Message, _ inbox.Ticket) task.Outcome {
			c.add(m)
			time.Sleep(s)
			return task.Settled
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
		first             task.Outcome
		calls, duplicates int
	}{
		{"settled", task.Settled, 1, 1},
		{"abandoned: the repeat runs", task.Abandoned, 2, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				w.instant(1, 1)
				var c calls
				r := w.start(func(_ context.Context, m *stepwell.Message, _ inbox.Ticket) task.Outcome {
					n := c.add(m)
					time.Sleep(s)
					if n == 1 {
						return test.first
					}
					return task.Settled
				})
				time.Sleep(s / 2)
				if len(c.attempts()) != 1 || w.owner.duplicates() != 0 {
					t.Errorf("%d calls and %d duplicates while the first runs", len(c.attempts()), w.owner.duplicates())
				}
				time.Sleep(time.Minute)
				r.end()
				if len(c.tries) != test.calls || w.owner.duplicates() != test.duplicates {
					t.Errorf("%d calls, %d duplicates", len(c.tries), w.owner.duplicates())
				}
				w.empty()
			})
		})
	}
}

func TestAPausedInboxHandlesNothingAndGoesOnWhereItWas(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		var c calls
		r := w.start(c.succeeding)
		w.inbox.Pause()
		w.inbox.Pause() // twice is fine
		synctest.Wait()
		w.instant(1, 2)
		time.Sleep(time.Hour)
		if n := len(c.attempts()); n != 0 || !w.inbox.Status().Paused {
			t.Errorf("%d calls, status %+v", n, w.inbox.Status())
		}
		w.inbox.Resume()
		time.Sleep(s)
		r.end()
		if len(c.tries) != 2 {
			t.Errorf("%d calls after the pause, want 2", len(c.tries))
		}
	})
}

func TestAMessageThatCannotBeParkedStaysAndRestsBeforeItIsTriedAgain(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.refuses(func(queue.Message) bool { return true })
		w.instant(1)
		w.put(w.cfg.Queue, queue.Message{ID: "junk"})
		var c calls
		r := w.start(c.parked(w))
		for i, want := range []int{1, 2, 3} {
			time.Sleep(30 * s)
			synctest.Wait()
			if got := len(c.attempts()); got != want {
				t.Errorf("%d calls in minute %d, want %d", got, i+1, want)
			}
			time.Sleep(30 * s)
		}
		r.end()
		if n, err := w.broker.Depth(t.Context(), w.cfg.Queue); n != 2 || err != nil {
			t.Errorf("%d messages left, want 2, %v", n, err)
		}
		if !slices.Equal(c.attempts(), slices.Repeat([]int{2}, len(c.tries))) || w.depth(w.cfg.Wait)+w.depth(w.cfg.Queue+".dead") != 0 {
			t.Errorf("attempts %v, %d wait, %d are dead", c.attempts(), w.depth(w.cfg.Wait), w.depth(w.cfg.Queue+".dead"))
		}
	})
}

func TestAMessageOfANewerVersionGoesAroundForAnHourAndThenDies(t *testing.T) {
	newer := queue.Message{ID: "x", Headers: map[string]any{"x-stepwell": "v3 new", "sw-new": "kept"}, Body: []byte("b")}
	inWorld(t, 5*s, func(w *world) {
		r := w.start((&calls{}).succeeding)
		w.put(w.cfg.Queue, newer)
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		if n, err := w.broker.Depth(t.Context(), w.cfg.Queue+".dead"); n != 0 || err != nil {
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
		inWorld(t, 0, func(w *world) {
			r := w.start((&calls{}).succeeding)
			w.put(w.cfg.Queue, newer)
			synctest.Wait()
			r.end()
			if n := len(w.dead()); n != 1 {
				t.Errorf("%d in the dead set, want 1", n)
			}
		})
	})
}

func TestARetryThatCannotBeParkedRestsAndAStopWaitsForNoRest(t *testing.T) {
	inWorld(t, s, func(w *world) {
		relents, log := w.grudging()
		var c calls
		r := w.start(c.parked(w))
		w.instant(1)
		time.Sleep(30 * s)
		synctest.Wait()
		if got := len(c.attempts()); got != 1 || !strings.Contains(w.cfg.Trouble.Text(), "1 messages cannot be parked") || !strings.Contains(log.String(), "stays where it is") {
			w.t.Errorf("%d calls, trouble %q, log %s", got, w.cfg.Trouble.Text(), log)
		}
		began := time.Now()
		r.end()
		if took := time.Since(began); took > time.Millisecond {
			w.t.Errorf("the stop took %v", took)
		}
		if n, err := w.broker.Depth(w.t.Context(), w.cfg.Queue); n != 1 || err != nil {
			w.t.Errorf("%d messages are back where they were: %v", n, err)
		}
		relents.Store(true)
		next := w.start(c.succeeding)
		synctest.Wait()
		next.end()
		if got := c.attempts(); len(got) != 2 || got[1] != 2 {
			w.t.Errorf("attempts %v", got)
		}
		w.empty()
	})
}

func TestWhatCannotBeParkedAfterAStopGoesBackAtOnce(t *testing.T) {
	inWorld(t, 2*s, func(w *world) {
		w.grudging()
		w.instant(1)
		finish := make(chan struct{})
		r := w.start(func(_ context.Context, _ *stepwell.Message, tk inbox.Ticket) task.Outcome {
			<-finish
			return w.park(tk)
		})
		synctest.Wait()
		r.stop()
		synctest.Wait()
		began := time.Now()
		close(finish)
		r.end()
		if took, n := time.Since(began), w.depth(w.cfg.Queue); took > 0 || n != 1 {
			t.Errorf("after %v %d messages are back", took, n)
		}
	})
}

func TestRunReturnsOnlyWhenAllItsCallsHave(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		w.instant(1)
		returned := false
		r := w.start(func(_ context.Context, _ *stepwell.Message, tk inbox.Ticket) task.Outcome {
			tk.Settle()
			time.Sleep(3 * s)
			returned = true
			return task.Pending
		})
		synctest.Wait()
		r.end()
		if !returned {
			t.Error("Run has returned, and a call goes on")
		}
		w.empty()
	})
}

// closed is a broker that cannot consume any more, and names what it cannot.
type closed struct{ queue.Broker }

func (closed) Consume(_, _ context.Context, c queue.Consumption) error {
	return fmt.Errorf("consume %s: %w", c.Queue, queue.ErrClosed)
}

func TestRunSaysWhyAQueueIsConsumedNoMoreUnlessAStopWasAskedFor(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		w.cfg.Broker = closed{w.broker}
		w.renew()
		ctx, stop := context.WithCancel(w.t.Context())
		if err := w.inbox.Run(ctx, ctx, nil); !errors.Is(err, queue.ErrClosed) || strings.Count(err.Error(), w.cfg.Queue) != 1 {
			t.Errorf("error %v", err)
		}
		stop()
		if err := w.inbox.Run(ctx, ctx, nil); err != nil {
			t.Errorf("after a stop: %v", err)
		}
	})
}

// curious is a broker that keeps what it is asked to consume.
type curious struct {
	queue.Broker
	asked chan queue.Consumption
}

func (b curious) Consume(stop, work context.Context, c queue.Consumption) error {
	b.asked <- c
	return b.Broker.Consume(stop, work, c)
}

func TestFewerDeliveriesAreHeldWhileMessagesAreLarge(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		b := curious{w.broker, make(chan queue.Consumption, 1)}
		w.cfg.Broker, w.cfg.Workers, w.cfg.Prefetch = b, 1, inbox.Prefetch{Messages: 200, Bytes: 1 << 20}
		w.renew()
		var c calls
		r := w.start(c.succeeding)
		held := (<-b.asked).Prefetch
		for o := range int64(300) {
			w.instant(o)
		}
		synctest.Wait()
		if got := held(); got != 200 {
			t.Errorf("%d held after small messages, want 200", got)
		}
		large := envelope.Envelope{Message: stepwell.Message{ID: "large", Value: make([]byte, 128<<10), Attempt: 1}}
		w.put(w.cfg.Queue, large.Encode())
		synctest.Wait()
		if got := held(); got > 8 || got < 4 {
			t.Errorf("%d held after a message of 128 KiB, want at most the 8 that fit into 1 MiB", got)
		}
		r.end()
	})
}

func TestFewerDeliveriesAreHeldWhileCallsAreSlow(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		b := curious{w.broker, make(chan queue.Consumption, 1)}
		w.cfg.Broker, w.cfg.Workers, w.cfg.Prefetch.Messages = b, 1, 200
		w.renew()
		slow := make(chan struct{})
		n := 0
		r := w.start(func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
			if n++; n == 301 {
				<-slow
			}
			return task.Settled
		})
		held := (<-b.asked).Prefetch
		if got := held(); got != 2 {
			t.Errorf("%d held before anything is known, want 2", got)
		}
		for o := range int64(301) {
			w.instant(o)
		}
		synctest.Wait()
		if got := held(); got != 200 {
			t.Errorf("%d held after 300 fast calls, want 200", got)
		}
		time.Sleep(4 * time.Minute)
		if got := held(); got != 2 {
			t.Errorf("%d held while a call runs for four minutes, want 2", got)
		}
		close(slow)
		r.end()
	})
}
