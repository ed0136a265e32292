// Package filter chooses among dead messages by what is known of them: "those with this error that
// died within two hours". A filter is made of the parameters of a request, and tested on a message
// in hand.
package filter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
)

// Message is what a filter looks at.
type Message struct {
	*stepwell.Message
	// Reason is one of stepwell's Reason constants, Error the text of the last failure, ErrorType
	// its Go type.
	Reason, Error, ErrorType string
	// TraceID is the trace of the first try; empty where it has none.
	TraceID string
	// DiedAt is when the message came to the dead set; zero where that is not known.
	DiedAt time.Time
	// AttemptsTotal counts the tries over all replays.
	AttemptsTotal int
	// Group is the fingerprint of the cause.
	Group string
	// ReplayedBy is the operation that replayed it last; empty: none did.
	ReplayedBy string
}

// Filter is true of some messages. The zero value is true of all.
type Filter struct {
	// tests have to be true one and all; words are the parameters that they were made of.
	tests []func(*Message) bool
	words []string
	// records: see ReadsRecords.
	records bool
}

// All is true of every message, and says so: it is not the zero value, which nobody asked for.
func All() Filter {
	return Filter{tests: []func(*Message) bool{func(*Message) bool { return true }}, words: []string{"all"}}
}

// IDs is true of messages with one of these ids; of none where there is no id.
func IDs(ids []string) Filter {
	in := make(map[string]bool, len(ids))
	for _, id := range ids {
		in[id] = true
	}
	test := func(m *Message) bool { return in[m.ID] }
	return Filter{tests: []func(*Message) bool{test}, words: []string{fmt.Sprintf("%d ids", len(in))}}
}

// IsZero says that nothing was asked for.
func (f Filter) IsZero() bool { return len(f.tests) == 0 }

// ReadsRecords says that the filter looks at the record itself, or its trace: beside the fields of
// [Message] that stand for themselves all other filters look only at ID, Origin and Replays.
func (f Filter) ReadsRecords() bool { return f.records }

// String is the filter as its parameters, in a fixed order.
func (f Filter) String() string { return strings.Join(f.words, " ") }

// Match says whether the filter is true of the message.
func (f Filter) Match(m *Message) bool {
	for _, test := range f.tests {
		if !test(m) {
			return false
		}
	}
	return true
}

// A parameter whose name begins so is about one header, or about one place in a JSON value.
const (
	headerPrefix = "header."
	valuePrefix  = "value."
)

// maxExpression is how long a regular expression may be, in bytes.
const maxExpression = 500

// maker makes the test of a parameter's text. now is for texts such as 2h.
type maker func(text string, now time.Time) (func(*Message) bool, error)

// makers are the makers of all tests but those of headers and places in a value, by the names of
// their parameters.
func makers() map[string]maker {
	return map[string]maker{
		"id":          equal(func(m *Message) string { return m.ID }),
		"group":       group,
		"reason":      reason,
		"error":       part(func(m *Message) string { return m.Error }),
		"error_re":    expression,
		"error_type":  equal(func(m *Message) string { return m.ErrorType }),
		"topic":       equal(func(m *Message) string { return m.Origin.Topic }),
		"partition":   number(func(m *Message, n int64) bool { return m.Origin.Topic != "" && int64(m.Origin.Partition) == n }),
		"offset_from": number(func(m *Message, n int64) bool { return m.Origin.Topic != "" && m.Origin.Offset >= n }),
		"offset_to":   number(func(m *Message, n int64) bool { return m.Origin.Topic != "" && m.Origin.Offset <= n }),
		"key":         equal(func(m *Message) string { return string(m.Key) }),
		"key_prefix": func(text string, _ time.Time) (func(*Message) bool, error) {
			return func(m *Message) bool { return m.Key != nil && bytes.HasPrefix(m.Key, []byte(text)) }, nil
		},
		"died_from":    died(func(it, at time.Time) bool { return !it.Before(at) }),
		"died_to":      died(func(it, at time.Time) bool { return !it.After(at) }),
		"attempts_min": number(func(m *Message, n int64) bool { return int64(m.AttemptsTotal) >= n }),
		"replays_max":  number(func(m *Message, n int64) bool { return int64(m.Replays) <= n }),
		"replayed_by":  equal(func(m *Message) string { return m.ReplayedBy }),
		"trace_id":     equal(func(m *Message) string { return m.TraceID }),
		"value":        part(func(m *Message) string { return string(m.Value) }),
	}
}

// Names are the parameters that there are, for a person to read.
func Names() []string {
	return append(slices.Sorted(maps.Keys(makers())), headerPrefix+"<name>", valuePrefix+"<path>")
}

// Known says whether there is such a parameter.
func Known(name string) bool {
	_, ok := makers()[name]
	return ok || isOf(headerPrefix, name) || isOf(valuePrefix, name)
}

// Reveals says of a parameter that its filter looks at the record: whoever may not see values, keys
// and headers would find them out by asking for one after another.
func Reveals(name string) bool {
	switch name {
	case "key", "key_prefix", "value":
		return true
	}
	return isOf(headerPrefix, name) || isOf(valuePrefix, name)
}

func isOf(prefix, name string) bool {
	return strings.HasPrefix(name, prefix) && len(name) > len(prefix)
}

// Parse makes a filter of parameters by their names; all of them must be true of a message.
//
//	id, group, reason, error_type, topic, trace_id, key   is that
//	error, value                                          has it as a part
//	key_prefix                                            begins with it
//	error_re                                              an RE2 expression, 500 bytes at most
//	partition, offset_from, offset_to                     whole numbers; both ends belong to it
//	attempts_min, replays_max                             tries over all replays, replays
//	replayed_by                                           the operation that replayed it last
//	died_from, died_to                                    RFC 3339, or so long ago: 2h
//	header.<name>                                         the last header of that name is that
//	value.<path>                                          a JSON value has that there: lines.0.sku
//
// The error has all mistakes. An empty text is one: what was not said must not mean everything.
func Parse(parameters map[string]string, now time.Time) (Filter, error) {
	var f Filter
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		text := parameters[name]
		test, err := testOf(name, text, now)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s %w", name, err))
			continue
		}
		f.tests = append(f.tests, test)
		f.records = f.records || Reveals(name) || name == "trace_id"
		f.words = append(f.words, name+"="+strconv.Quote(text))
	}
	if wrong != nil {
		return Filter{}, mistakes(wrong)
	}
	return f, nil
}

// mistakes are told on one line.
type mistakes []error

func (m mistakes) Error() string {
	texts := make([]string, len(m))
	for i, err := range m {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (m mistakes) Unwrap() []error { return m }

var errEmpty = errors.New("is empty: leave it out, or say what is meant")

func testOf(name, text string, now time.Time) (func(*Message) bool, error) {
	if text == "" {
		return nil, errEmpty
	}
	switch {
	case isOf(headerPrefix, name):
		return header(strings.TrimPrefix(name, headerPrefix), text), nil
	case isOf(valuePrefix, name):
		return place(strings.Split(strings.TrimPrefix(name, valuePrefix), "."), text), nil
	}
	makes, ok := makers()[name]
	if !ok {
		return nil, errors.New("is no parameter of a filter")
	}
	return makes(text, now)
}

// equal is true where a text is that, letter by letter.
func equal(of func(*Message) string) maker {
	return func(text string, _ time.Time) (func(*Message) bool, error) {
		return func(m *Message) bool { return of(m) == text }, nil
	}
}

// part is true where a text has that in it.
func part(of func(*Message) string) maker {
	return func(text string, _ time.Time) (func(*Message) bool, error) {
		return func(m *Message) bool { return strings.Contains(of(m), text) }, nil
	}
}

// reasons are those for which a message dies.
func reasons() []string {
	return []string{
		stepwell.ReasonExhausted, stepwell.ReasonDeadLetter, stepwell.ReasonDecode, stepwell.ReasonUndecodable,
		stepwell.ReasonTooLarge, stepwell.ReasonGone, stepwell.ReasonCrashLoop,
	}
}

func reason(text string, _ time.Time) (func(*Message) bool, error) {
	if all := reasons(); !slices.Contains(all, text) {
		return nil, fmt.Errorf("must be one of %s, not %q", strings.Join(all, ", "), clip(text))
	}
	return func(m *Message) bool { return m.Reason == text }, nil
}

// groupDigits is how many hexadecimal digits a group has.
const groupDigits = 12

func group(text string, _ time.Time) (func(*Message) bool, error) {
	if len(text) != groupDigits || strings.Trim(text, "0123456789abcdef") != "" {
		return nil, fmt.Errorf("must be a group as it is listed, %d hexadecimal digits, not %q", groupDigits, clip(text))
	}
	return func(m *Message) bool { return m.Group == text }, nil
}

func expression(text string, _ time.Time) (func(*Message) bool, error) {
	if len(text) > maxExpression {
		return nil, fmt.Errorf("is %d bytes long, and %d are the limit", len(text), maxExpression)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("is no RE2 expression: %w", err)
	}
	return func(m *Message) bool { return re.MatchString(m.Error) }, nil
}

// number reads a whole number once, and compares it with each message.
func number(is func(*Message, int64) bool) maker {
	return func(text string, _ time.Time) (func(*Message) bool, error) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("must be a whole number from 0 on, not %q", clip(text))
		}
		return func(m *Message) bool { return is(m, n) }, nil
	}
}

// died compares when a message died. Of one that nobody knows the time of nothing is true.
func died(is func(died, at time.Time) bool) maker {
	return func(text string, now time.Time) (func(*Message) bool, error) {
		at, err := Moment(text, now)
		if err != nil {
			return nil, err
		}
		return func(m *Message) bool { return !m.DiedAt.IsZero() && is(m.DiedAt, at) }, nil
	}
}

// Moment reads a time, or how long ago it is.
func Moment(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	ago, err := time.ParseDuration(text)
	if err != nil || ago < 0 {
		return now, fmt.Errorf("must be a time such as 2026-01-31T23:59:59Z, or how long ago, such as 2h, not %q", clip(text))
	}
	return now.Add(-ago), nil
}

// header is true where the last header of that name is the text; a nil value is no text.
func header(name, text string) func(*Message) bool {
	return func(m *Message) bool {
		value, ok := m.Header(name)
		return ok && value != nil && string(value) == text
	}
}

// place compares what a JSON value has at a path: members by name, elements by number.
func place(path []string, text string) func(*Message) bool {
	return func(m *Message) bool {
		d := json.NewDecoder(bytes.NewReader(m.Value))
		d.UseNumber() // as it is written: a large id is no float
		var at any
		if d.Decode(&at) != nil {
			return false
		}
		for _, name := range path {
			switch in := at.(type) {
			case map[string]any:
				at = in[name]
			case []any:
				i, err := strconv.Atoi(name)
				if err != nil || i < 0 || i >= len(in) {
					return false
				}
				at = in[i]
			default:
				return false
			}
		}
		switch v := at.(type) {
		case string:
			return v == text
		case json.Number:
			return v.String() == text
		case bool:
			return strconv.FormatBool(v) == text
		}
		return false
	}
}

// clip bounds what a mistake repeats.
func clip(text string) string {
	const most = 60
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
