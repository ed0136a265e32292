package inbox_test

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/solo"
	"github.com/stepwell/stepwell/internal/task"
)

// unhurried is a broker whose consumers send acks when they are flushed, or after five seconds.
type unhurried struct {
	queue.Broker
	told *story
}

func (l unhurried) Consume(stop, work context.Context, c queue.Consumption) error {
	handle := c.Handle
	c.Handle = func(ctx context.Context, d queue.Delivery) bool {
		d.Session = &unhurriedSession{Session: d.Session, told: l.told}
		return handle(ctx, d)
	}
	return l.Broker.Consume(stop, work, c)
}

type unhurriedSession struct {
	queue.Session
	told *story

	mu    sync.Mutex
	acked []uint64
}

func (l *unhurriedSession) Ack(tag uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked = append(l.acked, tag)
	time.AfterFunc(5*s, func() { _ = l.Flush(context.Background()) })
}

func (l *unhurriedSession) Flush(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, tag := range l.acked {
		l.Session.Ack(tag)
		l.told.tell("acked")
	}
	l.acked = nil
	return l.Session.Flush(ctx)
}

// Until the broker has the ack, the copy names the process: if the next suspect killed it, there
// would be two deaths of one.
func TestTheTokenIsKeptUntilTheBrokerHasTheAckOfTheSuspect(t *testing.T) {
	parks := func(w *world, told *story) inbox.Handle {
		return func(_ context.Context, _ *stepwell.Message, t inbox.Ticket) task.Outcome {
			t.Park(func(ctx context.Context, e *envelope.Envelope, done func(error)) {
				time.AfterFunc(3*s, func() { // so long it takes until it is confirmed
					told.tell("parked")
					e.Message.Attempt++
					w.cfg.Publisher.Publish(ctx, w.specs[0].Name, e.Encode(), done)
				})
			})
			return task.Pending
		}
	}
	for name, test := range map[string]struct {
		handle func(*world, *story) inbox.Handle
		limit  time.Duration // of its turn; 0: the default
		want   []string
	}{
		"it is done": {func(_ *world, told *story) inbox.Handle { return told.succeeding }, 0, []string{"called", "acked", "another has its turn"}},
		"it failed":  {parks, 0, []string{"parked", "acked", "another has its turn"}},
		"its turn is over": {func(_ *world, told *story) inbox.Handle {
			return func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
				time.Sleep(time.Minute)
				told.tell("called")
				return task.Settled
			}
		}, 20 * s, []string{"acked", "another has its turn", "called"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, time.Hour, func(w *world) {
				told, token := &story{}, &solo.Token{}
				w.cfg.Suspects.Limit, w.cfg.Suspects.Process, w.cfg.Suspects.Token, w.cfg.Suspects.AloneFor = 3, 7, token, test.limit
				w.cfg.Broker = unhurried{w.broker, told}
				w.renew()
				w.announced("x", "00000007")
				r := w.start(test.handle(w, told))
				time.Sleep(time.Millisecond)
				token.Request(&solo.Turn{Ready: func() { told.tell("another has its turn") }})
				time.Sleep(10 * time.Minute)
				if got := told.sofar(); !slices.Equal(got[:min(len(got), 3)], test.want) {
					t.Errorf("it went %q, want %q", got, test.want)
				}
				r.end()
			})
		})
	}
}

func TestTheTokenIsNotKeptForLongForASuspectThatCannotBeParked(t *testing.T) {
	inWorld(t, time.Hour, func(w *world) {
		var token solo.Token
		w.cfg.Suspects.Limit, w.cfg.Suspects.Process, w.cfg.Suspects.Token = 3, 7, &token
		w.renew()
		w.announced("x", "00000007")
		r := w.start(func(_ context.Context, _ *stepwell.Message, t inbox.Ticket) task.Outcome {
			t.Park(func(ctx context.Context, _ *envelope.Envelope, done func(error)) {
				context.AfterFunc(ctx, func() { done(ctx.Err()) })
			})
			return task.Pending
		})
		time.Sleep(s)
		began, had := time.Now(), make(chan time.Time, 1)
		token.Request(&solo.Turn{Ready: func() { had <- time.Now() }})
		if took := (<-had).Sub(began); took > 10*s {
			t.Errorf("the next suspect waited for %v", took)
		}
		r.stop()
		r.abort()
		r.end()
	})
}

func TestTheWorkerOfASuspectGoesOnWhileTheTokenWaitsForItsEnd(t *testing.T) {
	inWorld(t, time.Hour, func(w *world) {
		w.cfg.Suspects.Limit, w.cfg.Suspects.Process, w.cfg.Workers = 3, 7, 1
		w.renew()
		w.announced("x", "00000007")
		called := make(chan string, 2)
		r := w.start(func(_ context.Context, m *stepwell.Message, t inbox.Ticket) task.Outcome {
			called <- m.ID
			if m.ID != "x" {
				return task.Settled
			}
			t.Park(func(ctx context.Context, _ *envelope.Envelope, done func(error)) {
				context.AfterFunc(ctx, func() { done(ctx.Err()) })
			})
			return task.Pending
		})
		<-called
		began := time.Now()
		w.put(w.cfg.Queue, unsuspected("another"))
		if id, took := <-called, time.Since(began); id != "another" || took > s {
			t.Errorf("%s is called after %v", id, took)
		}
		r.stop()
		r.abort()
		r.end()
	})
}

func TestASuspectWhoseHandlerEndsItsGoroutineEndsTheRunAtOnce(t *testing.T) {
	inWorld(t, time.Hour, func(w *world) {
		w.cfg.Suspects.Limit, w.cfg.Suspects.Process = 3, 7
		w.renew()
		w.announced("x", "00000007")
		r := w.start(func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
			runtime.Goexit()
			return task.Settled
		})
		began := time.Now()
		if err := <-r.ended; err == nil {
			t.Error("no error")
		}
		if took := time.Since(began); took > s {
			t.Errorf("it took %v", took)
		}
	})
}
