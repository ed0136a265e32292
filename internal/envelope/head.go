package envelope

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// The head is a line that a person can read in RabbitMQ's own page:
//
//	v2 try=2/4 at=orders.v1:7:42 stream=orders time=2026-11-22T16:00:00.123Z \
//	   failed=2026-11-22T16:00:01.5Z type=*errors.errorString
//
// It is the version, and words name=value in any order, each after one space. In a value every byte
// that is no visible ASCII, and "%", is written as %XX. Times are RFC 3339; those that it cannot
// say are milliseconds since 1970, as Kafka has them. A reader keeps the words that it does not
// know.
const (
	wTry      = "try"      // the attempt that comes next, or of a dead message the last one; and of how many
	wAt       = "at"       // topic:partition:offset of the record
	wLog      = "log"      // Envelope.Log
	wToken    = "token"    // Envelope.Token
	wQueue    = "queue"    // Origin.Queue: its name, and by which exchange and routing key it came
	wExchange = "exchange" //
	wKey      = "key"      //
	wStream   = "stream"   // and channel: whose handler failed
	wChannel  = "channel"  //
	wReplays  = "replays"  // how often it was replayed
	wTries    = "tries"    // over all replays
	wSnoozes  = "snoozes"  // how often it was put off
	wTime     = "time"     // of the record
	wFirst    = "first"    // when it failed for the first time
	wFailed   = "failed"   // and for the last time
	wDied     = "died"     // when it came to the dead set
	wReason   = "reason"   // why it is there
	wType     = "type"     // of the error
	wTrace    = "trace"    // the W3C trace parent of the first try
	wRun      = "run"      // how and where the last try was made: run.go
	wValue    = "value"    // "nil": the record has none
	wLayout   = "layout"   // "framed": key and headers were too large for AMQP, and lead the body (framed.go)
	wEncoding = "encoding" // "gzip": the body is compressed, since the broker refused it for its size
	wPointer  = "pointer"  // there is no body, since it was too large even so; this is the value's length
)

const (
	valueNil     = "nil"
	layoutFramed = "framed"
	encodingGzip = "gzip"
)

// appendHead appends all of the head that does not depend on how the body travels.
func (e *Envelope) appendHead(b []byte) []byte {
	m := &e.Message
	b = append(b, 'v')
	b = append(b, version...)
	b = appendNumber(b, wTry, int64(m.Attempt))
	if e.Of != 0 {
		b = strconv.AppendInt(append(b, '/'), int64(e.Of), 10)
	}
	b = appendPosition(appendEscaped(appendName(b, wAt), m.Origin.Topic), m.Origin.Partition, m.Origin.Offset)
	if e.Log != 0 {
		b = strconv.AppendUint(appendName(b, wLog), uint64(e.Log), 16)
	}
	b = appendShort(b, wToken, e.Token)
	if q := m.Origin.Queue; q != nil {
		b = appendName(b, wQueue)
		b = appendEscaped(b, q.Name)
		b = appendEscaped(appendName(b, wExchange), q.Exchange)
		b = appendEscaped(appendName(b, wKey), q.RoutingKey)
	}
	if m.Replays != 0 {
		b = appendNumber(b, wReplays, int64(m.Replays))
	}
	if m.Snoozes != 0 {
		b = appendNumber(b, wSnoozes, int64(m.Snoozes))
	}
	if e.AttemptsTotal != e.made() {
		b = appendNumber(b, wTries, int64(e.AttemptsTotal))
	}
	b = appendShort(b, wStream, m.Stream)
	b = appendShort(b, wChannel, m.Channel)
	b = appendTime(b, wTime, m.Time)
	if !m.FirstFailed.Equal(e.Failure.At) {
		b = appendTime(b, wFirst, m.FirstFailed)
	}
	b = appendTime(b, wFailed, e.Failure.At)
	b = appendTime(b, wDied, e.DiedAt)
	b = appendShort(b, wReason, e.Failure.Reason)
	b = appendShort(b, wType, e.Failure.ErrorType)
	b = appendShort(b, wTrace, e.TraceParent)
	if !e.Failure.At.IsZero() && e.Failure.Run != (Run{}) {
		b = append(appendRun(appendName(b, wRun), e.Failure.At, e.Failure.Run), e.Failure.By...)
	}
	for _, word := range e.words {
		b = append(append(b, ' '), word...)
	}
	return b
}

func appendName(b []byte, name string) []byte {
	return append(append(append(b, ' '), name...), '=')
}

func appendNumber(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(appendName(b, name), n, 10)
}

// appendShort appends a clean text, if there is any.
func appendShort(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return appendEscaped(appendName(b, name), clean(text, maxShort))
}

// appendEscaped writes visible ASCII as it is, and every other byte as %XX. A blank would end the
// word, and a broker or a page of its might change what is no ASCII.
func appendEscaped(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c > ' ' && c <= '~' && c != '%' {
			b = append(b, c)
		} else {
			b = append(b, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
		}
	}
	return b
}

func appendTime(b []byte, name string, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	return appendInstant(appendName(b, name), t)
}

// appendInstant writes RFC 3339, or milliseconds where a year does not have four digits.
func appendInstant(b []byte, t time.Time) []byte {
	t = t.UTC()
	if year := t.Year(); year < 1 || year > 9999 {
		return strconv.AppendInt(b, t.UnixMilli(), 10)
	}
	return t.AppendFormat(b, time.RFC3339Nano)
}

// readHead reads what appendHead wrote, and how the body travels.
func (e *Envelope) readHead(head string) (b body, err error) {
	if len(head) > maxHead {
		return b, fmt.Errorf("%d bytes, want %d at most", len(head), maxHead)
	}
	text, rest, _ := strings.Cut(head, " ")
	if err := readable(text); err != nil {
		return b, err
	}
	e.Message.Attempt = 1
	at, tries, unknown := false, false, 0
	for more := rest != ""; more; {
		var word string
		word, rest, more = strings.Cut(rest, " ")
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			return b, fmt.Errorf("%q is no word", clean(word, maxShort))
		}
		at, tries = at || name == wAt, tries || name == wTries
		known, err := e.readWord(&b, name, value)
		if err != nil {
			return b, fmt.Errorf("%s: %w", name, err)
		}
		// A word of a newer minor version is kept, for a newer program that reads this next.
		if !known && plain(word) && unknown+len(word) < maxWords {
			e.words = append(e.words, word)
			unknown += len(word) + 1
		}
	}
	if !at {
		return b, errors.New("at: missing")
	}
	if !tries {
		e.AttemptsTotal = e.made()
	}
	return b, nil
}

// readable judges the version; its error is ErrVersion where a newer program would read it.
func readable(text string) error {
	number, ok := strings.CutPrefix(text, "v")
	major, _, _ := strings.Cut(number, ".")
	n, err := strconv.ParseUint(major, 10, 31)
	switch {
	case err != nil || !ok || n < majorVersion:
		return fmt.Errorf("%q is no version of this program", clean(text, 32))
	case n > majorVersion:
		return fmt.Errorf("%w: %s, this program reads %s", ErrVersion, clean(text, 32), version)
	}
	return nil
}

// body says how the body travels, and what else is not the envelope's own. A value that is nil is
// not the same as an empty one.
type body struct {
	framed, compressed, isNil bool
	// run is read once it is known of which try it is.
	run string
}

// readWord sets what one word says. A word that it knows and cannot read breaks the envelope.
func (e *Envelope) readWord(b *body, name, value string) (known bool, err error) {
	if text := e.text(name); text != nil {
		*text, err = unescape(value)
		return true, err
	}
	if at := e.time(name); at != nil {
		*at, err = instant(value)
		return true, err
	}
	if n := e.number(name); n != nil {
		*n, err = count(value, 0)
		return true, err
	}
	switch name {
	case wTry:
		made, of, more := strings.Cut(value, "/")
		if e.Message.Attempt, err = count(made, 1); more && err == nil {
			e.Of, err = count(of, 0)
		}
	case wAt:
		err = e.readPosition(value)
	case wLog:
		var n uint64
		n, err = strconv.ParseUint(value, 16, 32)
		e.Log = uint32(n)
	case wRun:
		b.run = value
	case wValue:
		b.isNil, err = isWord(value, valueNil)
	case wLayout:
		b.framed, err = isWord(value, layoutFramed)
	case wEncoding:
		b.compressed, err = isWord(value, encodingGzip)
	case wPointer:
		e.Pointer = true
		if e.Size, err = strconv.ParseInt(value, 10, 64); e.Size < 0 {
			err = errors.New("a size below zero")
		}
	default:
		return false, nil
	}
	return true, err
}

// text is where a word that is a text belongs; nil: the word is none.
func (e *Envelope) text(name string) *string {
	switch name {
	case wStream:
		return &e.Message.Stream
	case wChannel:
		return &e.Message.Channel
	case wToken:
		return &e.Token
	case wReason:
		return &e.Failure.Reason
	case wType:
		return &e.Failure.ErrorType
	case wTrace:
		return &e.TraceParent
	}
	return e.queueText(name)
}

// number is where a word that is a count belongs; nil: the word is none.
func (e *Envelope) number(name string) *int {
	switch name {
	case wReplays:
		return &e.Message.Replays
	case wSnoozes:
		return &e.Message.Snoozes
	case wTries:
		return &e.AttemptsTotal
	}
	return nil
}

// time is where a word that is a time belongs; nil: the word is none.
func (e *Envelope) time(name string) *time.Time {
	switch name {
	case wTime:
		return &e.Message.Time
	case wFirst:
		return &e.Message.FirstFailed
	case wFailed:
		return &e.Failure.At
	case wDied:
		return &e.DiedAt
	}
	return nil
}

// count reads a number from least to what 31 bits can say.
func count(value string, least int) (int, error) {
	n, err := strconv.Atoi(value)
	if err == nil && (n < least || n > math.MaxInt32) {
		err = fmt.Errorf("%d is not in %d … %d", n, least, math.MaxInt32)
	}
	return n, err
}

func isWord(value, want string) (bool, error) {
	if value != want {
		return false, fmt.Errorf("%q is not known", clean(value, 32))
	}
	return true, nil
}

func instant(value string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339Nano, value); err == nil {
		return t.Local(), nil
	}
	ms, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is no time", clean(value, 32))
	}
	return time.UnixMilli(ms), nil
}

func unescape(value string) (string, error) {
	if strings.IndexByte(value, '%') < 0 {
		return value, nil
	}
	b := make([]byte, 0, len(value))
	for i := 0; i < len(value); i++ {
		c := value[i]
		if c == '%' {
			n, err := strconv.ParseUint(value[i+1:min(i+3, len(value))], 16, 8)
			if err != nil || i+2 >= len(value) {
				return "", fmt.Errorf("%q is no byte", value[i:min(i+3, len(value))])
			}
			c, i = byte(n), i+2
		}
		b = append(b, c)
	}
	return string(b), nil
}
