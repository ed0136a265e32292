package inbox_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/solo"
	"github.com/stepwell/stepwell/internal/task"
)

// lazy is a broker that takes its time with acks.
type lazy struct {
	queue.Broker
	flush time.Duration
}

func (b lazy) Consume(stop, work context.Context, c queue.Consumption) error {
	handle := c.Handle
	c.Handle = func(ctx context.Context, d queue.Delivery) bool {
		d.Session = lazySession{d.Session, b.flush}
		return handle(ctx, d)
	}
	return b.Broker.Consume(stop, work, c)
}

type lazySession struct {
	queue.Session
	flush time.Duration
}

func (l lazySession) Flush(ctx context.Context) error {
	task.Sleep(ctx, l.flush)
	return ctx.Err()
}

// If the call killed the process before that, the message would be there twice.
func TestAnAnnouncedSuspectIsCalledOnceTheBrokerTookTheAckOfWhatItStandsFor(t *testing.T) {
	for name, test := range map[string]struct{ flush, want time.Duration }{
		"after three seconds":            {3 * s, 3 * s},
		"never, and ten seconds must do": {time.Hour, 10 * s},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, s, func(w *world) {
				w.cfg.Suspects.Limit = 3
				w.cfg.Broker = lazy{w.broker, test.flush}
				w.renew()
				w.copied("x", "")
				began, called := time.Now(), make(chan time.Duration, 1)
				r := w.start(func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
					called <- time.Since(began)
					return task.Settled
				})
				if after := <-called; after != test.want {
					t.Errorf("called after %v, want %v", after, test.want)
				}
				r.end()
				w.empty()
			})
		})
	}
}

func TestASuspectThatCannotBeAnnouncedLeavesTheTokenToOthersWhileItRests(t *testing.T) {
	inWorld(t, s, func(w *world) {
		var token solo.Token
		w.cfg.Suspects.Limit, w.cfg.Suspects.Token = 3, &token
		relents, _ := w.grudging()
		w.copied("x", "")
		var c calls
		r := w.start(c.succeeding)
		time.Sleep(s)
		other := &solo.Turn{Ready: func() {}}
		if st := w.inbox.Status(); st.Suspect != "" || !token.Try(other) {
			t.Errorf("status %+v, and the token is taken, while nothing was announced", st)
		}
		token.Release(other)
		relents.Store(true)
		time.Sleep(2 * time.Minute)
		r.end()
		if n := len(c.attempts()); n != 1 {
			t.Errorf("%d calls once it could be announced", n)
		}
		w.empty()
	})
}

func TestTheTokenIsKeptFromTheTrialThroughTheAnnouncementToTheEndOfTheCall(t *testing.T) {
	inWorld(t, s, func(w *world) {
		var token solo.Token
		w.cfg.Suspects.Limit, w.cfg.Suspects.Process, w.cfg.Suspects.Token = 3, 7, &token
		told := w.watched()
		w.copied("x", "00000008")
		r := w.start(func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
			time.Sleep(5 * s)
			told.tell("called")
			return task.Settled
		})
		time.Sleep(30 * s) // in the middle of its trial
		token.Request(&solo.Turn{Ready: func() { told.tell("another has its turn") }})
		time.Sleep(time.Hour)
		r.end()
		if want := []string{"00000008/00000007", "called", "another has its turn"}; !slices.Equal(told.sofar(), want) {
			t.Errorf("it went %q, want %q", told.sofar(), want)
		}
		w.empty()
	})
}

func TestASuspectWhoseTurnIsNotNowWaitsBesideOrGoesAroundSlowly(t *testing.T) {
	for name, test := range map[string]struct {
		wait         time.Duration // of the queue beside; 0: there is none
		inHand       int
		fewest, most int // copies within a minute
	}{
		"there is a queue beside": {time.Hour, 0, 1, 1},
		"there is none":           {0, 1, 60, 120},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, test.wait, func(w *world) {
				var token solo.Token
				w.cfg.Suspects.Limit, w.cfg.Suspects.Token = 3, &token
				told := w.watched()
				w.copied("x", "")
				other := &solo.Turn{Ready: func() {}}
				token.Request(other)
				var c calls
				r := w.start(c.succeeding)
				time.Sleep(time.Minute)
				w.has(test.inHand, 0)
				if n := len(told.sofar()); n < test.fewest || n > test.most {
					t.Errorf("%d copies in a minute, want %d to %d", n, test.fewest, test.most)
				}
				token.Release(other)
				time.Sleep(2 * time.Hour)
				r.end()
				if n := len(c.attempts()); n != 1 {
					t.Errorf("%d calls once the token was free", n)
				}
				w.empty()
			})
		})
	}
}

// Who lives is not known by the time of the stop.
func TestAStopWhileATrialAsksWhoLivesGivesTheMessageBack(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit = 3
		w.cfg.Suspects.Probation = 8 * s
		w.sees(func(ctx context.Context, _ string) (bool, error) {
			<-ctx.Done()
			return false, ctx.Err()
		})
		told := w.watched()
		w.copied("x", "00000008")
		r := w.start(told.succeeding)
		time.Sleep(6 * s)
		r.end()
		if st := w.inbox.Status(); w.depth(w.cfg.Queue) != 1 || st.InFlight != 0 || st.Suspect != "" || len(told.sofar()) != 0 {
			t.Errorf("%d are back, status %+v, it went %q", w.depth(w.cfg.Queue), st, told.sofar())
		}
	})
}

func TestRunReturnsOnlyWhenATrialHasEnded(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit = 3
		asked, ended := make(chan struct{}), false
		w.sees(func(context.Context, string) (bool, error) {
			close(asked)
			time.Sleep(5 * s) // whatever its context says
			ended = true
			return false, nil
		})
		w.renew()
		w.copied("x", "00000008")
		r := w.start(new(calls).succeeding)
		<-asked
		r.abort() // so that no drain waits for the message
		r.end()
		if !ended {
			t.Error("Run has returned, and a trial goes on")
		}
		synctest.Wait()
	})
}

// A copy of its next try that was suspected still would count deaths on.
func TestWhatASuspectLeavesInItsNextQueueHoldsNothingAgainstIt(t *testing.T) {
	inWorld(t, time.Hour, func(w *world) {
		w.cfg.Suspects.Limit = 3
		told := w.watched()
		w.copied("x", "00000008")
		r := w.start(func(_ context.Context, _ *stepwell.Message, tk inbox.Ticket) task.Outcome {
			for key := range tk.Came().Extra {
				told.tell("it still has " + key)
			}
			return w.park(tk)
		})
		time.Sleep(30 * time.Minute)
		r.end()
		if got := told.sofar(); len(got) != 1 || w.depth(w.cfg.Wait) != 1 {
			t.Errorf("%d wait; it went %q, want one announcement", w.depth(w.cfg.Wait), got)
		}
	})
}
