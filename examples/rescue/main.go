// Command rescue moves what waits in a queue of RabbitMQ to a topic of Kafka, for who leaves a tool
// that kept its failed messages in queues: a stream that reads the topic handles them.
//
//	RABBITMQ_URL=amqp://… KAFKA_BROKERS=… rescue -queue orders_dlq_queue -topic orders.rescued
//
// It moves as many messages as the queue has when it begins, and ends. A message leaves the queue
// when Kafka has it, on all in-sync replicas: what a kill in between leaves in both is moved twice,
// nothing is lost. What it cannot read stays where it is, and ends it with an error.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// decoders say how a message of the queue becomes a record, by their names for -body.
func decoders() map[string]func(amqp.Delivery) (*kgo.Record, error) {
	return map[string]func(amqp.Delivery) (*kgo.Record, error){"raw": raw, "event": event}
}

// raw takes the body as the value, and headers that are text or bytes.
func raw(d amqp.Delivery) (*kgo.Record, error) {
	r := &kgo.Record{Value: d.Body}
	for key, value := range d.Headers {
		switch v := value.(type) {
		case string:
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: key, Value: []byte(v)})
		case []byte:
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: key, Value: v})
		}
	}
	return r, nil
}

// event reads what the Go form of Ziggurat publishes: key and value as base64 in JSON.
func event(d amqp.Delivery) (*kgo.Record, error) {
	var e struct{ Key, Value []byte }
	if err := json.Unmarshal(d.Body, &e); err != nil {
		return nil, fmt.Errorf("read an event: %w", err)
	}
	return &kgo.Record{Key: e.Key, Value: e.Value}, nil
}

// move takes messages from the queue, the oldest first, until it took as many as there were when it
// began, or there is none. It returns how many are in the topic and no longer in the queue.
func move(ctx context.Context, queue *amqp.Channel, name string, topic *kgo.Client, decode func(amqp.Delivery) (*kgo.Record, error)) (moved int, err error) {
	there, err := queue.QueueDeclarePassive(name, true, false, false, false, nil)
	if err != nil {
		return 0, fmt.Errorf("look at queue %s: %w", name, err)
	}
	for left := there.Messages; left > 0; left-- {
		d, ok, err := queue.Get(name, false)
		if err != nil || !ok {
			return moved, err
		}
		record, err := decode(d)
		if err == nil {
			err = write(ctx, topic, record)
		}
		if err != nil {
			err = fmt.Errorf("%w: the oldest of %d in queue %s, it stays there, before the others", err, left, name)
			return moved, errors.Join(err, d.Nack(false, true))
		}
		if err := d.Ack(false); err != nil {
			return moved, fmt.Errorf("ack what is in the topic: %w", err)
		}
		moved++
	}
	return moved, nil
}

func write(ctx context.Context, topic *kgo.Client, record *kgo.Record) error {
	if err := topic.ProduceSync(ctx, record).FirstErr(); err != nil {
		return fmt.Errorf("write to topic %s, which must be there: %w", record.Topic, err)
	}
	return nil
}

func main() {
	queue, topic := flag.String("queue", "", "the queue to take from"), flag.String("topic", "", "the topic to write to")
	body := flag.String("body", "raw", "what the messages are: raw, or event (Ziggurat for Go)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	moved, err := run(ctx, *queue, *topic, *body)
	fmt.Println(moved, "moved")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // the deferred stop has nothing to do then
	}
}

// run connects to the brokers that the environment names.
func run(ctx context.Context, queue, topic, body string) (moved int, err error) {
	decode := decoders()[body]
	if decode == nil || queue == "" || topic == "" {
		return 0, errors.New("-queue and -topic are required, and -body is raw or event")
	}
	var unset []error
	for _, name := range []string{"KAFKA_BROKERS", "RABBITMQ_URL"} {
		if os.Getenv(name) == "" {
			unset = append(unset, fmt.Errorf("%s is not set", name))
		}
	}
	if unset != nil {
		return 0, errors.Join(unset...)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(os.Getenv("KAFKA_BROKERS"), ",")...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return 0, fmt.Errorf("KAFKA_BROKERS: %w", err)
	}
	defer client.Close()
	connection, err := amqp.Dial(os.Getenv("RABBITMQ_URL"))
	if err != nil {
		return 0, fmt.Errorf("RABBITMQ_URL: %w", err)
	}
	defer func() { err = errors.Join(err, connection.Close()) }() // what was not acked is back in the queue
	channel, err := connection.Channel()
	if err != nil {
		return 0, fmt.Errorf("open a channel: %w", err)
	}
	return move(ctx, channel, queue, client, decode)
}
