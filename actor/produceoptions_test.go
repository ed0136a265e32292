package actor

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/config"
)

// producing is an app with options for the client of Env.Produce, and none for its stream.
func producing(opts ...kgo.Opt) App {
	return App{
		Name:    "shop",
		Streams: Streams{"orders": {Handler: func(context.Context, *stepwell.Message) error { return nil }}},
		Kafka: func(stream string) []kgo.Opt {
			if stream != "" {
				return nil
			}
			return opts
		},
	}
}

func producingEnv(more ...string) []string {
	return append([]string{"KAFKA_BROKERS=k:1", "RABBITMQ_URL=amqp://r", "STREAMS_ORDERS_TOPICS=t"}, more...)
}

func TestOptionsThatWouldBreakWhatProducePromisesAreRefusedAtStartByName(t *testing.T) {
	t.Parallel()
	options := map[string]kgo.Opt{
		"RequiredAcks": kgo.RequiredAcks(kgo.LeaderAck()), "DisableIdempotentWrite": kgo.DisableIdempotentWrite(),
		"AllowIdempotentProduceCancellation": kgo.AllowIdempotentProduceCancellation(),
		"RecordRetries":                      kgo.RecordRetries(3), "RecordDeliveryTimeout": kgo.RecordDeliveryTimeout(time.Second),
		"StopProducerOnDataLossDetected": kgo.StopProducerOnDataLossDetected(), "ManualFlushing": kgo.ManualFlushing(),
		"TransactionalID": kgo.TransactionalID("t"),
	}
	for _, o := range ofProducer() {
		if options[o.Name] == nil {
			t.Errorf("%s is not tried", o.Name)
		}
	}
	for name, option := range options {
		_, err := Load(producing(option), producingEnv())
		if err == nil || strings.Count(err.Error(), "kgo.") != 1 || !strings.Contains(err.Error(), "App.Kafka for Env.Produce: kgo."+name+" is not to be set: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRefusedOptionsStandBesideAllOtherMistakesAndEachHasItsLine(t *testing.T) {
	t.Parallel()
	app := producing(kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.NoAck()))
	forProduce := app.Kafka
	app.Kafka = func(stream string) []kgo.Opt {
		if stream == "orders" {
			return []kgo.Opt{kgo.AutoCommitMarks(), kgo.KeepControlRecords()}
		}
		return forProduce(stream)
	}
	_, err := Load(app, producingEnv("RETRY_COUNT=many"))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"RETRY_COUNT: ",
		"App.Kafka of stream orders: kgo.AutoCommitMarks ", "App.Kafka of stream orders: kgo.KeepControlRecords ",
		"App.Kafka for Env.Produce: kgo.DisableIdempotentWrite ", "App.Kafka for Env.Produce: kgo.RequiredAcks ",
	} {
		if !strings.Contains(err.Error(), "\n  "+want) {
			t.Errorf("no line begins with %q in:\n%v", want, err)
		}
	}
	cfg, err := Load(producing(), producingEnv())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(cfg, app); err == nil || !strings.Contains(err.Error(), "kgo.DisableIdempotentWrite") {
		t.Errorf("with a configuration that knew nothing of them: %v", err)
	}
}

func TestOptionsThatBreakNothingOfProduceAreTaken(t *testing.T) {
	t.Parallel()
	_, err := Load(producing(kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerBatchMaxBytes(4<<20), kgo.ProducerLinger(time.Millisecond),
		kgo.UnknownTopicRetries(4), kgo.Rack("r"), kgo.ClientID("c")), producingEnv())
	if err != nil {
		t.Error(err)
	}
}

func TestNoOptionThatAnAppGivesLaterMakesProduceReturnBeforeAllReplicasHaveTheRecord(t *testing.T) {
	t.Parallel()
	a := &Actor{cfg: &config.Config{}, app: producing(kgo.RequiredAcks(kgo.NoAck()))}
	client, err := kgo.NewClient(a.newProducer().options()...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if acks := client.OptValue(kgo.RequiredAcks); acks != kgo.AllISRAcks() {
		t.Errorf("acks %v", acks)
	}
}
