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
