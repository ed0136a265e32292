package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/actortest"
	"github.com/stepwell/stepwell/embedded"
)

// This is how to test an actor of your own: the real one, on brokers inside the test.
func TestAStolenCardRestsInTheDeadSetAfterOneTryAndAnExpiredOneAfterThree(t *testing.T) {
	brokers := embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 1}})
	shop := app(brokers)
	a := actortest.Start(t, shop, "RETRY_DELAY=10ms")

	for id, card := range []string{"good", "expired", "stolen", "slow"} {
		order := fmt.Appendf(nil, `{"id":%d,"card":%q}`, id, card)
		if err := brokers.Produce(t.Context(), &kgo.Record{Topic: "orders.v1", Value: order}); err != nil {
			t.Fatal(err)
		}
	}

	a.Await("the stolen card is dead after one try, and the expired one after three", func() bool {
		attempts := map[string]int{}
		for _, m := range a.Dead("orders") {
			var o Order
			if err := json.Unmarshal(m.Value, &o); err != nil {
				t.Fatal(err)
			}
			attempts[o.Card] = m.Attempts
		}
		return maps.Equal(attempts, map[string]int{"stolen": 1, "expired": 3})
	})
}
