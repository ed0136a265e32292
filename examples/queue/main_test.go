package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/embedded"
)

func TestAPaymentThatFailsAtFirstIsChargedLater(t *testing.T) {
	brokers := embedded.New(embedded.Options{})
	tries := make(chan time.Time, 10)
	app := app(func(_ context.Context, country string, p Payment) error {
		if p != (Payment{"17", 1250}) || country != "source" { // in the process there are no exchanges, and a queue's name is the routing key
			t.Errorf("charged %+v of %q", p, country)
		}
		if tries <- time.Now(); len(tries) < 3 {
			return errors.New("the bank is away")
		}
		return nil
	})
	app.Brokers = brokers
	cfg, err := actor.Load(app, []string{"SERVER_ADDRESS=off", "RETRY_DELAY=50ms"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := actor.New(cfg, app)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	if err := brokers.Publish(t.Context(), "billing.payments.source", stepwell.Message{ID: "p-1", Value: []byte(`{"Order":"17","Cents":1250}`)}); err != nil {
		t.Fatal(err)
	}
	limit := time.After(30 * time.Second)
	for len(tries) < 3 {
		select {
		case <-limit:
			t.Fatalf("%d tries", len(tries))
		case <-time.After(10 * time.Millisecond):
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	first, second, third := <-tries, <-tries, <-tries
	if second.Sub(first) < 50*time.Millisecond || third.Sub(second) < 100*time.Millisecond {
		t.Errorf("tries after %s and %s", second.Sub(first), third.Sub(second))
	}
}
