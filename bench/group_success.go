package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/streams"
)

const successText = `The success path: a handler that counts. *bare* is a poll loop of franz-go that calls a function for each record and commits by itself, with the client's defaults;
*tuned* is the same loop with what the actor has: the fetches that its reader comes to (10,000 records, of one partition at most half of that), its pool of records, and its garbage
collection, but with one client, where the actor has two that fetch side by side (FETCHERS). The base of an actor is *tuned*, its second base *bare*; that of all others is *bare*. Eight partitions; the records of the real cluster have 1000 keys, those of kfake none.`

func successGroup() group {
	g := group{name: "success", title: "What a handler call costs", text: successText, columns: slices.Insert(usual(), 2, ofSecond())}
	for _, bytes := range []int{100, 1024} {
		share := 100 / float64(bytes) * 1.5
		g.successes("kfake", feed{Synthetic: true, Partitions: 8, ValueBytes: bytes}, 2.5*min(share, 1))
		g.successes("kafka", feed{Partitions: 8, ValueBytes: bytes, Keys: 1000}, 2.5*min(share, 0.5))
	}
	return g
}

// successes adds the cases of one topic.
func (g *group) successes(broker string, f feed, share float64) {
	name := func(s string) string {
		if s == "" {
			return ""
		}
		return fmt.Sprintf("%s-%d-%s", broker, f.ValueBytes, s)
	}
	add := func(c benchCase) {
		c.name, c.base, c.also = name(c.name), name(c.base), name(c.also)
		c.what, c.feed = fmt.Sprintf("%s; %s, %d B", c.what, broker, f.ValueBytes), f
		c.share *= share
		g.cases = append(g.cases, c)
	}
	addOurs := func(c benchCase) {
		c.base, c.also, c.share = "tuned", "bare", 1
		add(c)
	}
	add(benchCase{name: "bare", what: "poll loop, defaults", share: 1, run: bare})
	add(benchCase{name: "tuned", what: "poll loop, the actor's fetches and collection", base: "bare", share: 1, run: bareTuned})
	addOurs(benchCase{name: "stepwell", what: "actor, defaults, RETRY_ENABLED=false", run: stepwellSucceeds((*meter).once, "RETRY_ENABLED=false")})
	addOurs(benchCase{name: "partition", what: "actor, ORDER=partition", setting: "ORDER=partition",
		bars: []bar{atLeast(0.95, ofBase()), atLeast(1.2, ofSecond()), atMost(1.15, cpuOfBase())},
		run:  stepwellSucceeds((*meter).inOrder, "RETRY_ENABLED=false", "ORDER=partition")})
	addOurs(benchCase{name: "key", what: "actor, ORDER=key, CONCURRENCY=100", setting: "ORDER=key",
		bars: []bar{atLeast(0.85, ofBase()), atMost(1.6, cpuOfBase())},
		run:  stepwellSucceeds(byKey, "RETRY_ENABLED=false", "ORDER=key", "CONCURRENCY=100")})
	if f.ValueBytes > 100 {
		return
	}
	if f.Synthetic {
		addOurs(benchCase{name: "retries", what: "actor with its retry queues on RabbitMQ", rabbitmq: true, run: stepwellSucceeds((*meter).once)})
		addOurs(benchCase{name: "reader", what: "package streams alone, under a handle that counts", run: readerAlone})
	}
	add(benchCase{name: "kafka-go", what: "segmentio/kafka-go reader of a group, commits each second", base: "bare", share: 0.2, run: kafkaGo})
	add(benchCase{name: "watermill", what: "watermill-kafka subscriber of a group", base: "bare", share: 0.03, run: watermillLoop})
}

// byKey counts a record and looks at the order of its key.
func byKey(m *meter, partition int32, offset int64) {
	m.ordered(partition, offset)
	m.once(partition, offset)
}

// stepwellSucceeds is an actor whose handler counts.
func stepwellSucceeds(count func(*meter, int32, int64), settings ...string) func(context.Context, job, *meter) error {
	return func(ctx context.Context, j job, m *meter) error {
		if j.RabbitMQ != "" {
			q, err := openQueues(j, defaultDelay)
			if err != nil {
				return err
			}
			defer func() { _ = q.delete() }() // there are none where retries are off
		}
		return runActor(ctx, j, func(_ context.Context, msg *stepwell.Message) error {
			count(m, msg.Origin.Partition, msg.Origin.Offset)
			return nil
		}, settings...)
	}
}

// readerAlone is the actor's reader without the actor: what lies between it and stepwell's case is
// the price of a handler call.
func readerAlone(ctx context.Context, j job, m *meter) error {
	r, err := streams.New(streams.Config{
		Stream: stream, Topics: []string{j.Topic},
		Kafka: streams.Kafka{Options: []kgo.Opt{kgo.SeedBrokers(j.Kafka)}}, Group: streams.Group{ID: j.ConsumerGroup},
	}, func(_ context.Context, msg *stepwell.Message, _ task.Ticket) task.Outcome {
		m.once(msg.Origin.Partition, msg.Origin.Offset)
		return task.Settled
	})
	if err != nil {
		return fmt.Errorf("new reader: %w", err)
	}
	return r.Run(ctx, context.WithoutCancel(ctx))
}
