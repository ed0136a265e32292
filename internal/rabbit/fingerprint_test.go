package rabbit

import (
	"hash/maphash"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

func TestMessagesShareAFingerprintWhereAllIsTheSame(t *testing.T) {
	seed := maphash.MakeSeed()
	of := func(id, body string, value any) uint64 {
		return fingerprint(seed, &queue.Message{ID: id, Body: []byte(body), Headers: map[string]any{"sw-headers": value, "n": int64(7)}})
	}
	list := func(all ...any) []any { return all }
	one := of("t:0:7", "b", list("tenant", []byte("acme")))
	if of("t:0:7", "b", list("tenant", []byte("acme"))) != one {
		t.Error("the same message has another fingerprint")
	}
	seen := map[uint64]any{one: "the first", of("t:0:8", "b", list("tenant", []byte("acme"))): "another id", of("t:0:7", "c", list("tenant", []byte("acme"))): "another body"}
	if len(seen) != 3 {
		t.Error("of three messages two have one fingerprint")
	}
	for _, value := range []any{
		nil, "", "tenantacme", list("tenant"), list("tenant", []byte("acm")), list("tenanta", []byte("cme")), list([]byte("acme"), "tenant"),
		list("tenant", nil), list("tenant", ""), list("tenant", []byte("acme"), ""), int64(1), true, time.Unix(1, 0),
	} {
		print := of("t:0:7", "b", value)
		if other, twice := seen[print]; twice {
			t.Errorf("%#v has the fingerprint of %#v", value, other)
		}
		seen[print] = value
	}
}
