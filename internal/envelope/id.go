package envelope

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// maxID leaves room to AMQP's 255 bytes, for what others put around an id.
const maxID = 200

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

// InChannel is the identity of a message that was handed over to a channel: id@channel. Where that
// is longer than 200 bytes, the first half of the id's SHA-256 in hex stands for it: a message-id
// has no more than 255, and without its channel it would be that of another message.
func InChannel(id, channel string) string {
	if len(id)+1+len(channel) > maxID {
		sum := sha256.Sum256([]byte(id))
		id = hex.EncodeToString(sum[:len(sum)/2])
	}
	return id + "@" + channel
}

func appendPosition(dst []byte, partition int32, offset int64) []byte {
	dst = strconv.AppendInt(append(dst, ':'), int64(partition), 10)
	return strconv.AppendInt(append(dst, ':'), offset, 10)
}
