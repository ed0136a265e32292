package envelope

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/queue"
)

// Decode reads what Encode wrote, also when another program wrote it or changed the types of headers where that is harmless.
// Its errors are [ErrVersion] and [ErrUndecodable]; the latter names the header.
func Decode(q queue.Message) (*Envelope, error) {
	if err := readable(q.Headers[hVersion]); err != nil {
		return nil, err
	}
	r := &reader{headers: q.Headers}
	e := &Envelope{
		Message: stepwell.Message{
			ID:          q.ID,
			Stream:      r.text(hStream),
			Channel:     r.text(hChannel),
			Time:        r.time(hTimestamp),
			Attempt:     int(r.count(hAttempt, 1, 1, math.MaxInt32)),
			Replays:     int(r.count(hReplays, 0, 0, math.MaxInt32)),
			FirstFailed: r.time(hFirstFailed),
			Origin: stepwell.Origin{
				Topic:     r.topic(),
				Partition: int32(r.count(hPartition, 0, math.MinInt32, math.MaxInt32)),
				Offset:    r.count(hOffset, 0, math.MinInt64, math.MaxInt64),
			},
		},
		Failure: Failure{
			Reason: r.text(hReason), Error: r.text(hError), ErrorType: r.text(hErrorType), Stack: r.text(hStack), At: r.time(hFailedAt),
		},
		DiedAt:      r.time(hDiedAt),
		TraceParent: r.text(hTraceParent),
		TraceState:  r.text(hTraceState),
		Compressed:  r.text(hEncoding) != "",
		Pointer:     r.flag(hPointer),
		Size:        r.count(hSize, 0, 0, math.MaxInt64),
		History:     r.history(),
		Extra:       extras(q.Headers),
	}
	e.AttemptsTotal = int(r.count(hAttemptsTotal, int64(e.made()), 0, math.MaxInt32))
	e.recall()
	r.record(&e.Message, q.Body, e.Pointer)
	if e.Message.ID == "" {
		e.Message.ID = r.identity(e.Message.Origin)
	}
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

// readable judges the version.
func readable(v any) error {
	text, ok := textOf(v)
	if n, isInt := widen(v).(int64); isInt {
		text, ok = strconv.FormatInt(n, 10), true
	}
	if v == nil || !ok {
		return fmt.Errorf("%w: header %s is missing or no text", ErrUndecodable, hVersion)
	}
	major, _, _ := strings.Cut(text, ".")
	n, err := strconv.ParseUint(major, 10, 31)
	switch {
	case err != nil || n == 0:
		return fmt.Errorf("%w: header %s is %q", ErrUndecodable, hVersion, clean(text, 32))
	case n > majorVersion:
		return fmt.Errorf("%w: %s, this program reads %s", ErrVersion, clean(text, 32), version)
	}
	return nil
}

// record sets key, headers and value.
func (r *reader) record(m *stepwell.Message, body []byte, pointer bool) {
	switch encoding := r.text(hEncoding); {
	case encoding == encodingGzip:
		var err error
		if body, err = inflate(body); err != nil {
			r.fail(hEncoding, err)
		}
	case encoding != "":
		r.fail(hEncoding, fmt.Errorf("unknown encoding %q", clean(encoding, 32)))
	}
	switch layout := r.text(hLayout); {
	case layout == layoutFramed:
		if err := unframe(m, body); err != nil {
			r.fail(hLayout, err)
		}
	case layout != "":
		r.fail(hLayout, fmt.Errorf("unknown layout %q", clean(layout, 32)))
	default:
		m.Key, m.Headers, m.Value = r.bytes(hKey), r.recordHeaders(), body
	}
	switch {
	case pointer || r.flag(hNilValue):
		m.Value = nil
	case m.Value == nil:
		m.Value = []byte{}
	}
}

// identity is for messages without a message-id.
func (r *reader) identity(o stepwell.Origin) string {
	for _, name := range []string{hTopic, hPartition, hOffset} {
		if r.headers[name] == nil {
			r.fail(name, errors.New("missing, and no message-id"))
		}
	}
	return ID(o.Topic, o.Partition, o.Offset)
}

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
