package deadset

import (
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

func TestMessagesHaveOnePrintWhereAllButWhatMovesAndBrokersWriteIsTheSame(t *testing.T) {
	of := func(m queue.Message) print { return printOf(&queue.Delivery{Message: m}) }
	with := func(value any) queue.Message {
		return queue.Message{ID: "t:0:7", Body: []byte("b"), Headers: map[string]any{"sw-headers": value, "n": int64(7)}}
	}
	list := func(all ...any) []any { return all }
	one := of(with(list("tenant", []byte("acme"))))
	moved := moved(with(list("tenant", []byte("acme"))), "op_1", 9)
	moved.Headers[renewed], moved.Headers["x-delivery-count"] = "now", int64(3)
	if moved.Headers[envelope.Moved] == nil || of(moved) != one {
		t.Error("a move makes it another message")
	}
	seen := map[print]any{one: "the first"}
	for _, value := range []any{
		nil, "", "tenantacme", list(), list("tenant"), list("tenant", []byte("acm")), list("tenanta", []byte("cme")), list([]byte("acme"), "tenant"),
		list("tenant", nil), list("tenant", ""), list("tenant", []byte("acme"), ""), list("tenant", list([]byte("acme"))), int64(1), true, time.Unix(1, 0),
	} {
		p := of(with(value))
		if other, twice := seen[p]; twice {
			t.Errorf("%#v has the print of %#v", value, other)
		}
		seen[p] = value
	}
}
