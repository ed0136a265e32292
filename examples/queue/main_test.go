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

// run starts the app with these settings, and ends it with the test.
func run(t *testing.T, app actor.App, settings ...string) {
	t.Helper()
	cfg, err := actor.Load(app, append(settings, "SERVER_ADDRESS=off"))
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
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for limit := time.After(30 * time.Second); !is(); {
		select {
		case <-limit:
			t.Fatalf("it never came to this: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

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
	run(t, app, "RETRY_DELAY=50ms")
	if err := brokers.PublishToExchange(t.Context(), "events", "payment.de", stepwell.Message{ID: "p-1", Value: []byte(`{"Order":"17","Cents":1250}`)}); err != nil {
		t.Fatal(err)
	}
	until(t, "it is charged at its third try", func() bool { return len(tries) == 3 })
	first, second, third := <-tries, <-tries, <-tries
	if second.Sub(first) < 50*time.Millisecond || third.Sub(second) < 100*time.Millisecond {
		t.Errorf("tries after %s and %s", second.Sub(first), third.Sub(second))
	}
}
