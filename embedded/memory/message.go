package memory

import (
	"bytes"

	"github.com/stepwell/stepwell/internal/queue"
)

// clone shares no memory with m: who published it, or had it handed out before, may go on with his.
func clone(m queue.Message) queue.Message {
	c := queue.Message{ID: m.ID, Headers: make(map[string]any, len(m.Headers)), Body: bytes.Clone(m.Body)}
	for name, value := range m.Headers {
		c.Headers[name] = cloneValue(value)
	}
	return c
}

func cloneValue(v any) any {
	switch v := v.(type) {
	case int:
		return int64(v)
	case []byte:
		return bytes.Clone(v)
	case []any:
		all := make([]any, len(v))
		for i, one := range v {
			all[i] = cloneValue(one)
		}
		return all
	}
	return v
}

// size is about what a message takes.
func size(m queue.Message) int {
	n := len(m.ID) + len(m.Body)
	for name, value := range m.Headers {
		n += len(name) + valueSize(value)
	}
	return n
}

func valueSize(v any) int {
	const most = 10
	switch v := v.(type) {
	case string:
		return most + len(v)
	case []byte:
		return most + len(v)
	case []any:
		n := most
		for _, one := range v {
			n += valueSize(one)
		}
		return n
	}
	return most
}
