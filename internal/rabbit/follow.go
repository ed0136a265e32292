package rabbit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
)

const (
	// followAhead is how many entries of a log are on their way at most. To ack one only makes room
	// for others: a stream keeps it.
	followAhead = 1000
	// followAck is how long an entry is unacked at most: a channel with one that is so for longer
	// than the broker's consumer time-out is closed.
	followAck = time.Second
)

// errLogLost ends the reading of a log which is gone, or whose node is.
var errLogLost = errors.New("the broker ended the reading of the log: it is gone, or moves to another node")

// Follow hands out what a log has, and what comes later; see queue.Broker.
func (b *Broker) Follow(ctx context.Context, log string, from int64, handle func(queue.Entry)) error {
	s, err := b.session(ctx)
	if err != nil {
		return fmt.Errorf("follow %s: %w", log, err)
	}
	ch, err := s.channel()
	if err == nil {
		used := sync.OnceFunc(func() { b.topology.used(log) })
		err = s.follow(ctx, ch, log, from, func(e queue.Entry) {
			used()
			handle(e)
		})
		if s.alive() && !ch.IsClosed() {
			_ = s.closeChannel(ch)
		}
	}
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case s.lostOver(err):
		err = fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
	case code(err) == amqp.NotFound:
		// Only a declaration can tell, and makes it again.
		b.topology.missing(log)
		err = fmt.Errorf("%w: %w: %w", queue.ErrUnavailable, queue.ErrMissing, err)
	}
	return fmt.Errorf("follow %s: %w", log, err)
}

// follow reads on one channel until ctx or the channel ends.
func (s *session) follow(ctx context.Context, ch *amqp.Channel, log string, from int64, handle func(queue.Entry)) error {
	closed, lost := ch.NotifyClose(make(chan *amqp.Error, 1)), ch.NotifyCancel(make(chan string, 1))
	entries, err := s.entries(ch, log, from)
	if err != nil {
		return err
	}
	// The tags of what was read last, and of what was acked last.
	var read, acked uint64
	ack := time.NewTicker(followAck)
	defer ack.Stop()
	for {
		late := false
		select {
		case d, ok := <-entries:
			if !ok {
				entries = nil // closed or lost says why
				continue
			}
			read = d.DeliveryTag
			offset, _ := d.Headers["x-stream-offset"].(int64)
			if offset >= from { // entries are stored by chunks, and the first may begin before
				handle(queue.Entry{Message: decode(&d, log, nil).Message, Offset: offset})
			}
		case <-ack.C:
			late = true
		case <-lost:
			return errLogLost
		case err := <-closed:
			if err != nil {
				return err
			}
			return amqp.ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
		if unacked := read - acked; unacked >= followAhead/2 || late && unacked > 0 {
			if err := ch.Ack(read, true); err != nil {
				return err
			}
			acked = read
		}
	}
}

// entries has the broker send what the log has from the offset on.
func (s *session) entries(ch *amqp.Channel, log string, from int64) (all <-chan amqp.Delivery, err error) {
	err = s.call("set prefetch", func() error { return ch.Qos(followAhead, 0, false) }) // a stream wants one
	if err != nil {
		return nil, err
	}
	err = s.call("follow "+log, func() error {
		all, err = ch.Consume(log, "", false, false, false, false, amqp.Table{"x-stream-offset": from})
		return err
	})
	return all, err
}
