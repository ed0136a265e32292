package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/embedded"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// world has a queue with messages, on a real RabbitMQ, and an empty topic.
type world struct {
	channel *amqp.Channel
	queue   string
	brokers *embedded.Brokers
	client  *kgo.Client
}

func newWorld(t *testing.T, node testbroker.Node, bodies ...string) *world {
	t.Helper()
	connection, err := amqp.Dial(node.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	channel, err := connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	queue := fmt.Sprintf("rescue-%d", time.Now().UnixNano())
	if _, err := channel.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if again, err := connection.Channel(); err == nil {
			_, _ = again.QueueDelete(queue, false, false, false)
		}
	})
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for _, body := range bodies {
		confirm, err := channel.PublishWithDeferredConfirm("", queue, true, false, amqp.Publishing{
			Body: []byte(body), Headers: amqp.Table{"retry-origin": "ziggurat-go", "count": int32(3)}, DeliveryMode: amqp.Persistent,
		})
		if err != nil || !confirm.Wait() {
			t.Fatalf("publish: %v", err)
		}
	}
	brokers := embedded.New(embedded.Options{Topics: map[string]int32{"rescued": 1, "orders.v1": 4}})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- brokers.Run(ctx) }()
	opts, err := brokers.Kafka(ctx)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(append(opts, kgo.DefaultProduceTopic("rescued"), kgo.ConsumeTopics("rescued"), kgo.RecordDeliveryTimeout(2*time.Second))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		stop()
		<-ended
	})
	return &world{channel, queue, brokers, client}
}

// rescued are the first n records of the topic.
func (w *world) rescued(t *testing.T, n int) (all []*kgo.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for len(all) < n && ctx.Err() == nil {
		all = append(all, w.client.PollFetches(ctx).Records()...)
	}
	if len(all) != n {
		t.Fatalf("%d records, want %d", len(all), n)
	}
	return all
}

// left is how many messages the queue has, once those that came back are ready.
func (w *world) left(t *testing.T, want int) {
	t.Helper()
	for limit := time.After(20 * time.Second); ; {
		q, err := w.channel.QueueDeclarePassive(w.queue, true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if q.Messages == want {
			return
		}
		select {
		case <-limit:
			t.Fatalf("%d left in the queue, want %d", q.Messages, want)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func onRabbitMQ(t *testing.T, test func(t *testing.T, node testbroker.Node)) {
	for _, node := range testbroker.Sample(t, testbroker.RabbitMQs(t)) {
		t.Run(node.Version, func(t *testing.T) { test(t, node) })
	}
}

func TestAllOfAQueueComesToTheTopicInItsOrderWithKeysAndValues(t *testing.T) {
	onRabbitMQ(t, func(t *testing.T, node testbroker.Node) {
		w := newWorld(t, node, `{"meta":{"rabbitmqAutoRetryCount":5},"key":"azE=","value":"b25l","routing_path":"g/t/0"}`, `{"key":null,"value":"dHdv"}`)
		if moved, err := move(t.Context(), w.channel, w.queue, w.client, event); moved != 2 || err != nil {
			t.Fatalf("%d moved, %v", moved, err)
		}
		all := w.rescued(t, 2)
		if string(all[0].Key) != "k1" || string(all[0].Value) != "one" || all[1].Key != nil || string(all[1].Value) != "two" {
			t.Errorf("rescued %v %v", all[0], all[1])
		}
		w.left(t, 0)
	})
}

func TestABodyOfAnyOtherToolComesAsItIsWithHeadersThatAreText(t *testing.T) {
	onRabbitMQ(t, func(t *testing.T, node testbroker.Node) {
		w := newWorld(t, node, "\x00any")
		if moved, err := move(t.Context(), w.channel, w.queue, w.client, raw); moved != 1 || err != nil {
			t.Fatalf("%d moved, %v", moved, err)
		}
		r := w.rescued(t, 1)[0]
		if string(r.Value) != "\x00any" || len(r.Headers) != 1 || r.Headers[0].Key != "retry-origin" || string(r.Headers[0].Value) != "ziggurat-go" {
			t.Errorf("rescued %q %v", r.Value, r.Headers)
		}
	})
}

func TestWhatKafkaDoesNotTakeOrNobodyCanReadStaysInTheQueue(t *testing.T) {
	onRabbitMQ(t, func(t *testing.T, node testbroker.Node) {
		w := newWorld(t, node, `{"value":"b25l"}`, "no event", `{"value":"dHdv"}`)
		moved, err := move(t.Context(), w.channel, w.queue, w.client, event)
		if moved != 1 || err == nil || !strings.Contains(err.Error(), "read an event") || !strings.Contains(err.Error(), "oldest of 2 in queue "+w.queue) {
			t.Errorf("%d moved, %v", moved, err)
		}
		w.left(t, 2)
		ended, end := context.WithCancel(t.Context())
		end()
		if moved, err := move(ended, w.channel, w.queue, w.client, raw); moved != 0 || err == nil || !strings.Contains(err.Error(), "write to topic rescued") {
			t.Errorf("%d moved, %v, without Kafka", moved, err)
		}
		w.left(t, 2)
	})
}

func TestAConnectionThatIsLostBeforeTheAckLeavesTheMessageInBothPlaces(t *testing.T) {
	onRabbitMQ(t, func(t *testing.T, node testbroker.Node) {
		w := newWorld(t, node, "x")
		cut := func(d amqp.Delivery) (*kgo.Record, error) {
			if err := w.channel.Close(); err != nil {
				t.Error(err)
			}
			return raw(d)
		}
		if moved, err := move(t.Context(), w.channel, w.queue, w.client, cut); moved != 0 || err == nil {
			t.Errorf("%d moved, %v, though the ack was lost", moved, err)
		}
		w.rescued(t, 1)
		connection, err := amqp.Dial(node.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		if w.channel, err = connection.Channel(); err != nil {
			t.Fatal(err)
		}
		w.left(t, 1)
	})
}

// No brokers of Kafka are no mistake to kgo, so that the queue would be asked first.
func TestBothBrokersAreToBeNamed(t *testing.T) {
	for _, missing := range [][]string{{"KAFKA_BROKERS"}, {"RABBITMQ_URL"}, {"KAFKA_BROKERS", "RABBITMQ_URL"}} {
		t.Run(strings.Join(missing, " and "), func(t *testing.T) {
			t.Setenv("KAFKA_BROKERS", "127.0.0.1:1")
			t.Setenv("RABBITMQ_URL", "amqp://127.0.0.1:1/")
			for _, name := range missing {
				t.Setenv(name, "")
			}
			want := strings.Join(missing, " is not set\n") + " is not set"
			if moved, err := run(t.Context(), "dead", "rescued", "raw"); moved != 0 || err == nil || err.Error() != want {
				t.Errorf("%d moved, %v", moved, err)
			}
		})
	}
}
