package envelope

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/stepwell/stepwell"
)

// reader reads typed headers and remembers the first that is not what it should be. A header that is missing or nil is zero.
type reader struct {
	headers map[string]any
	err     error
}

func (r *reader) fail(name string, err error) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: header %s: %w", ErrUndecodable, name, err)
	}
}

func (r *reader) text(name string) string {
	s, ok := textOf(r.headers[name])
	if !ok {
		r.fail(name, fmt.Errorf("want text, have %T", r.headers[name]))
	}
	return s
}

func (r *reader) topic() string {
	s := r.text(hTopic)
	if len(s) > maxTopic {
		r.fail(hTopic, fmt.Errorf("%d bytes are no topic", len(s)))
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

func (r *reader) flag(name string) bool {
	switch v := r.headers[name].(type) {
	case nil:
		return false
	case bool:
		return v
	}
	r.fail(name, fmt.Errorf("want a bool, have %T", r.headers[name]))
	return false
}

// count reads an integer within bounds, also written as text.
func (r *reader) count(name string, missing, low, high int64) int64 {
	v := r.headers[name]
	if v == nil {
		return missing
	}
	n, err := intOf(v)
	if err == nil && (n < low || n > high) {
		err = fmt.Errorf("%d is not in %d … %d", n, low, high)
	}
	if err != nil {
		r.fail(name, err)
	}
	return n
}

func (r *reader) time(name string) time.Time {
	t, err := timeOf(r.headers[name])
	if err != nil {
		r.fail(name, err)
	}
	return t
}

func (r *reader) recordHeaders() []stepwell.Header {
	flat := r.list(hHeaders, 2)
	var headers []stepwell.Header
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
	flat := r.list(hHistory, 3)
	var tries []Try
	for ; len(flat) > 0; flat = flat[3:] {
		attempt, err := intOf(flat[0])
		at, timeErr := timeOf(flat[1])
		text, ok := textOf(flat[2])
		if err != nil || timeErr != nil || !ok {
			r.fail(hHistory, errors.New("want attempt, time and text"))
		}
		tries = append(tries, Try{Attempt: int(attempt), At: at, Error: text})
	}
	return tries
}

// list reads a list whose length is a multiple of n.
func (r *reader) list(name string, n int) []any {
	list, ok := r.headers[name].([]any)
	if (!ok && r.headers[name] != nil) || len(list)%n != 0 {
		r.fail(name, fmt.Errorf("want a list of %d times n values, have %T with %d", n, r.headers[name], len(list)))
		return nil
	}
	return list
}

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

func intOf(v any) (int64, error) {
	switch v := widen(v).(type) {
	case int64:
		return v, nil
	case float64:
		if n := int64(v); v >= -1<<53 && v <= 1<<53 && float64(n) == v {
			return n, nil
		}
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("want an integer, have %T", v)
}

func timeOf(v any) (time.Time, error) {
	switch v := widen(v).(type) {
	case nil:
		return time.Time{}, nil
	case time.Time:
		return v, nil
	case int64:
		return time.UnixMilli(v), nil
	case string:
		if t, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return t.Local(), nil
		}
	}
	return time.Time{}, fmt.Errorf("want a time, have %T", v)
}

// widen makes one type of each kind of number.
func widen(v any) any {
	switch v := v.(type) {
	case int:
		return int64(v)
	case int8:
		return int64(v)
	case int16:
		return int64(v)
	case int32:
		return int64(v)
	case uint8:
		return int64(v)
	case uint16:
		return int64(v)
	case uint32:
		return int64(v)
	case float32:
		return float64(v)
	}
	return v
}

// isKnown says whether this version reads the header.
func isKnown(name string) bool {
	switch name {
	case hVersion, hLayout, hEncoding, hPointer, hSize, hStream, hChannel, hTopic, hPartition, hOffset, hKey, hNilValue,
		hTimestamp, hHeaders, hAttempt, hReplays, hAttemptsTotal, hFirstFailed, hFailedAt, hDiedAt, hReason, hError, hErrorType,
		hStack, hHistory, hTraceParent, hTraceState, hUnreadable:
		return true
	}
	return false
}
