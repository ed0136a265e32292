package rabbit

import (
	"context"
	"strings"
	"testing"
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
