package rabbit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
)

// Examine says whether the queue can be consumed message by message; see queue.Broker.
//
// A stream (x-queue-type) cannot: it hands out nothing that came before its consumer, and a message
// that is given back closes the connection. Nothing tells a stream from other queues but that its
// consumers may say where to begin: the others refuse that with 406.
func (b *Broker) Examine(ctx context.Context, name string) error {
	for {
		s, err := b.session(ctx)
		if err != nil {
			return fmt.Errorf("look at queue %s: %w", name, err)
		}
		err = s.examine(name)
		switch {
		case err == nil:
			return nil
		case code(err) == amqp.NotFound:
			return fmt.Errorf("%w: %s: %w", queue.ErrUnavailable, name, queue.ErrMissing)
		case (!s.alive() || isCut(err)) && sleep(ctx, cutPause): // the next session is asked
		default:
			return fmt.Errorf("look at queue %s: %w", name, err)
		}
	}
}

var errStream = errors.New("it is a stream (x-queue-type), whose messages cannot be acked one by one: bind a quorum queue where it is written to")

// examine asks on channels of its own, which a refusal closes.
func (s *session) examine(name string) error {
	if _, err := s.inspect(name); err != nil {
		return err
	}
	ch, err := s.channel()
	if err != nil {
		return err
	}
	err = s.call("set prefetch", func() error { return ch.Qos(1, 0, false) }) // without one a stream refuses, too
	if err != nil {
		return err
	}
	err = s.call("open consumer", func() error {
		_, err := ch.Consume(name, "", false, false, false, false, amqp.Table{"x-stream-offset": "next"})
		return err
	})
	switch {
	case err == nil:
		return errors.Join(errStream, s.closeChannel(ch))
	case code(err) == amqp.PreconditionFailed:
		return nil
	}
	return err
}

// decodeForeign makes what is handed out of a stranger's message. Its headers stay as they are: nil
// where there are none.
func decodeForeign(d *amqp.Delivery, from string, session queue.Session) queue.Delivery {
	return queue.Delivery{
		Message:     queue.Message{ID: d.MessageId, Body: d.Body, Headers: d.Headers},
		Queue:       from,
		Redelivered: d.Redelivered,
		Tag:         d.DeliveryTag,
		Session:     session,
		Foreign:     &queue.Foreign{Exchange: d.Exchange, RoutingKey: d.RoutingKey, Time: d.Timestamp, Properties: properties(d)},
	}
}

// properties are those that the message has, but for its id and time.
func properties(d *amqp.Delivery) []queue.Property {
	all := make([]queue.Property, 0, 4) // few have more
	add := func(name, value string) {
		if value != "" {
			all = append(all, queue.Property{Name: name, Value: value})
		}
	}
	number := func(n uint8) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(int(n))
	}
	add("content-type", d.ContentType)
	add("content-encoding", d.ContentEncoding)
	add("delivery-mode", number(d.DeliveryMode))
	add("priority", number(d.Priority))
	add("correlation-id", d.CorrelationId)
	add("reply-to", d.ReplyTo)
	add("expiration", d.Expiration)
	add("message-id", d.MessageId)
	if !d.Timestamp.IsZero() {
		add("timestamp", d.Timestamp.UTC().Format(time.RFC3339))
	}
	add("type", d.Type)
	add("user-id", d.UserId)
	add("app-id", d.AppId)
	return all
}
