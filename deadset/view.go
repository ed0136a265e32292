package deadset

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stepwell/stepwell"
)

// maxShown is how much of a value, a key or a header an entry shows, in bytes.
const maxShown = 64 << 10

// maxDepth is how deep a value shown as JSON may be nested: common readers of our answer take 256
// levels.
const maxDepth = 200

// Encodings of what an entry shows of bytes.
const (
	encodingJSON   = "json"
	encodingText   = "text"
	encodingBase64 = "base64"
)

// Entry is a dead message as a person looks at it. Key and value are null where the record's were.
type Entry struct {
	ID        string `json:"id"`
	Stream    string `json:"stream"`
	Channel   string `json:"channel,omitempty"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	// Queue, Exchange and RoutingKey say by which way a message came that is from no topic, but
	// from a queue of RabbitMQ; the queue is empty for all others.
	Queue       string `json:"queue,omitempty"`
	Exchange    string `json:"exchange,omitempty"`
	RoutingKey  string `json:"routing_key,omitempty"`
	Key         any    `json:"key"`
	KeyEncoding string `json:"key_encoding,omitempty"`
	// KeyTruncated says that only the first 64 KiB of the key are shown, of KeySize bytes, which is
	// 0 where all are.
	KeyTruncated bool       `json:"key_truncated,omitempty"`
	KeySize      int64      `json:"key_size,omitempty"`
	Timestamp    *time.Time `json:"timestamp,omitempty"`
	Headers      []Header   `json:"headers"`
	// Value is JSON where it is JSON, else text where it is that, else base64: Encoding says which.
	Value    any    `json:"value"`
	Encoding string `json:"encoding,omitempty"`
	// ValueError says why the value of a record that is only in Kafka is not shown.
	ValueError string `json:"value_error,omitempty"`
	// Truncated says that only the first 64 KiB are shown, of Size bytes.
	Truncated bool  `json:"truncated,omitempty"`
	Size      int64 `json:"size"`
	// Attempts counts the tries since the last replay, AttemptsTotal all.
	Attempts      int        `json:"attempts"`
	AttemptsTotal int        `json:"attempts_total"`
	Replays       int        `json:"replays"`
	FirstFailedAt *time.Time `json:"first_failed_at,omitempty"`
	DiedAt        *time.Time `json:"died_at,omitempty"`
	Reason        string     `json:"reason"`
	Error         string     `json:"error"`
	ErrorType     string     `json:"error_type,omitempty"`
	Stack         string     `json:"stack,omitempty"`
	TraceID       string     `json:"trace_id,omitempty"`
	// Group is the fingerprint of the cause: see Groups.
	Group string `json:"group"`
	// Operation is the id of the operation that replayed it last; empty where none did.
	Operation string `json:"operation,omitempty"`
	// DeletedBy is the id of the operation, or of the delete by count, that put it into the trash.
	// It is restored from there until ExpiresAt. Elsewhere they are empty.
	DeletedBy string     `json:"deleted_by,omitempty"`
	DeletedAt *time.Time `json:"deleted_at,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	// IsHidden says that key, headers and value are left out; they may be anything.
	IsHidden bool `json:"hidden,omitempty"`
}

// Hidden is the entry for those who may not see what is in the record.
func (e Entry) Hidden() any { return e.hidden() }

func (e Entry) hidden() Entry {
	e.Key, e.KeyEncoding, e.KeyTruncated, e.KeySize = nil, "", false, 0
	e.Headers = []Header{}
	e.Value, e.Encoding, e.Truncated = nil, "", false
	e.IsHidden = true
	return e
}

// Header is a header of the record.
type Header struct {
	// Key is base64 where KeyEncoding says so: where it is no text.
	Key         string `json:"key"`
	KeyEncoding string `json:"key_encoding,omitempty"`
	Value       any    `json:"value"`
	Encoding    string `json:"encoding,omitempty"`
	// Truncated says that only the first 64 KiB of the value are shown; Size is its length then,
	// and 0 where all of it is shown.
	Truncated bool  `json:"truncated,omitempty"`
	Size      int64 `json:"size,omitempty"`
}

// record shows what came from Kafka, of each part at most so many bytes.
func (e *Entry) record(m *stepwell.Message, most int) {
	e.Headers, e.Size = headers(m.Headers, most), int64(len(m.Value))
	e.Key, e.KeyEncoding, e.KeyTruncated = words(m.Key, most)
	if e.KeyTruncated {
		e.KeySize = int64(len(m.Key))
	}
	e.Value, e.Encoding, e.Truncated = shown(m.Value, most)
}

// shown is a value as JSON where it is that, else as words.
func shown(b []byte, most int) (v any, encoding string, cut bool) {
	if len(b) > 0 && len(b) <= most && utf8.Valid(b) && json.Valid(b) && depth(b) <= maxDepth {
		return json.RawMessage(bytes.TrimSpace(b)), encodingJSON, false
	}
	return words(b, most)
}

// depth is how deep valid JSON is nested at most.
func depth(b []byte) (deepest int) {
	level, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}

// words are bytes as text where they are that, else in base64. Nil stays nil.
func words(b []byte, most int) (v any, encoding string, cut bool) {
	if b == nil {
		return nil, "", false
	}
	whole := b
	if len(b) > most {
		b, cut = b[:most], true
	}
	if printable(whole) {
		return strings.ToValidUTF8(string(b), ""), encodingText, cut // a rune may be cut in two
	}
	return base64.StdEncoding.EncodeToString(b), encodingBase64, cut
}

// printable says that bytes are text that a person may be shown. A NUL is valid UTF-8, but in no
// text.
func printable(b []byte) bool { return utf8.Valid(b) && !bytes.ContainsRune(b, 0) }

// text replaces what is no UTF-8, so that JSON does not.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// headers shows a record's headers. A name that is no text goes in base64: JSON has only text.
func headers(all []stepwell.Header, most int) []Header {
	shown := make([]Header, 0, len(all))
	for _, h := range all {
		one := Header{Key: h.Key}
		if !printable([]byte(h.Key)) {
			one.Key, one.KeyEncoding = base64.StdEncoding.EncodeToString([]byte(h.Key)), encodingBase64
		}
		if one.Value, one.Encoding, one.Truncated = words(h.Value, most); one.Truncated {
			one.Size = int64(len(h.Value))
		}
		shown = append(shown, one)
	}
	return shown
}

// instant is a time in UTC; nil where there is none, so that JSON leaves it out, and where JSON has
// no form for its year: a producer that takes milliseconds for seconds writes the year 55840.
func instant(t time.Time) *time.Time {
	t = t.UTC()
	if t.IsZero() || t.Year() < 0 || t.Year() > 9999 {
		return nil
	}
	return &t
}

// traceID is the trace of the message's first try; without one, that which its record names.
func traceID(parent string, m *stepwell.Message) string {
	if parent == "" {
		header, _ := m.Header("traceparent")
		parent = string(header)
	}
	parts := strings.Split(parent, "-")
	if len(parts) != 4 || len(parts[1]) != 32 || strings.Trim(parts[1], "0123456789abcdef") != "" {
		return ""
	}
	return parts[1]
}
