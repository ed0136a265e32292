package rabbit

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
)

// maxHeaders keeps properties and headers well within one frame of 128 KiB, where the broker still adds to them.
const maxHeaders = 120 << 10

// encode makes what is sent, or an error when the broker, or the library, would end the session over it.
func encode(m queue.Message, limit int) (amqp.Publishing, error) {
	headers := make(amqp.Table, len(m.Headers))
	size := 0
	for name, value := range m.Headers {
		if queue.OfBroker(name) {
			continue
		}
		if n, ok := value.(int); ok {
			value = int64(n) // the library would cut it to 32 bits
		}
		if len(name) > 255 {
			return amqp.Publishing{}, fmt.Errorf("header name of %d bytes: %w", len(name), queue.ErrTooLarge)
		}
		headers[name] = value
		size += len(name) + valueSize(value)
	}
	if err := headers.Validate(); err != nil {
		return amqp.Publishing{}, fmt.Errorf("headers of message %s: %w", m.ID, err)
	}
	switch {
	case len(m.ID) > 255:
		return amqp.Publishing{}, fmt.Errorf("message id of %d bytes: %w", len(m.ID), queue.ErrTooLarge)
	case size > maxHeaders:
		return amqp.Publishing{}, fmt.Errorf("headers of %d bytes: %w", size, queue.ErrTooLarge)
	case size+len(m.Body) > limit:
		return amqp.Publishing{}, fmt.Errorf("message of %d bytes: %w", size+len(m.Body), queue.ErrTooLarge)
	}
	return amqp.Publishing{
		MessageId: m.ID, DeliveryMode: amqp.Persistent, Timestamp: time.Now(), Headers: headers, Body: m.Body,
	}, nil
}

// valueSize is about what the value takes on the wire.
func valueSize(value any) int {
	const most = 10 // type and length, or type and number
	switch v := value.(type) {
	case string:
		return most + len(v)
	case []byte:
		return most + len(v)
	case []any:
		n := most
		for _, one := range v {
			n += valueSize(one)
		}
		return n
	case amqp.Table:
		n := most
		for name, one := range v {
			n += len(name) + valueSize(one)
		}
		return n
	default:
		return most
	}
}

// decode makes what is handed out. The broker's own headers stay behind but for the count of returns, and whole numbers
// become int64.
func decode(d *amqp.Delivery, from string, session queue.Session) queue.Delivery {
	out := queue.Delivery{
		Message:     queue.Message{ID: d.MessageId, Body: d.Body, Headers: make(map[string]any, len(d.Headers))},
		Queue:       from,
		Redelivered: d.Redelivered,
		Tag:         d.DeliveryTag,
		Session:     session,
	}
	for name, value := range d.Headers {
		if !queue.OfBroker(name) {
			out.Headers[name] = whole(value)
		}
	}
	if d.Redelivered {
		out.Returns, _ = whole(d.Headers["x-delivery-count"]).(int64)
	}
	return out
}

// whole makes every whole number an int64.
func whole(value any) any {
	switch v := value.(type) {
	case int8:
		return int64(v)
	case byte:
		return int64(v)
	case int16:
		return int64(v)
	case uint16:
		return int64(v)
	case int32:
		return int64(v)
	case uint32:
		return int64(v)
	case []any:
		for i := range v {
			v[i] = whole(v[i])
		}
		return v
	default:
		return value
	}
}

// size is about what the message takes in memory.
func size(m *queue.Message) int {
	n := len(m.Body) + len(m.ID)
	for name, value := range m.Headers {
		n += len(name) + valueSize(value)
	}
	return n
}
