package rabbit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
)

// errNotOpened: the queue gave no consumer, and the connection ended over that.
var errNotOpened = errors.New("the queue gives no consumer")

// notOpened is why no consumer was opened. RabbitMQ ends the connection where a quorum queue has no
// leader; we do where it does not answer.
func notOpened(err error) error {
	if code(err) == amqp.InternalError || errors.Is(err, errNoAnswer) {
		return fmt.Errorf("%w: %w", errNotOpened, err)
	}
	return err
}

// isApart says that a consumer is to have a connection of its own, so that what ends it ends
// nothing else: the last one ended with err, nil where it is only to be opened anew, and had such a
// connection or had not. The error may be that of a queue without a leader, of which RabbitMQ says
// that it has no consumers. Who has a connection of its own keeps it until mayReturn. A source has
// one always: a stranger's messages may be such that the AMQP library cannot read them, which ends
// the connection each time.
func isApart(c queue.Consumption, was bool, err error) bool {
	costsOthers := errors.Is(err, errNotOpened) || errors.Is(err, errConsumerForgot)
	return c.Foreign || err != nil && (was || costsOthers)
}

// carefully has a message alone in hand until it is acked, where the connection of the last
// consumer ended since a message could not be read, be it that of another consumer: it may be the
// next one again. All that is in hand then counts one more return, and RabbitMQ drops what has too
// many.
func carefully(c queue.Consumption, err error) queue.Consumption {
	if !errors.Is(err, errUnreadable) {
		return c
	}
	var came atomic.Int64
	prefetch, handle := c.Prefetch, c.Handle
	c.Prefetch = func() int {
		if came.Load() < 2 || prefetch == nil { // the second comes once the first is acked
			return 1
		}
		return max(3, prefetch()) // a smaller one would not be told: see lookAfter
	}
	c.Handle = func(ctx context.Context, d queue.Delivery) bool {
		came.Add(1)
		return handle(ctx, d)
	}
	return c
}

// consumeIn is consumeOn in that session, or in one of its own.
func consumeIn(stop, work context.Context, b *Broker, apart bool, s *session, c queue.Consumption, anew *renewal) error {
	if !apart {
		return b.consumeOn(stop, work, s, c, anew)
	}
	s, err := connect(stop, b.targets, b.config.ConnectionName+" consume "+c.Queue)
	if err != nil {
		return err
	}
	ended, err := keepOpen(b, s)
	if err != nil {
		return err
	}
	err = b.consumeOn(stop, work, s, c, anew)
	s.end(errSessionOver)
	<-ended
	return err
}

// mayReturn says that a consumer, which its queue knows, is on a connection of its own that it
// needs no longer.
func mayReturn(k *consumer) bool {
	s, _ := k.b.consume.current()
	return !k.c.Foreign && s != nil && s != k.session
}

// keepOpen has a goroutine own the connection, which closes it, and then ended, once the session
// or Run ends.
func keepOpen(b *Broker, s *session) (ended <-chan struct{}, err error) {
	done := make(chan struct{})
	kept := b.spawn(func(ctx context.Context) {
		defer close(done)
		select {
		case <-ctx.Done():
		case <-s.ctx.Done():
		}
		s.close()
	})
	if !kept {
		s.close()
		return nil, queue.ErrClosed
	}
	return done, nil
}
