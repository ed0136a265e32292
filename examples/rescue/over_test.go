package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/embedded"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// rehearsal is a program of another tool, and ours, on the same brokers.
type rehearsal struct {
	*world
	t       *testing.T
	brokers *embedded.Brokers
	mu      sync.Mutex
	done    map[string][]string // who handled a value
}

func (r *rehearsal) handled(value, by string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done[value] = append(r.done[value], by)
}

// count is how many values were handled by anybody.
func (r *rehearsal) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.done)
}

// theirs is the old program: it reads n records, publishes those whose value ends in 7 to its dead
// letters, and commits.
func (r *rehearsal) theirs(n int) {
	r.t.Helper()
	opts, err := r.brokers.Kafka(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	client, err := kgo.NewClient(append(opts, kgo.ConsumerGroup("theirs"), kgo.ConsumeTopics("orders.v1"), kgo.DisableAutoCommit())...)
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close() // leaves the group
	for n > 0 {
		records := client.PollRecords(r.t.Context(), n).Records()
		n -= len(records)
		for _, record := range records {
			if value := string(record.Value); value[len(value)-1] != '7' {
				r.handled(value, "theirs")
				continue
			}
			body, _ := json.Marshal(map[string]any{"key": record.Key, "value": record.Value})
			confirm, err := r.channel.PublishWithDeferredConfirm("", r.queue, true, false, amqp.Publishing{Body: body})
			if err != nil || !confirm.Wait() {
				r.t.Fatalf("publish: %v", err)
			}
		}
		if err := client.CommitRecords(r.t.Context(), records...); err != nil {
			r.t.Fatal(err)
		}
	}
}

// copied copies the offsets of a group to another, as kafka-consumer-groups does it by a file.
func (r *rehearsal) copied(from, to string) {
	r.t.Helper()
	admin := kadm.NewClient(r.client)
	offsets, err := admin.FetchOffsets(r.t.Context(), from)
	if err != nil {
		r.t.Fatal(err)
	}
	var bare kadm.Offsets
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Topic == "orders.v1" {
			bare.AddOffset(o.Topic, o.Partition, o.At, -1)
		}
	})
	if answers, err := admin.CommitOffsets(r.t.Context(), to, bare); err != nil || answers.Error() != nil {
		r.t.Fatalf("commit: %v, %v", err, answers.Error())
	}
}

// ours runs the new program until so many values are handled by one of the two.
func (r *rehearsal) ours(until int) {
	r.t.Helper()
	app := actor.App{Name: "shipping", Brokers: shared{r.brokers}, Streams: actor.Streams{"orders": {Handler: func(_ context.Context, m *stepwell.Message) error {
		if m.Attempt == 1 && len(m.Value) > 1 && m.Value[0] == '3' {
			return errors.New("away")
		}
		r.handled(string(m.Value), "ours")
		return nil
	}}}}
	cfg, err := actor.Load(app, []string{"SERVER_ADDRESS=off", "STREAMS_ORDERS_TOPICS=orders.v1,rescued", "RETRY_DELAY=50ms"})
	if err != nil {
		r.t.Fatal(err)
	}
	a, err := actor.New(cfg, app)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	for limit := time.After(30 * time.Second); r.count() < until; {
		select {
		case <-limit:
			r.t.Fatalf("%d of %d values are handled", r.count(), until)
		case <-time.After(10 * time.Millisecond):
		}
	}
	stop()
	if err := <-ended; err != nil {
		r.t.Error(err)
	}
}

// shared are brokers that outlive an actor.
type shared struct{ *embedded.Brokers }

func (shared) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// produce writes values of three keys, all of which have values that end in 7: whichever partitions
// the first 30 of 50 records are read from, some of these are among them.
func (r *rehearsal) produce(from, to int) {
	r.t.Helper()
	for i := from; i < to; i++ {
		if err := r.brokers.Produce(r.t.Context(), &kgo.Record{Topic: "orders.v1", Key: fmt.Append(nil, i%3), Value: fmt.Append(nil, i)}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// It goes the steps of docs/MIGRATING.md, there and back: each record is handled, and, since every
// stop is a clean one, once.
func TestAMoveThereAndBackHandlesEachRecordOnce(t *testing.T) {
	onRabbitMQ(t, func(t *testing.T, node testbroker.Node) {
		w := newWorld(t, node)
		r := &rehearsal{world: w, t: t, brokers: w.brokers, done: map[string][]string{}}
		r.produce(0, 50)
		r.theirs(30)
		r.copied("theirs", "shipping.orders")
		dead := 30 - r.count()
		if moved, err := move(t.Context(), w.channel, w.queue, w.client, event); moved != dead || err != nil || dead == 0 {
			t.Fatalf("%d of %d moved, %v", moved, dead, err)
		}
		r.ours(50)
		r.produce(50, 60)
		r.copied("shipping.orders", "theirs")
		r.theirs(10)
		w.left(t, 1) // 57 is among their dead letters again
		for i := range 60 {
			if who := r.done[fmt.Sprint(i)]; len(who) != 1 && i != 57 {
				t.Errorf("%d was handled by %v, want one", i, who)
			}
		}
	})
}
