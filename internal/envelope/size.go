package envelope

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// sizeOf is how many bytes the headers take as an AMQP table: its length, and for each field the name with its length, the
// type, and the value.
func sizeOf(headers map[string]any) int {
	n := 4
	for name, v := range headers {
		n += fieldSize(name, v)
	}
	return n
}

func fieldSize(name string, v any) int {
	n, _ := valueSize(v)
	return 1 + len(name) + 1 + n
}

// valueSize also says whether the value is flat, as headers of ours are; the size of others is near enough.
func valueSize(v any) (size int, flat bool) {
	switch v := v.(type) {
	case nil:
		return 0, true
	case bool:
		return 1, true
	case int64, float64, time.Time:
		return 8, true
	case string:
		return 4 + len(v), true
	case []byte:
		return 4 + len(v), true
	case []any:
		size, flat = 4, true
		for _, item := range v {
			n, ok := valueSize(item)
			size += 1 + n
			flat = flat && ok
		}
		return size, flat
	}
	return nestedSize(reflect.ValueOf(v)), false
}

func nestedSize(v reflect.Value) int {
	if v.Kind() != reflect.Map {
		return 8
	}
	size := 4
	for entry := v.MapRange(); entry.Next(); {
		n, _ := valueSize(entry.Value().Interface())
		size += 2 + len(entry.Key().String()) + n
	}
	return size
}

// without returns the headers but those named, and those that the broker adds: these must not be published again, since it would
// count on from them or take them for a cycle.
func without(headers map[string]any, named func(string) bool) map[string]any {
	var kept map[string]any
	for name, v := range headers {
		if len(name) > maxName || named(name) || fromBroker(name) {
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

func fromBroker(name string) bool {
	switch name {
	case "CC", "BCC", "x-delivery-count", "x-acquired-count":
		return true
	}
	return strings.HasPrefix(name, "x-death") || strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
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
