package queue

import (
	"reflect"
	"time"
)

// perValue is what a header's value takes beside its bytes: AMQP needs one byte for the type and up
// to eight for a length or a number. It is a little more than the truth, so that what is measured
// here fits for a broker that measures otherwise.
const perValue = 10

// Size is about how many bytes the message takes.
func (m *Message) Size() int {
	n := len(m.ID) + len(m.Body)
	for name, v := range m.Headers {
		n += len(name) + ValueSize(v)
	}
	return n
}

// ValueSize is how many bytes the value of a header takes on the wire at most.
func ValueSize(v any) int {
	switch v := v.(type) {
	case nil, bool, int, int64, float64, time.Time:
		return perValue
	case string:
		return perValue + len(v)
	case []byte:
		return perValue + len(v)
	case []any:
		n := perValue
		for _, item := range v {
			n += ValueSize(item)
		}
		return n
	}
	return nestedSize(reflect.ValueOf(v))
}

// nestedSize is that of a table, whatever its type is called, and of numbers of other sizes.
func nestedSize(v reflect.Value) int {
	n := perValue
	if v.Kind() != reflect.Map {
		return n
	}
	for entry := v.MapRange(); entry.Next(); {
		n += 1 + len(entry.Key().String()) + ValueSize(entry.Value().Interface())
	}
	return n
}
