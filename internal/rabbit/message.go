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
		size += len(name) + queue.ValueSize(value)
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
