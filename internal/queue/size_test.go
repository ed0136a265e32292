package queue_test

import (
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

func TestAMessageIsMeasuredGenerously(t *testing.T) {
	type table map[string]any
	for _, test := range []struct {
		value any
		want  int
	}{
		{nil, 10},
		{true, 10},
		{int64(1), 10},
		{uint16(1), 10},
		{time.Time{}, 10},
		{"abc", 13},
		{[]byte("abc"), 13},
		{[]any{"abc", nil}, 33},
		{map[string]any{"ab": "abc"}, 26},
		{table{"ab": table{"c": int8(1)}}, 35},
	} {
		if got := queue.ValueSize(test.value); got != test.want {
			t.Errorf("%T %v: %d bytes, want %d", test.value, test.value, got, test.want)
		}
	}
	m := queue.Message{ID: "12", Body: []byte("body"), Headers: map[string]any{"name": "abc"}}
	if got := m.Size(); got != 2+4+4+13 {
		t.Errorf("the message has %d bytes", got)
	}
}
