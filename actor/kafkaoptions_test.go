package actor_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/config"
)

// opened notes the clients that are made with it.
type opened struct {
	mu    sync.Mutex
	racks []any
}

func (o *opened) OnNewClient(c *kgo.Client) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.racks = append(o.racks, c.OptValue(kgo.Rack))
}

func TestOptionsOfTheAppReachTheClientsOfTheStreamTheyAreFor(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	y, seen := newTally(), map[string]*opened{"orders": {}, "": {}}
	app := orders(y.handler(failsOnce))
	app.Kafka = func(stream string) []kgo.Opt {
		return []kgo.Opt{kgo.WithHooks(seen[stream]), kgo.Rack("rack-of-" + stream)}
	}
	r := w.start(app, nil)
	w.produce(several("good", 3)...)
	eventually(t, "three", func() bool { _, done := y.count(); return done == 3 })
	r.end()
	o := seen["orders"]
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, rack := range o.racks {
		if rack != "rack-of-orders" {
			t.Errorf("a client has the rack %v", rack)
		}
	}
	if len(o.racks) < 2 {
		t.Errorf("%d clients had them", len(o.racks))
	}
}

func TestOptionsForKafkaAreNotAskedForWhereTheAppsOwnSettingsAreWrong(t *testing.T) {
	t.Parallel()
	var keys *struct{ id string } // which a Check that is content makes
	app := orders(done)
	app.Name = "shop"
	app.Check = func(*config.Config) error { return errors.New("APP_KEYS is missing") }
	app.Kafka = func(string) []kgo.Opt { return []kgo.Opt{kgo.ClientID(keys.id)} }
	_, err := actor.Load(app, []string{"RABBITMQ_URL=amqp://r", "STREAMS_ORDERS_TOPICS=t"})
	if err == nil || !strings.Contains(err.Error(), "APP_KEYS is missing") || !strings.Contains(err.Error(), "KAFKA_BROKERS") {
		t.Errorf("got %v", err)
	}
}

func TestAPanicInTheFunctionThatMakesOptionsForKafkaIsToldBesideAllOtherMistakes(t *testing.T) {
	t.Parallel()
	var keys map[string]*struct{ rack string }
	app := orders(done)
	app.Name = "shop"
	app.Kafka = func(stream string) []kgo.Opt {
		if stream == "" {
			panic(unprintable{})
		}
		return []kgo.Opt{kgo.Rack(keys[stream].rack)}
	}
	_, err := actor.Load(app, []string{"RABBITMQ_URL=amqp://r", "STREAMS_ORDERS_TOPICS=t"})
	if err == nil || !hasAll(err.Error(), "KAFKA_BROKERS: is required",
		"App.Kafka of stream orders: panic: runtime error: invalid memory address or nil pointer dereference, at ", "kafkaoptions_test.go:",
		"App.Kafka for Env.Produce: panic: a actor_test.unprintable that cannot be printed, at ") {
		t.Errorf("got %v", err)
	}
}

func TestAnActorWhoseOptionsWouldCommitByThemselvesIsNotMade(t *testing.T) {
	t.Parallel()
	app := orders(done)
	app.Name = "shop"
	app.Kafka = func(string) []kgo.Opt { return []kgo.Opt{kgo.AutoCommitMarks()} }
	cfg, err := config.Load(config.Source{
		AppName: "shop", Environ: []string{"KAFKA_BROKERS=k:1", "RABBITMQ_URL=amqp://r"}, Streams: map[string]config.Stream{"orders": {Topics: []string{"t"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = actor.New(cfg, app)
	if err == nil || !strings.Contains(err.Error(), "App.Kafka of stream orders: kgo.AutoCommitMarks is not to be set") {
		t.Errorf("got %v", err)
	}
}
