package envelope

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/queue"
)

// sizeOf is how many bytes the headers take at most, encoded as an AMQP table.
func sizeOf(headers map[string]any) int {
	const table = 10
	n := table
	for name, v := range headers {
		n += fieldSize(name, v)
	}
	return n
}

// RecordSize is how large the message can be in a queue at most, but for what explains its
// failures.
func RecordSize(m *stepwell.Message) int {
	return len(m.ID) + len(magic) + recordSize(m) + len(m.Value)
}

func fieldSize(name string, v any) int { return 1 + len(name) + queue.ValueSize(v) }

// isFlat says whether a value is of a kind that headers of ours have: no table, and no number that
// was not widened.
func isFlat(v any) bool {
	switch v := v.(type) {
	case nil, bool, int64, float64, time.Time, string, []byte:
		return true
	case []any:
		return !slices.ContainsFunc(v, func(item any) bool { return !isFlat(item) })
	}
	return false
}

// without returns the headers but those named, and those that the broker adds: these must not be
// published again, since it would count on from them or take them for a cycle. The map is a new
// one; nil: nothing is left.
func without(headers map[string]any, named func(string) bool) map[string]any {
	var kept map[string]any
	for name, v := range headers {
		if len(name) > maxName || named(name) || queue.OfBroker(name) {
			continue
		}
		if kept == nil {
			kept = map[string]any{}
		}
		kept[name] = v
	}
	return kept
}

// extras returns the flat headers that this version does not know. Others are dropped: a
// queue.Message has none.
func extras(headers map[string]any) map[string]any {
	kept := without(headers, isKnown)
	for name, v := range kept {
		v = widen(v)
		kept[name] = v
		if !isFlat(v) {
			delete(kept, name)
		}
	}
	return kept
}

// fit removes headers that may go, the largest first, until all together are at most MaxHeaders.
func fit(headers, mayGo map[string]any) {
	over := sizeOf(headers) - MaxHeaders
	if over <= 0 {
		return
	}
	names := slices.SortedFunc(maps.Keys(mayGo), func(a, b string) int {
		return cmp.Or(cmp.Compare(fieldSize(b, mayGo[b]), fieldSize(a, mayGo[a])), cmp.Compare(a, b))
	})
	for _, name := range names {
		if over <= 0 {
			return
		}
		over -= fieldSize(name, headers[name])
		delete(headers, name)
	}
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
