package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actortest"
	"github.com/stepwell/stepwell/embedded"
)

func TestAPaymentThatFailsAtFirstIsChargedLater(t *testing.T) {
	brokers := embedded.New(embedded.Options{})
	tries := make(chan time.Time, 10)
	app := app(func(_ context.Context, country string, p Payment) error {
		if p != (Payment{"17", 1250}) || country != "de" {
			t.Errorf("charged %+v of %q", p, country)
		}
		if tries <- time.Now(); len(tries) < 3 {
			return errors.New("the bank is away")
		}
		return nil
	})
	app.Brokers = brokers
	a := actortest.Start(t, app, "RETRY_DELAY=50ms", "SERVER_ADDRESS=off")
	if err := brokers.PublishToExchange(t.Context(), "events", "payment.de", stepwell.Message{ID: "p-1", Value: []byte(`{"Order":"17","Cents":1250}`)}); err != nil {
		t.Fatal(err)
	}
	a.Await("it is charged at its third try", func() bool { return len(tries) == 3 })
	first, second, third := <-tries, <-tries, <-tries
	if second.Sub(first) < 50*time.Millisecond || third.Sub(second) < 100*time.Millisecond {
		t.Errorf("tries after %s and %s", second.Sub(first), third.Sub(second))
	}
}
