package rabbit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
)

// errAway ends the wait for a broker that has been away for longer than anybody waits.
var errAway = errors.New("away for longer than a walk waits")

// lease is held by an exclusive queue on a connection of its own, so that the broker frees it when
// the process dies.
type lease struct {
	b     *Broker
	queue string
	// ttl is for how long the queue keeps messages; 0: for good.
	ttl     time.Duration
	session *session
	// locked is the channel that declared the exclusive queue; nil: another connection has that
	// queue.
	locked *amqp.Channel
	ended  <-chan struct{} // closed when the connection is closed

	mu sync.Mutex
	// open: a window is open, and no other may be. mu guards it, also while a window is being
	// opened.
	open bool
}

// Lease takes the right to walk the queue; see queue.Broker.
func (b *Broker) Lease(ctx context.Context, name string) (queue.Lease, error) {
	// Who waits here is a person with a request that has a time limit: after a long outage each
	// request would only wait in vain.
	if b.publish.away() > b.config.LeaseWait {
		return nil, b.unavailable(errAway)
	}
	limited, cancel := context.WithTimeout(ctx, b.config.LeaseWait)
	defer cancel()
	select {
	case <-b.started:
	case <-limited.Done():
		return nil, b.unavailable(limited.Err())
	}
	s, err := b.leaseSession(limited)
	if err != nil {
		return nil, err
	}
	ended, err := keepOpen(b, s)
	if err != nil {
		return nil, err
	}
	l := &lease{b: b, queue: name, session: s, ended: ended}
	if err := l.lock(); err != nil {
		l.Release()
		return nil, err
	}
	return l, nil
}

// On is the lease for another queue; see queue.Lease. Its windows are channels of the same
// connection.
func (l *lease) On(spec queue.Spec) queue.Lease {
	return &lease{b: l.b, queue: spec.Name, ttl: spec.TTL, session: l.session, ended: l.ended}
}

// Depth is that of a queue of which nobody holds messages; see queue.Lease.
func (l *lease) Depth(ctx context.Context) (int, error) { return l.settled(ctx) }

// Drop deletes the queue if it is empty; see queue.Lease. RabbitMQ's own if-empty closes the
// connection where a quorum queue is meant, and what it says of a queue's depth may be wrong (see
// session.count): so the queue is emptied by a consumer, which gets nothing. In between nobody
// publishes to it who has not this lease.
func (l *lease) Drop(ctx context.Context) error {
	if l.locked != nil {
		return fmt.Errorf("delete %s: %w", l.queue, errInUse)
	}
	if depth, err := l.settled(ctx); err != nil || depth > 0 {
		return cmp.Or(err, fmt.Errorf("delete %s: %w", l.queue, errInUse))
	}
	w := newWindow(l, 0, 0, maphash.MakeSeed())
	deliveries, err := w.consume()
	if err == nil {
		err = l.nothing(ctx, deliveries)
	}
	if err == nil {
		err = l.session.call("delete queue "+l.queue, func() error {
			_, err := w.ch.QueueDelete(l.queue, false, false, false)
			return err
		})
	}
	l.b.topology.forget(l.queue)
	// Also after an error: what came goes back with the channel.
	if w.ch != nil && !w.ch.IsClosed() {
		err = cmp.Or(err, l.session.closeChannel(w.ch))
	}
	if err != nil {
		return l.failed(fmt.Errorf("delete it: %w", err))
	}
	return nil
}

// errInUse: a queue is not deleted, since it has messages, or since it is the one that is leased.
var errInUse = errors.New("it is in use")

// nothing waits until it is certain that a consumer gets nothing: an answer that knows of the
// consumer comes from the queue itself.
func (l *lease) nothing(ctx context.Context, deliveries <-chan amqp.Delivery) error {
	limit := time.Now().Add(l.b.config.LeaseWait)
	for quiet := 0; quiet < windowLooks; {
		select {
		case <-deliveries: // or the consumer is gone
			return errInUse
		case <-time.After(windowIdle / windowLooks):
		case <-ctx.Done():
			return ctx.Err()
		}
		state, err := l.session.count(l.queue)
		switch {
		case err != nil && !errors.Is(err, errMute):
			return err
		case state.Messages > 0:
			return errInUse
		case state.Consumers > 0:
			quiet++
		case time.Now().After(limit):
			return errMute
		}
	}
	return nil
}

// Accepts waits until there is a connection to publish on, and no alarm; see queue.Broker. A lease
// does not ask for the alarm: RabbitMQ blocks connections that have published, and a lease's has
// not.
func (b *Broker) Accepts(ctx context.Context) error {
	if b.publish.away() > b.config.LeaseWait {
		return b.unavailable(errAway)
	}
	limited, cancel := context.WithTimeout(ctx, b.config.LeaseWait)
	defer cancel()
	for {
		s, _ := b.publish.current()
		switch {
		case s != nil && !s.blocked():
			return nil
		case b.isOver():
			return queue.ErrClosed
		case !sleep(limited, 50*time.Millisecond):
			return b.unavailable(limited.Err())
		}
	}
}

// leaseSession connects, again and again until ctx ends. A lease has a connection of its own so
// that whatever ends it ends nothing else.
func (b *Broker) leaseSession(ctx context.Context) (*session, error) {
	wait := b.config.backoff()
	for {
		s, err := connect(ctx, b.targets, b.config.ConnectionName+" lease")
		if err == nil {
			s.asking = make(chan *amqp.Channel, 1) // a walk looks at one queue after the other
			return s, nil
		}
		if b.isOver() {
			return nil, queue.ErrClosed
		}
		if errors.Is(err, errTooOld) || !sleep(ctx, wait.next()) {
			return nil, fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
		}
	}
}

// lock declares the exclusive queue, which the broker lets only one connection have at a time.
// ErrLeased means that another has it.
func (l *lease) lock() error {
	ch, err := l.session.exclusive(l.queue)
	switch {
	case err == nil:
		l.locked = ch
		return nil
	case code(err) == amqp.ResourceLocked:
		return fmt.Errorf("%w: %w", queue.ErrLeased, err)
	case l.session.lostOver(err):
		return fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	default:
		return err
	}
}

// Ended is closed when the lease has ended; see queue.Lease.
func (l *lease) Ended() <-chan struct{} { return l.session.ctx.Done() }

// Release gives the lease back by closing its connection. It deletes the exclusive queue before:
// the broker does so only some moments after the connection is gone, and who walks again at once
// would find the lease taken.
func (l *lease) Release() {
	if l.locked != nil && l.session.alive() {
		_ = l.session.call("free lease of "+l.queue, func() error {
			_, err := l.locked.QueueDelete(lockOf(l.queue), false, false, false)
			return err
		})
	}
	l.session.end(errSessionOver)
	<-l.ended
}

// settled waits until no consumer holds messages of the queue, so that its depth is all it has, and
// returns the depth.
func (l *lease) settled(ctx context.Context) (int, error) {
	limit := time.Now().Add(l.b.config.LeaseWait)
	for {
		state, err := l.count(ctx)
		late := time.Now().After(limit)
		switch {
		case err != nil && (late || !errors.Is(err, errMute)):
			return 0, l.failed(err)
		// Messages counts only those that no consumer holds.
		case err == nil && state.Consumers == 0:
			return state.Messages, nil
		case late:
			return 0, fmt.Errorf("%w: %d consumers of %s", queue.ErrLeased, state.Consumers, l.queue)
		}
		if !sleep(ctx, 20*time.Millisecond) {
			return 0, ctx.Err()
		}
	}
}

// count is session.count for a queue that nobody else consumes. Of a queue whose leader is away
// RabbitMQ says at once that it has neither messages nor consumers, as of an empty one: so an empty
// one is asked again.
func (l *lease) count(ctx context.Context) (amqp.Queue, error) {
	state, err := l.session.count(l.queue)
	if err != nil || state.Messages > 0 || state.Consumers > 0 {
		return state, err
	}
	return l.recount(ctx)
}

// recount counts after the queue has given a consumer, which it alone can. Without a leader that is
// refused, and ends the connection; with one that comes meanwhile the consumer is sent what there
// is, which goes back with its channel.
func (l *lease) recount(ctx context.Context) (state amqp.Queue, err error) {
	w := newWindow(l, 0, 0, maphash.MakeSeed())
	_, err = w.consume()
	if w.ch != nil && !w.ch.IsClosed() {
		err = cmp.Or(err, l.session.closeChannel(w.ch))
	}
	for limit := time.Now().Add(l.b.config.LeaseWait); err == nil; {
		state, err = l.session.count(l.queue)
		if err != nil || state.Messages > 0 || state.Consumers == 0 || time.Now().After(limit) || !sleep(ctx, 5*time.Millisecond) {
			break
		}
	}
	return state, err
}

// failed wraps what went wrong on the lease's connection.
func (l *lease) failed(err error) error {
	if code(err) == amqp.NotFound {
		l.b.topology.forget(l.queue)
		err = fmt.Errorf("%w: %w", queue.ErrMissing, err)
	}
	if l.session.lostOver(err) || code(err) == amqp.NotFound { // a queue that is not there yet, or will be declared again
		return fmt.Errorf("%w: walk of %s: %w", queue.ErrUnavailable, l.queue, err)
	}
	return fmt.Errorf("walk of %s: %w", l.queue, err)
}
