package rabbit

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestTheEndOfAnAlarmIsKnownByTheClockThatNobodySets(t *testing.T) {
	s := &session{wire: &wire{}}
	s.ctx, s.end = context.WithCancelCause(t.Context())
	blocked := make(chan amqp.Blocking, 1)
	closed := make(chan *amqp.Error)
	s.watcher.Go(func() { s.watch(closed, blocked) })
	blocked <- amqp.Blocking{Active: false}
	eventually(t, time.Minute, "the alarm is over", func() bool { return s.unblockedAt.Load() != nil })
	close(closed)
	s.watcher.Wait()
	if at := s.unblockedAt.Load().String(); !strings.Contains(at, " m=") {
		t.Error("the monotonic clock's reading is gone: whoever sets the wall clock changes how long a confirm may take")
	}
}

// As where a queue has no majority: the end of an alarm brings no answer to the close of a channel
// that was published on. Else the lane would wait for it, with all other queues' messages.
func TestAnAlarmThatEndsWithoutAnAnswerIsNoReasonToWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, _ := net.Pipe()
		s := &session{wire: newWire(ours, time.Hour)}
		s.ctx, s.end = context.WithCancelCause(t.Context())
		defer s.end(nil)
		s.wire.blocked.Store(true)
		time.AfterFunc(2*callLimit+callLimit/2, func() {
			s.unblockedAt.Store(new(time.Now()))
			s.wire.blocked.Store(false)
		})
		began := time.Now()
		err := s.call("close channel", func() error {
			if !sleep(s.ctx, time.Hour) {
				return context.Cause(s.ctx)
			}
			return nil
		})
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "no answer") || took != 4*callLimit {
			t.Errorf("%v after %s", err, took)
		}
	})
}
