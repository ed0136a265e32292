package envelope

import (
	"testing"
	"time"

	"github.com/stepwell/stepwell"
)

// failed is an envelope as most are: a small record, tried for the second time.
func failed() *Envelope {
	at := time.Date(2026, 3, 4, 5, 6, 7, 891_000_000, time.UTC)
	run := Run{Took: 210 * time.Millisecond, By: By("shipping-7d9c5bd6f4-x2x9k", "v1.8.0")}
	return &Envelope{
		AttemptsTotal: 1, TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Failure: Failure{Reason: stepwell.ReasonExhausted, Error: "charge the card: the bank answers 503", ErrorType: "*errors.errorString", At: at, Run: run},
		History: []Try{{Attempt: 1, At: at, Error: "charge the card: the bank answers 503", ErrorType: "*errors.errorString", Run: run}},
		Message: stepwell.Message{
			ID: "orders.v1:7:123456789", Stream: "orders", Key: []byte("customer-4711"), Value: make([]byte, 100), Time: at, FirstFailed: at,
			Attempt: 2, Origin: stepwell.Origin{Topic: "orders.v1", Partition: 7, Offset: 123456789},
			Headers: []stepwell.Header{{Key: "content-type", Value: []byte("application/json")}},
		},
	}
}

func BenchmarkEncode(b *testing.B) {
	e := failed()
	b.ReportAllocs()
	for b.Loop() {
		_ = e.Encode()
	}
}

func BenchmarkDecode(b *testing.B) {
	m := failed().Encode()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(m); err != nil {
			b.Fatal(err)
		}
	}
}
