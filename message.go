// Package stepwell has the words of a stream-processing actor: the message, its handler, and what a
// handler's error means.
//
// A program registers one handler per stream and starts the actor with package actor. Everything
// here depends on the standard library alone, so handlers and their tests need nothing else.
package stepwell

import (
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Message is one record on its way through an actor. A handler may keep it, since its memory is
// never used again, and may set its fields and change the list of headers: a message that fails is
// tried again as it came. The bytes of Key, Value and header values are to be read only: what is
// written into them is what is tried again, and shown in the dead set. Who writes into them, as one
// who decrypts in place does, takes a [Message.Clone], or sets HANDLER_COPY.
type Message struct {
	// ID is the same through all retries and replays: use it as idempotency key. It reads
	// topic:partition:offset; above 200 bytes the topic is replaced by its hash. Two streams that
	// read one topic see the same IDs, and so do topics of one name in two clusters: where both
	// write to one table, the key is Stream and ID, or has the cluster's name too. In a channel it
	// ends with "@" and the channel's name, behind a hash of the rest where all is above 200 bytes.
	//
	// Of a message of a queue it is the message-id that its producer set. Where there is none it is
	// the queue's name and a random token, and another token if the message is handed out again
	// before it was settled for the first time: such an ID recognises retries, and no such repeat.
	//
	// What was enqueued has the ID that it was given, or a random one. An edited copy of a dead
	// message is another message: it has "~" and the id of the edit behind what it was.
	ID     string
	Stream string
	// Channel is the one whose handler has the message; empty for the stream's own.
	Channel string
	// Key and Value keep nil and empty apart.
	Key, Value []byte
	// Headers are in the order of the record, repeated names included.
	Headers []Header
	// Time is the record's timestamp. Of a message of a queue it is the one that its producer set,
	// else when it was read; of what was enqueued the one that it was given, else when that was.
	Time time.Time
	// Attempt is 1 on the first try.
	Attempt int
	// Replays counts how often the message came back from the dead set.
	Replays int
	// Snoozes counts how often a handler put the message off by [Snooze], over all replays.
	Snoozes int
	// FirstFailed is zero until the first failure.
	FirstFailed time.Time
	Origin      Origin
}

// Header is one header of a record. A nil value and an empty one are kept apart.
type Header struct {
	Key   string
	Value []byte
}

// Origin says where a message was read first.
type Origin struct {
	Topic     string
	Partition int32
	Offset    int64
	// Queue is set where that was a queue of RabbitMQ; the fields above are zero then. It is nil
	// for what came from Kafka, or was enqueued.
	Queue *QueueOrigin
}

// QueueOrigin says by which way a message came that was read from a queue of RabbitMQ.
type QueueOrigin struct {
	// Name is the queue's.
	Name string
	// Exchange and RoutingKey are those that the message was published with. The default exchange
	// has an empty name.
	Exchange, RoutingKey string
}

// Header returns the value of the last header with that key and whether there is one.
func (m *Message) Header(key string) ([]byte, bool) {
	for i := len(m.Headers) - 1; i >= 0; i-- {
		if m.Headers[i].Key == key {
			return m.Headers[i].Value, true
		}
	}
	return nil, false
}

// Clone returns a copy that shares no memory with m. A message keeps alive what was fetched
// together with it, so whoever keeps a few of many for long, or writes into Key, Value or Headers,
// does that with a clone.
func (m *Message) Clone() *Message {
	c := m.clone() // apart, so that a caller who keeps the value alone needs no memory for the pointer
	return &c
}

func (m *Message) clone() Message {
	c := *m
	c.ID = strings.Clone(m.ID)
	size := len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		size += len(h.Value)
	}
	memory := make([]byte, 0, size)
	own := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		from := len(memory)
		memory = append(memory, b...)
		return memory[from:len(memory):len(memory)]
	}
	c.Key, c.Value = own(m.Key), own(m.Value)
	c.Headers = slices.Clone(m.Headers)
	for i := range c.Headers {
		c.Headers[i].Value = own(c.Headers[i].Value)
	}
	return c
}

// LogValue shows where the message is from and which try it is, never what is in it.
func (m *Message) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("id", m.ID), slog.String("stream", m.Stream)}
	if m.Channel != "" {
		attrs = append(attrs, slog.String("channel", m.Channel))
	}
	return slog.GroupValue(append(attrs, slog.Int("attempt", m.Attempt), slog.Int("replays", m.Replays))...)
}
