package actor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/embedded"
)

// neverUp are an app's own brokers that fail once a stream asks for Kafka.
type neverUp struct {
	*embedded.Brokers
	asked chan struct{}
}

func (b neverUp) Run(context.Context) error {
	<-b.asked
	return errors.New("no port is free")
}

func (b neverUp) Kafka(ctx context.Context) ([]kgo.Opt, error) {
	close(b.asked)
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestBrokersThatFailWhileStreamsAreOpenedEndTheActorWhichSaysWhy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		app, b := logged(orders(done))
		app.Name, app.Brokers = "shop", neverUp{embedded.New(embedded.Options{VirtualNetwork: true}), make(chan struct{})}
		stopped := false
		app.Stop = func(context.Context) error { stopped = true; return nil }
		cfg, err := actor.Load(app, []string{"STREAMS_ORDERS_TOPICS=orders.v1", "SERVER_ADDRESS=off"})
		if err != nil {
			t.Fatal(err)
		}
		a, err := actor.New(cfg, app)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Hour) // of the bubble
		defer stop()
		err = a.Run(ctx)
		if err == nil || !hasAll(err.Error(), "brokers: no port is free") || ctx.Err() != nil || !stopped {
			t.Errorf("Run: %v; asked to stop: %v; the stop function was called: %v", err, ctx.Err(), stopped)
		}
		if !b.said("a part ended, stop", "no port is free") {
			t.Error("the log does not say why")
		}
	})
}
