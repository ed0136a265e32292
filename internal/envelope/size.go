package envelope

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// perValue is what a value takes beside its bytes: AMQP needs one byte for the type and up to eight for a length or a number. It is
// a little more than the truth, so that what is measured here fits for a broker that measures otherwise.
const perValue = 10

// sizeOf is how many bytes the headers take at most, encoded as an AMQP table.
func sizeOf(headers map[string]any) int {
	n := perValue
	for name, v := range headers {
		n += fieldSize(name, v)
	}
	return n
}

func fieldSize(name string, v any) int {
	n, _ := valueSize(v)
	return 1 + len(name) + n
}

// valueSize also says whether the value is flat, as headers of ours are; the size of others is near enough.
func valueSize(v any) (size int, flat bool) {
	switch v := v.(type) {
	case nil, bool, int64, float64, time.Time:
		return perValue, true
	case string:
		return perValue + len(v), true
	case []byte:
		return perValue + len(v), true
	case []any:
		size, flat = perValue, true
		for _, item := range v {
			n, ok := valueSize(item)
			size += n
			flat = flat && ok
		}
		return size, flat
	}
	return nestedSize(reflect.ValueOf(v)), false
}

func nestedSize(v reflect.Value) int {
	size := perValue
	if v.Kind() != reflect.Map {
		return size
	}
	for entry := v.MapRange(); entry.Next(); {
		size += fieldSize(entry.Key().String(), entry.Value().Interface())
	}
	return size
}

// without returns the headers but those named, and those that the broker adds: these must not be published again, since it would
// count on from them or take them for a cycle.
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

// extras returns the flat headers that this version does not know.
func extras(headers map[string]any) map[string]any {
	kept := without(headers, isKnown)
	for name, v := range kept {
		v = widen(v)
		kept[name] = v
		if _, flat := valueSize(v); !flat {
			delete(kept, name)
		}
	}
	return kept
}

// fit removes headers that may go, the largest first, until all together are at most limit bytes.
func fit(headers map[string]any, limit int, mayGo map[string]any) {
	over := sizeOf(headers) - limit
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
