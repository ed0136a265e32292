package inbox_test

import (
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
	"github.com/stepwell/stepwell/internal/solo"
	"github.com/stepwell/stepwell/internal/task"
)

// accused puts a suspect into the queue that so many processes died of.
func (w *world) accused(id string, deaths int) {
	w.t.Helper()
	w.copied(id, strings.Repeat("00000007,", deaths))
}

// copied puts a copy of a suspect into the queue, with the processes that died of it.
func (w *world) copied(id, died string) {
	w.t.Helper()
	m := unsuspected(id)
	m.Headers["x-stepwell-suspect"], m.Headers["x-stepwell-suspect-by"] = died, ""
	w.put(w.cfg.Queue, m)
}

// unsuspected is a copy from before that.
func unsuspected(id string) queue.Message {
	e := envelope.Envelope{Message: stepwell.Message{ID: id, Value: []byte("x"), Attempt: 2, Origin: stepwell.Origin{Topic: "t"}}}
	return e.Encode()
}

func TestAThirdMessageInARowIsNotCondemnedAndRuns(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit = 3
		w.renew()
		for _, id := range []string{"a", "b", "c"} {
			w.accused(id, 4)
		}
		var c calls
		r := w.start(c.succeeding)
		time.Sleep(time.Hour)
		r.end()
		if dead := len(w.dead()); dead != 2 || len(c.tries) != 1 {
			t.Errorf("%d dead and %d calls, want 2 and 1", dead, len(c.tries))
		}
		w.empty()
	})
}

// A process that dies between the confirm of a suspect's copy and the ack of what it stands for
// leaves two of them.
func TestTheCopyOfAMessageThatWasCondemnedHereIsARepeat(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit = 3
		w.renew()
		var made calls
		r := w.start(made.succeeding)
		for _, died := range []string{"00000001,00000002,00000003,00000004", "", "00000005", "00000005,00000006,00000007,00000008"} {
			w.copied("x", died)
			time.Sleep(time.Hour)
		}
		r.end()
		if dead, repeats := len(w.dead()), w.owner.duplicates(); dead != 1 || repeats != 3 || len(made.tries) != 0 {
			t.Errorf("%d dead, %d repeats and %d calls, want 1, 3 and 0", dead, repeats, len(made.tries))
		}
		w.empty()
	})
}

// One from before it was suspected may run while another is on trial.
func TestAMessageOfWhichACopyRunsIsNotCondemnedBeforeThatIsOver(t *testing.T) {
	for outcome, times := range map[task.Outcome]int{task.Settled: 1, task.Abandoned: 2} {
		t.Run(fmt.Sprintf("called %d times", times), func(t *testing.T) {
			inWorld(t, s, func(w *world) {
				w.cfg.Suspects.Limit = 3
				var said strings.Builder
				w.cfg.Logger = slog.New(slog.NewTextHandler(&said, nil))
				w.renew()
				var c calls
				r := w.start(func(_ context.Context, m *stepwell.Message, _ inbox.Ticket) task.Outcome {
					if c.add(m) > 1 {
						return task.Settled
					}
					time.Sleep(5 * time.Minute)
					return outcome
				})
				w.accused("x", 4)
				time.Sleep(30 * s) // in the middle of its trial
				w.put(w.cfg.Queue, unsuspected("x"))
				time.Sleep(4 * time.Minute)
				if n := w.depth(w.cfg.Queue + ".dead"); n != 0 || len(c.attempts()) != 1 {
					t.Errorf("%d in the dead set while it runs, %d calls", n, len(c.attempts()))
				}
				time.Sleep(time.Hour)
				r.end()
				if dead := len(w.dead()); dead != 0 || len(c.tries) != times || strings.Contains(said.String(), "it goes to the dead set, not called") {
					t.Errorf("%d dead, %d calls, want 0 and %d; it says %s", dead, len(c.tries), times, said.String())
				}
				w.empty()
			})
		})
	}
}

// slowly has the dead set take what is buried, and confirm it only when it is let.
func (o *owner) slowly(confirms <-chan struct{}) {
	o.buried = func(done func(error)) func(error) {
		return func(err error) {
			go func() {
				<-confirms
				done(err)
			}()
		}
	}
}

func TestWhileTheDeadSetConfirmsNothingNoMoreThanTwoMessagesAreCondemnedAndNoneTwice(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit = 3
		w.renew()
		confirms := make(chan struct{})
		w.owner.slowly(confirms)
		for _, id := range []string{"a", "a", "b", "b", "c"} {
			w.accused(id, 4)
		}
		var c calls
		r := w.start(c.succeeding)
		time.Sleep(time.Hour)
		if n := w.depth(w.cfg.Queue + ".dead"); n != 2 || len(c.attempts()) != 1 {
			t.Errorf("%d in the dead set, %d calls, want 2 and 1", n, len(c.attempts()))
		}
		close(confirms)
		r.end()
		if dead, repeats := len(w.dead()), w.owner.duplicates(); dead != 2 || repeats != 2 {
			t.Errorf("%d dead and %d repeats, want 2 and 2", dead, repeats)
		}
		w.empty()
	})
}

// As settled it would be acked uncalled when it is handed out again, and be nowhere; and refused
// twice it would be called, as if it were not the messages.
func TestAMessageThatTheDeadSetDoesNotTakeIsNotSettledByBeingCondemned(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit = 3
		var takes atomic.Bool
		w.refuses(func(m queue.Message) bool {
			_, suspect := m.Headers["x-stepwell-suspect"]
			return !suspect && !takes.Load()
		})
		w.accused("x", 4)
		var c calls
		r := w.start(c.succeeding)
		time.Sleep(10 * time.Minute)
		if n := len(w.dead()); n != 0 {
			t.Fatalf("%d in a dead set that takes nothing", n)
		}
		takes.Store(true)
		time.Sleep(10 * time.Minute)
		r.end()
		if e := w.oneDead(); e.Failure.Reason != stepwell.ReasonCrashLoop || len(c.tries) != 0 {
			t.Errorf("%s, after %d calls", e.Failure.Reason, len(c.tries))
		}
		w.empty()
	})
}

func TestATrialThatCannotSeeWhoLivesPutsTheMessageOffAndTriesAgain(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit = 3
		var sees atomic.Bool
		w.sees(func(context.Context, string) (bool, error) {
			if !sees.Load() {
				return false, queue.ErrUnavailable
			}
			return false, nil
		})
		w.renew()
		w.accused("x", 1)
		var c calls
		r := w.start(c.succeeding)
		time.Sleep(10 * time.Minute)
		if n := len(c.attempts()); n != 0 {
			t.Errorf("%d calls while nobody can say who lives", n)
		}
		sees.Store(true)
		time.Sleep(5 * time.Minute)
		r.end()
		if len(c.tries) != 1 || len(w.dead()) != 0 {
			t.Errorf("%d calls", len(c.tries))
		}
		w.empty()
	})
}

func TestAStopEndsATrialAndGivesMessageAndTurnBack(t *testing.T) {
	inWorld(t, s, func(w *world) {
		var token solo.Token
		w.cfg.Suspects = inbox.Suspects{Wait: w.cfg.Wait, Limit: 3, Token: &token}
		w.renew()
		w.accused("x", 1)
		var c calls
		r := w.start(c.succeeding)
		time.Sleep(30 * s)
		other := &solo.Turn{Ready: func() {}}
		if st := w.inbox.Status(); st.Suspect == "" || token.Try(other) {
			t.Errorf("status %+v, and the token is free, while the trial is on", st)
		}
		began := time.Now()
		r.end()
		if took, n := time.Since(began), w.depth(w.cfg.Queue); took > 0 || n != 1 || len(c.tries) != 0 {
			t.Errorf("the stop took %v, %d are back, %d calls", took, n, len(c.tries))
		}
		if st := w.inbox.Status(); st.Suspect != "" || !token.Try(other) {
			t.Errorf("status %+v, and the token is taken, after the stop", st)
		}
	})
}

func TestASuspectIsShownWhileItRunsAndItsTurnEndsWithItsCall(t *testing.T) {
	inWorld(t, s, func(w *world) {
		var token solo.Token
		w.cfg.Suspects = inbox.Suspects{Wait: w.cfg.Wait, Limit: 3, Token: &token}
		w.returned("slow")
		w.renew()
		finish := make(chan struct{})
		r := w.start(func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
			<-finish
			return task.Settled
		})
		time.Sleep(time.Minute) // longer than the token is kept for the announced copy
		other := &solo.Turn{Ready: func() {}}
		if st := w.inbox.Status(); st.Suspect != "slow" || token.Try(other) {
			t.Errorf("status %+v while it runs", st)
		}
		close(finish)
		synctest.Wait()
		if st := w.inbox.Status(); st.Suspect != "" || !token.Try(other) {
			t.Errorf("status %+v afterwards", st)
		}
		r.end()
		w.empty()
	})
}

// As where the announced copy came to others first, and here without a name.
func TestASuspectThatHadItsTrialHasNoOtherWhenItComesAgainWithNoMoreDeaths(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects = inbox.Suspects{Wait: w.cfg.Wait, Limit: 3, Probation: time.Hour}
		relents, _ := w.grudging()
		w.accused("x", 1)
		var c calls
		r := w.start(c.succeeding)
		time.Sleep(time.Hour + 30*s) // its announcement was refused, and it rests
		relents.Store(true)
		time.Sleep(time.Minute)
		if n := len(c.attempts()); n != 1 {
			t.Errorf("%d calls when it came again after its trial, want 1", n)
		}
		r.end()
		w.empty()
	})
}

func TestAMessageThatIsNotCondemnedSinceItIsNotTheMessagesRunsWithoutItsDeaths(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects = inbox.Suspects{Wait: w.cfg.Wait, Limit: 2, Process: 9}
		told := w.watched()
		r := w.start(told.succeeding)
		for _, id := range []string{"a", "b", "c"} { // one after the other, so that none waits for its turn
			w.accused(id, 3)
			time.Sleep(10 * time.Minute)
		}
		r.end()
		if want := []string{"/00000009", "called"}; !slices.Equal(told.sofar(), want) {
			t.Errorf("it went %q, want %q", told.sofar(), want)
		}
	})
}

func TestARunThatCanConsumeNoMoreWaitsForNoTrial(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects = inbox.Suspects{Wait: w.cfg.Wait, Limit: 3, Probation: time.Hour}
		w.cfg.Broker = failing{w.broker}
		w.renew()
		w.accused("x", 1)
		began := time.Now()
		err := <-w.start(new(calls).succeeding).ended
		if took := time.Since(began); !errors.Is(err, queue.ErrClosed) || took > 11*s {
			t.Errorf("ended with %v after %v, and could consume for ten seconds", err, took)
		}
	})
}
