// Package embedded has a Kafka and retry queues inside the process, for examples and tests. Nothing
// in them survives it.
//
// A program that does not import this package does not link it.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/queue"
)

// Options describe the Kafka.
type Options struct {
	// Topics are made at start, with their number of partitions. Others are made when they are
	// first produced to, with 4, and not by an actor that reads them: until then it waits, and says
	// so in its log and at /readyz.
	Topics map[string]int32
	// VirtualNetwork does without sockets, for tests under testing/synctest. The actor there needs
	// SERVER_ADDRESS=off: while it listens on a real socket the bubble's clock stands still.
	VirtualNetwork bool
}

// Brokers are an in-process Kafka and queues in memory, to be given to an actor as its App.Brokers.
type Brokers struct {
	options Options
	queues  *memory.Broker
	// network is used with VirtualNetwork alone.
	network kfake.VirtualNetwork

	// up is closed when Kafka is up. The fields below, but for once, are set before that and then
	// only read.
	up        chan struct{}
	once      sync.Once
	opts      []kgo.Opt
	addresses []string
	producer  *kgo.Client
}

// New makes brokers; they begin with Run.
func New(o Options) *Brokers {
	return &Brokers{options: o, queues: memory.New(), up: make(chan struct{})}
}

// Run runs them until ctx ends. It can be called once.
func (b *Brokers) Run(ctx context.Context) error {
	err := errors.New("embedded brokers: Run was called before")
	b.once.Do(func() { err = b.run(ctx) })
	return err
}

func (b *Brokers) run(ctx context.Context) error {
	opts := []kfake.Opt{kfake.NumBrokers(1), kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(4)}
	for topic, partitions := range b.options.Topics {
		opts = append(opts, kfake.SeedTopics(partitions, topic))
	}
	if b.options.VirtualNetwork {
		opts = append(opts, kfake.ListenFn(b.network.Listen))
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		return fmt.Errorf("embedded kafka: %w", err)
	}
	defer cluster.Close()
	b.addresses = cluster.ListenAddrs()
	b.opts = []kgo.Opt{kgo.SeedBrokers(b.addresses...)}
	if b.options.VirtualNetwork {
		b.opts = append(b.opts, kgo.Dialer(b.network.DialContext))
		// Under a false clock only.
		b.opts = append(b.opts, quiet()...)
	}
	b.opts = slices.Clip(b.opts) // clients append to it at once
	b.producer, err = kgo.NewClient(append(b.opts, kgo.AllowAutoTopicCreation())...)
	if err != nil {
		return fmt.Errorf("embedded kafka: %w", err)
	}
	defer b.producer.Close()
	close(b.up)
	return b.queues.Run(ctx)
}

// quiet makes clients ask seldom, so that a day on a false clock costs little: each request that
// wakes the bubble is real work.
func quiet() []kgo.Opt {
	return []kgo.Opt{kgo.FetchMaxWait(10 * time.Second), kgo.MetadataMaxAge(time.Minute), kgo.DisableClientMetrics()}
}

// Kafka waits until Run has Kafka up and tells how a client reaches it.
func (b *Brokers) Kafka(ctx context.Context) ([]kgo.Opt, error) {
	select {
	case <-b.up:
		return b.opts, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the embedded kafka: %w", ctx.Err())
	}
}

// Addresses waits until Run has Kafka up and tells where it listens.
func (b *Brokers) Addresses(ctx context.Context) ([]string, error) {
	_, err := b.Kafka(ctx)
	return b.addresses, err
}

// Queues are the queues for retries and dead sets.
func (b *Brokers) Queues() queue.Broker { return b.queues }

// Notice says what a user must know.
func (b *Brokers) Notice() string {
	return "EMBEDDED BROKERS: Kafka and queues are inside this process, and nothing in them survives it"
}

// Publish puts messages into a queue of RabbitMQ that is nobody's, as a stranger would, and makes
// it if it is not there. It returns when they are in it. Of a message the fields ID, Headers, with
// texts as values, and Value count.
func (b *Brokers) Publish(ctx context.Context, name string, messages ...stepwell.Message) error {
	b.queues.Make(name)
	p := b.queues.Publisher(name)
	told := make(chan error, len(messages))
	for i := range messages {
		p.Publish(ctx, name, published(&messages[i]), func(err error) { told <- err })
	}
	var all error
	for range messages {
		all = errors.Join(all, <-told)
	}
	if all != nil {
		return fmt.Errorf("publish to queue %s: %w", name, all)
	}
	return nil
}

// PublishToExchange publishes messages with a routing key to an exchange of RabbitMQ, as a stranger
// would, and returns when they are in the queues of all streams that are bound to it
// (STREAMS_<ID>_EXCHANGE) by a key that takes this one (…_ROUTING_KEYS), in each once. The exchange
// is there as soon as it is named, and its type is topic: the words of a key are what is between
// dots, * is one word and # none or more. Of a message the same fields count as for Publish.
//
// RabbitMQ drops what no queue takes. Here that is an error which names the bindings there are,
// once ctx has ended or 10 s are over: until then it waits, since streams bind their queues as
// their actor starts. It does not wait for a second stream where a first one takes the key already:
// where both are to have it, wait until the actor is ready.
func (b *Brokers) PublishToExchange(ctx context.Context, exchange, key string, messages ...stepwell.Message) error {
	to := memory.Exchange{Broker: b.queues, Name: exchange}
	for i := range messages {
		if err := to.Publish(ctx, key, published(&messages[i])); err != nil {
			return fmt.Errorf("publish to exchange %s with key %q: %w", exchange, key, err)
		}
	}
	return nil
}

// published is a message as RabbitMQ has it.
func published(m *stepwell.Message) queue.Message {
	headers := make(map[string]any, len(m.Headers))
	for _, h := range m.Headers {
		headers[h.Key] = string(h.Value)
	}
	return queue.Message{ID: m.ID, Headers: headers, Body: m.Value}
}

// Produce writes records and returns when Kafka has them.
func (b *Brokers) Produce(ctx context.Context, records ...*kgo.Record) error {
	if _, err := b.Kafka(ctx); err != nil {
		return err
	}
	if err := b.producer.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	return nil
}
