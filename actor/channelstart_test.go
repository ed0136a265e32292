package actor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/config"
)

func TestWhatIsWrongWithChannelsIsToldAtOnceAndDoesNotStart(t *testing.T) {
	works := func(context.Context, *stepwell.Message) error { return nil }
	_, err := actor.Load(actor.App{Name: "shop", Streams: actor.Streams{
		"orders": {
			Handler: works, Config: config.Stream{Topics: []string{"t"}, Channels: map[string]config.Channel{"slow": {}}},
			Channels: actor.Channels{"slow": {}, "Fast": {Handler: works}},
		},
		"orders_channels_slow": {Handler: works, Config: config.Stream{Topics: []string{"t"}}},
	}}, []string{"KAFKA_BROKERS=k:1", "RETRY_ENABLED=false", "STREAMS_ORDERS_CHANNELS_SLOW_CONCURRENCY=-1"})
	if err == nil {
		t.Fatal("it starts")
	}
	for _, want := range []string{
		`channel "slow" of stream "orders": App.Streams["orders"].Channels["slow"].Handler is nil: register a handler; a typed one is nil where its function is`,
		`stream "orders": App.Streams["orders"].Config.Channels is set: a channel's settings are in App.Streams["orders"].Channels`,
		`channel "Fast" of stream "orders": a name must be of a-z, 0-9, - and _`,
		`channel "slow" of stream "orders" and stream "orders_channels_slow" would both be set by STREAMS_ORDERS_CHANNELS_SLOW_HANDLER_TIMEOUT: rename one of them`,
		"RABBITMQ_URL: is required unless RETRY_ENABLED is false for every stream, and none has channels",
		`STREAMS_ORDERS_CHANNELS_SLOW_CONCURRENCY: "-1" is not within 1 to 1999`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not in %v", want, err)
		}
	}
}

func TestAMiddlewareThatIsNilIsNamedAndDoesNotStart(t *testing.T) {
	works := func(context.Context, *stepwell.Message) error { return nil }
	around := stepwell.Classify(func(error) error { return nil })
	_, err := actor.Load(actor.App{Name: "shop", Use: []stepwell.Middleware{around, nil}, Streams: actor.Streams{"orders": {
		Handler: works, Use: []stepwell.Middleware{nil}, Config: config.Stream{Topics: []string{"t"}},
		Channels: actor.Channels{"slow": {Handler: works, Use: []stepwell.Middleware{around, around, nil}}},
	}}}, []string{"KAFKA_BROKERS=k:1", "RABBITMQ_URL=amqp://r"})
	if err == nil {
		t.Fatal("it starts")
	}
	for _, want := range []string{
		"App.Use[1] is nil", `App.Streams["orders"].Use[0] is nil`, `App.Streams["orders"].Channels["slow"].Use[2] is nil`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not in %v", want, err)
		}
	}
	if n := strings.Count(err.Error(), " is nil"); n != 3 {
		t.Errorf("%d are nil: %v", n, err)
	}
}

func TestAnOnDeadOfAChannelNeedsTimeAndIsNamed(t *testing.T) {
	works := func(context.Context, *stepwell.Message) error { return nil }
	app := actor.App{Name: "shop", Streams: actor.Streams{"orders": {
		Handler: works, Config: config.Stream{Topics: []string{"t"}},
		Channels: actor.Channels{"slow": {Handler: works, OnDead: func(context.Context, *stepwell.Message, error) error { return nil }}},
	}}}
	_, err := actor.Load(app, []string{"KAFKA_BROKERS=k:1", "RABBITMQ_URL=amqp://r", "HANDLER_TIMEOUT=10m", "STREAMS_ORDERS_CHANNELS_SLOW_RETRY_ENABLED=true"})
	const want = `HANDLER_TIMEOUT: "10m" is above a quarter of RABBITMQ_CONSUMER_TIMEOUT (30m), the most beside an OnDead, ` +
		`which has the handler's time once more: STREAMS_ORDERS_CHANNELS_SLOW_HANDLER_TIMEOUT=7m30s fits`
	if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("got %v", err)
	}
}

func TestAMistakeOfAChannelHidesNoneOfItsStream(t *testing.T) {
	works := func(context.Context, *stepwell.Message) error { return nil }
	app := actor.App{Name: "shop", Streams: actor.Streams{"orders": {
		Handler: works, Config: config.Stream{Topics: []string{"t"}}, Channels: actor.Channels{"slow": {Handler: works}},
	}}}
	cfg, err := actor.Load(app, []string{"KAFKA_BROKERS=k:1", "RABBITMQ_URL=amqp://r"})
	if err != nil {
		t.Fatal(err)
	}
	cfg.RabbitMQ.ConsumerTimeout = time.Second // which no handler of either has the time for
	if _, err := actor.New(cfg, app); err == nil || !strings.Contains(err.Error(), "\nchannel slow of stream orders: ") || !strings.HasPrefix(err.Error(), "stream orders: ") {
		t.Errorf("got %v", err)
	}
}

func TestTheStartLineTellsTheWaitsOfEachChannel(t *testing.T) {
	onOneRabbitMQ(t, func(t *testing.T, w *world) {
		app, b := logged(withSlow(func(context.Context, *stepwell.Message) error { return nil }, actor.Channel{Handler: func(context.Context, *stepwell.Message) error { return nil }}))
		r := w.start(app, settings{"STREAMS_ORDERS_CHANNELS_SLOW_RETRY_POLICY": "schedule", "STREAMS_ORDERS_CHANNELS_SLOW_RETRY_SCHEDULE": "1s,1m"})
		r.ready()
		eventually(t, "the start line", func() bool {
			return b.said("failed messages are tried again, after these waits where their handler names no other", `"channel":"slow"`, "1s, 1m: 1m1s in all", "; 4 queues")
		})
	})
}
