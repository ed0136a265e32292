package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/embedded"
)

// This is how to test an actor of your own: the real one, on brokers inside the test.
func TestAStolenCardRestsInTheDeadSetAfterOneTryAndAnExpiredOneAfterThree(t *testing.T) {
	brokers := embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 1}})
	shop := app(brokers)
	cfg, err := actor.Load(shop, []string{"SERVER_ADDRESS=localhost:0", "RETRY_DELAY=10ms"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := actor.New(cfg, shop)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	for id, card := range []string{"good", "expired", "stolen", "slow"} {
		order := fmt.Appendf(nil, `{"id":%d,"card":%q}`, id, card)
		if err := brokers.Produce(ctx, &kgo.Record{Topic: "orders.v1", Value: order}); err != nil {
			t.Fatal(err)
		}
	}

	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	for {
		attempts := dead(t, a.Address())
		if len(attempts) == 2 && attempts["stolen"] == 1 && attempts["expired"] == 3 {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("in the dead set: %v", attempts)
		}
	}
}

// dead is how often each card in the dead set was tried.
func dead(t *testing.T, address string) map[string]int {
	t.Helper()
	ask, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/v1/dead_set?count=10&stream=orders", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		return nil // it does not listen yet
	}
	defer answer.Body.Close()
	var page struct {
		Messages []struct {
			Attempts int   `json:"attempts"`
			Value    Order `json:"value"`
		} `json:"messages"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&page); err != nil {
		t.Fatal(err)
	}
	attempts := map[string]int{}
	for _, m := range page.Messages {
		attempts[m.Value.Card] = m.Attempts
	}
	return attempts
}

func TestTheHintNamesTheAddressThatIsServed(t *testing.T) {
	for address, says := range map[string]string{
		"localhost:9000": "curl 'localhost:9000/v1/dead_set?count=10&topic-entity=orders'",
		":9000":          "In a browser: http://localhost:9000/console\nAlso: localhost:9000/v1/streams, /readyz?verbose",
		"off":            "SERVER_ADDRESS is off",
	} {
		if text := hint(address); !strings.Contains(text, says) || strings.Contains(text, "8010") || strings.Contains(text, "%!") {
			t.Errorf("%s: %s", address, text)
		}
	}
}
