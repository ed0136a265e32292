package rabbit

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
)

// maxHeaders keeps properties and headers well within one frame of 128 KiB, where the broker still
// adds to them.
const maxHeaders = 120 << 10

// encode makes what is sent, or an error when the broker, or the library, would end the session
// over it: with the session, the confirms of all neighbours in flight would be lost. limit is
// MaxMessageSize, in bytes.
func encode(m queue.Message, limit int) (amqp.Publishing, error) {
	headers, plain := sendable(m.Headers)
	size := 0
	for name, value := range headers {
		// AMQP has one byte for the length of a name, and so for that of a message-id.
		if len(name) > 255 {
			return amqp.Publishing{}, fmt.Errorf("header name of %d bytes: %w", len(name), queue.ErrTooLarge)
		}
		size += len(name) + queue.ValueSize(value)
	}
	if !plain {
		if err := headers.Validate(); err != nil {
			return amqp.Publishing{}, fmt.Errorf("headers of message %s: %w", m.ID, err)
		}
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
		MessageId: m.ID, DeliveryMode: amqp.Persistent, Headers: headers, Body: m.Body,
	}, nil
}

// sendable are the headers without those of the broker, and with whole numbers that the library
// does not cut to 32 bits: mostly the same map. plain says that all are text or bytes, which the
// library never refuses.
func sendable(headers map[string]any) (sent amqp.Table, plain bool) {
	good, plain := true, true
	for name, value := range headers {
		good = good && !queue.OfBroker(name)
		switch value.(type) {
		case string, []byte:
		case int:
			good, plain = false, false
		default:
			plain = false
		}
	}
	if good {
		return headers, plain
	}
	kept := make(amqp.Table, len(headers))
	for name, value := range headers {
		if n, ok := value.(int); ok {
			value = int64(n)
		}
		if !queue.OfBroker(name) {
			kept[name] = value
		}
	}
	return kept, plain
}

// decode makes what is handed out, of the delivery's own headers. Those of the broker stay behind
// but for the count of returns, and whole numbers become int64.
func decode(d *amqp.Delivery, from string, session queue.Session) queue.Delivery {
	out := queue.Delivery{
		Message:     queue.Message{ID: d.MessageId, Body: d.Body, Headers: d.Headers},
		Queue:       from,
		Redelivered: d.Redelivered,
		Tag:         d.DeliveryTag,
		Session:     session,
	}
	out.From, _ = d.Headers["x-first-death-queue"].(string) // the one death there is: what is published has left such headers behind
	if d.Redelivered {
		out.Returns, _ = whole(d.Headers["x-delivery-count"]).(int64)
	}
	if out.Headers == nil {
		out.Headers = map[string]any{}
	}
	for name, value := range out.Headers {
		switch value.(type) {
		case string, []byte, int64, bool:
		default:
			out.Headers[name] = whole(value)
		}
		if queue.OfBroker(name) {
			delete(out.Headers, name)
		}
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
