package envelope

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
)

const (
	// maxID leaves room to AMQP's 255 bytes, for what others put around an id.
	maxID = 200
	// maxEdited leaves room to maxID, for the name of a channel: inChannel must not replace what
	// says that the message was edited.
	maxEdited = maxID - 64
)

// ID is the identity of a record, topic:partition:offset. Where that is longer than 200 bytes, the
// topic is replaced by the first half of its SHA-256 in hex.
func ID(topic string, partition int32, offset int64) string {
	return string(AppendID(make([]byte, 0, len(topic)+32), topic, partition, offset))
}

// AppendID appends the [ID] to dst.
func AppendID(dst []byte, topic string, partition int32, offset int64) []byte {
	start := len(dst)
	dst = appendPosition(append(dst, topic...), partition, offset)
	if len(dst)-start <= maxID {
		return dst
	}
	sum := sha256.Sum256([]byte(topic))
	return appendPosition(hex.AppendEncode(dst[:start], sum[:len(sum)/2]), partition, offset)
}

// inChannel is the identity of a message that was handed over to a channel: id@channel. Where that
// is longer than 200 bytes, the first half of the id's SHA-256 in hex stands for it: a message-id
// has no more than 255, and without its channel it would be that of another message.
func inChannel(id, channel string) string {
	if len(id)+1+len(channel) > maxID {
		sum := sha256.Sum256([]byte(id))
		id = hex.EncodeToString(sum[:len(sum)/2])
	}
	return id + "@" + channel
}

// Edited is the identity of a message that the operation has edited: id~operation. What an earlier
// edit put behind the id is left out. Where that is longer than 136 bytes, the first half of the
// id's SHA-256 in hex stands for it. Each edit is an operation of its own: the copy of an edit
// after another was undone must not have an id that a process remembers as handled.
func Edited(id, operation string) string {
	if isEdited(id) {
		id = id[:strings.LastIndexByte(id, '~')]
	}
	if len(id)+1+len(operation) > maxEdited {
		sum := sha256.Sum256([]byte(id))
		id = hex.EncodeToString(sum[:len(sum)/2])
	}
	return id + "~" + operation
}

// isEdited says whether the id is that of an edited message.
func isEdited(id string) bool {
	_, operation, is := cutLast(id, "~")
	// It may be in a channel by now.
	operation, _, _ = strings.Cut(operation, "@")
	return is && len(operation) <= maxOperation && strings.HasPrefix(operation, "op_")
}

// InQueue is the identity of a message that its producer gave none, and that came from a queue:
// queue:token. Where that is longer than 200 bytes it is the token.
func InQueue(queue, token string) string {
	if id := queue + ":" + token; len(id) <= maxID {
		return id
	}
	return token
}

// NewToken draws an [Envelope.Token]: 26 letters and digits, of which no two are ever the same.
func NewToken() string { return rand.Text() }

// HasPosition says that Kafka has the record as well. What comes from elsewhere, or was edited, is
// in a queue and nowhere else: no pointer can stand for it.
func (e *Envelope) HasPosition() bool {
	return e.Message.Origin.Topic != "" && !isEdited(e.Message.ID)
}

func appendPosition(dst []byte, partition int32, offset int64) []byte {
	dst = strconv.AppendInt(append(dst, ':'), int64(partition), 10)
	return strconv.AppendInt(append(dst, ':'), offset, 10)
}

// readPosition cuts from the right: appendEscaped leaves a colon in a topic's name as it is.
func (e *Envelope) readPosition(value string) error {
	topic, offset, _ := cutLast(value, ":")
	topic, partition, ok := cutLast(topic, ":")
	if !ok {
		return errors.New("want topic:partition:offset")
	}
	o := &e.Message.Origin
	n, err := strconv.ParseInt(partition, 10, 32)
	if err != nil {
		return err
	}
	o.Partition = int32(n)
	if o.Offset, err = strconv.ParseInt(offset, 10, 64); err != nil {
		return err
	}
	if o.Topic, err = unescape(topic); len(o.Topic) > maxTopic {
		return fmt.Errorf("%d bytes are no topic", len(o.Topic))
	}
	return err
}

// queueText is where a word belongs that says by which queue the message came; nil: the word says
// nothing of that.
func (e *Envelope) queueText(name string) *string {
	if name != wQueue && name != wExchange && name != wKey {
		return nil
	}
	if e.Message.Origin.Queue == nil {
		e.Message.Origin.Queue = &stepwell.QueueOrigin{}
	}
	q := e.Message.Origin.Queue
	switch name {
	case wQueue:
		return &q.Name
	case wExchange:
		return &q.Exchange
	}
	return &q.RoutingKey
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
