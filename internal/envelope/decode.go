package envelope

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/queue"
)

// Decode reads what Encode wrote, also when another program wrote it or changed text to bytes or
// back. Its errors are [ErrVersion] and [ErrUndecodable]; the latter names the header.
func Decode(q queue.Message) (*Envelope, error) {
	r := &reader{headers: q.Headers}
	e := &Envelope{Message: stepwell.Message{ID: q.ID}}
	b := r.head(e)
	e.Failure.Error, e.Failure.Stack, e.Failure.Group = r.text(hError), r.text(hStack), r.text(hGroup)
	e.TraceState = r.text(hTraceState)
	e.Compressed = b.compressed
	e.History = r.history()
	// A program that could not read the message put it into the dead set: its reason is the last
	// word, whatever the head says.
	if buried, ok := buriedOf(q); ok {
		e.Failure, e.DiedAt = buried, buried.At
	}
	e.Extra = extras(q.Headers)
	if runs, _ := textOf(q.Headers[hRuns]); runs != "" && len(runs) <= maxHead {
		readRuns(e.History, runs)
	}
	if b.run != "" {
		e.ran(b.run)
	}
	// After the head, the error and the history were read, of which it makes what was left out.
	e.recall()
	r.record(&e.Message, q.Body, b, e.Pointer)
	e.Message.ID = e.id()
	if r.err != nil {
		return nil, r.err
	}
	return e, nil
}

// recall adds what was left out because the last failure says it.
func (e *Envelope) recall() {
	at := e.Failure.At
	if at.IsZero() {
		return
	}
	if e.Message.FirstFailed.IsZero() {
		e.Message.FirstFailed = at
	}
	if n := len(e.History); n == 0 || !e.History[n-1].At.Equal(at) {
		e.History = append(e.History, e.last())
		e.History = e.History[max(0, len(e.History)-MaxHistory):]
	}
}

// reader reads typed headers and remembers the first that is not what it should be. A header that
// is missing or nil is zero.
type reader struct {
	headers map[string]any
	err     error
}

func (r *reader) fail(name string, err error) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: header %s: %w", ErrUndecodable, name, err)
	}
}

func (r *reader) head(e *Envelope) body {
	text := r.text(hHead)
	if text == "" {
		r.fail(hHead, errors.New("missing"))
		return body{}
	}
	b, err := e.readHead(text)
	switch {
	case errors.Is(err, ErrVersion):
		r.err = err
	case err != nil:
		r.fail(hHead, err)
	}
	return b
}

// record sets key, headers and value.
func (r *reader) record(m *stepwell.Message, value []byte, b body, pointer bool) {
	if r.err != nil {
		return
	}
	if b.compressed {
		var err error
		if value, err = inflate(value); err != nil {
			r.fail(hHead, fmt.Errorf("%s: %w", wEncoding, err))
		}
	}
	if b.framed {
		if err := unframe(m, value); err != nil {
			r.fail(hHead, fmt.Errorf("%s: %w", wLayout, err))
		}
	} else {
		m.Key, m.Headers, m.Value = r.bytes(hKey), r.recordHeaders(), value
	}
	switch {
	case pointer || b.isNil:
		m.Value = nil
	// An AMQP body cannot say whether it is empty or missing: without the word value=nil it was
	// empty.
	case m.Value == nil:
		m.Value = []byte{}
	}
}

func (r *reader) text(name string) string {
	s, ok := textOf(r.headers[name])
	if !ok {
		r.fail(name, fmt.Errorf("want text, have %T", r.headers[name]))
	}
	return s
}

func (r *reader) bytes(name string) []byte {
	b, ok := bytesOf(r.headers[name])
	if !ok {
		r.fail(name, fmt.Errorf("want bytes, have %T", r.headers[name]))
	}
	return b
}

func (r *reader) recordHeaders() []stepwell.Header {
	flat, ok := r.headers[hHeaders].([]any)
	if (!ok && r.headers[hHeaders] != nil) || len(flat)%2 != 0 {
		r.fail(hHeaders, fmt.Errorf("want a list of names and values, have %T with %d", r.headers[hHeaders], len(flat)))
		return nil
	}
	if len(flat) == 0 {
		return nil
	}
	headers := make([]stepwell.Header, 0, len(flat)/2)
	for ; len(flat) > 0; flat = flat[2:] {
		key, keyOK := textOf(flat[0])
		value, valueOK := bytesOf(flat[1])
		if !keyOK || !valueOK {
			r.fail(hHeaders, fmt.Errorf("want name and bytes, have %T and %T", flat[0], flat[1]))
		}
		headers = append(headers, stepwell.Header{Key: key, Value: value})
	}
	return headers
}

func (r *reader) history() []Try {
	text := r.text(hHistory)
	if text == "" {
		return nil
	}
	var tries []Try
	for line := range strings.SplitSeq(text, "\n") {
		number, rest, _ := strings.Cut(line, " ")
		at, problem, ok := strings.Cut(rest, " ")
		attempt, err := strconv.Atoi(number)
		t, timeErr := instant(at)
		if !ok || err != nil || timeErr != nil {
			r.fail(hHistory, fmt.Errorf("want attempt, time and text, have %q", clean(line, 64)))
			return nil
		}
		if tries = append(tries, Try{Attempt: attempt, At: t, Error: problem}); len(tries) > MaxHistory {
			tries = tries[1:]
		}
	}
	return tries
}

// textOf takes text and bytes alike: another program may have made one of the other. ok is false
// for any other type; a missing header is an empty text.
func textOf(v any) (string, bool) {
	switch v := v.(type) {
	case nil:
		return "", true
	case string:
		return v, true
	case []byte:
		return string(v), true
	}
	return "", false
}

// bytesOf is textOf for bytes, where nil and empty are told apart.
func bytesOf(v any) ([]byte, bool) {
	switch v := v.(type) {
	case nil:
		return nil, true
	case []byte:
		if v == nil {
			v = []byte{}
		}
		return v, true
	case string:
		return []byte(v), true
	}
	return nil, false
}

// timeOf reads a header that is a time in text; false: it is none.
func timeOf(v any) (time.Time, bool) {
	text, ok := textOf(v)
	if !ok {
		return time.Time{}, false
	}
	t, err := instant(text)
	return t, err == nil
}

// inflate unpacks no more than maxInflated: a small body may unpack to any size.
func inflate(body []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("decompress body: %w", err)
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(io.LimitReader(z, maxInflated+1)); err != nil {
		return nil, fmt.Errorf("decompress body: %w", err)
	}
	if b.Len() > maxInflated {
		return nil, errors.New("decompress body: larger than any message")
	}
	return b.Bytes(), nil
}
