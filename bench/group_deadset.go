package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

const deadsetText = `About a hundred thousand dead messages of 100 B, each put there by a handler that failed (RETRY_COUNT=0); then all are replayed or deleted for good by one request over HTTP, while the actor
runs and handles what comes back; records/s is from the request to its answer. A peek reads the 100 oldest of them, once a second. The hand-written programs know nothing of other walks:
they consume with a prefetch of 2000, publish with up to 1000 confirms in flight, and ack many at once.`

func deadsetGroup() group {
	f := feed{Partitions: 8, ValueBytes: 100, Keys: 1000}
	large := feed{Partitions: 8, ValueBytes: 1024, Keys: 1000}
	const share = 0.0245 // 98,304 by default: one request takes 100,000 at most
	peek := noted("Peek of 100, ms", "peek", "%.1f")
	return group{
		name: "deadset", title: "Dead sets", text: deadsetText,
		columns: []column{perSecond(), ofBase(), peek, cpuSeconds(), cpuOfBase(), brokerOfBase(), peakMemory()},
		cases: []benchCase{
			{name: "hand-replay", what: "hand-written: publish, confirm, ack; the records are handled beside it", feed: f, share: share, rabbitmq: true, run: replayByHand},
			{name: "stepwell-replay", what: "POST /v1/dead_set/replay of all", base: "hand-replay", feed: f, share: share, rabbitmq: true, run: stepwellReplay,
				bars: []bar{atLeast(10_000, perSecond())}},
			{name: "hand-replay-1k", what: "the same, 1 KiB", feed: large, share: share, rabbitmq: true, run: replayByHand},
			{name: "stepwell-replay-1k", what: "the same, 1 KiB", base: "hand-replay-1k", feed: large, share: share, rabbitmq: true, run: stepwellReplay,
				bars: []bar{atLeast(0.9, ofBase()), atMost(1.05, brokerOfBase())}},
			{name: "hand-delete", what: "hand-written: consume and ack", feed: f, share: share, rabbitmq: true, run: deleteByHand},
			{name: "stepwell-delete", what: "peeks, then DELETE /v1/dead_set?forever=true of all", base: "hand-delete", feed: f, share: share, rabbitmq: true, run: stepwellDelete,
				bars: []bar{atLeast(20_000, perSecond()), atMost(50, peek)}},
		},
	}
}

// buried runs an actor whose records all die, and calls f when they are in the dead set. What is
// replayed succeeds.
func buried(ctx context.Context, j job, m *meter, f func(context.Context, api, queues) error) (err error) {
	q, err := openQueues(j, defaultDelay)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.delete()) }()
	var replayed atomic.Int64
	a, tune, err := newActor(j, actor.Stream{Handler: func(_ context.Context, msg *stepwell.Message) error {
		if msg.Replays == 0 {
			return errFirstTry
		}
		replayed.Add(1)
		return nil
	}}, "RETRY_COUNT=0", "SERVER_ADDRESS=127.0.0.1:0")
	if err != nil {
		return err
	}
	defer tune()()
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- a.Run(running) }()
	err = q.await(ctx, q.deadSet, int(j.Records))
	if err == nil {
		err = f(ctx, api{"http://" + a.Address()}, q)
	}
	stop()
	if err = errors.Join(err, <-ended); err == nil {
		m.note("handled", float64(replayed.Load()))
		m.finish()
	}
	return err
}

// await returns when the queue has so many messages.
func (q queues) await(ctx context.Context, name string, want int) error {
	return q.on(func(ch *amqp.Channel) error {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return fmt.Errorf("wait for the messages of %s: %w", name, context.Cause(ctx))
			case <-tick.C:
			}
			state, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
			closed := &amqp.Error{}
			if errors.As(err, &closed) && closed.Code == amqp.NotFound {
				return q.await(ctx, name, want) // the channel is gone; the queue is not there yet
			}
			if err != nil {
				return fmt.Errorf("look at %s: %w", name, err)
			}
			if want > 0 && state.Messages > want {
				return fmt.Errorf("%s has %d messages, not %d: some came twice", name, state.Messages, want)
			}
			if state.Messages == want {
				return nil
			}
		}
	})
}

func stepwellReplay(ctx context.Context, j job, m *meter) error {
	return buried(ctx, j, m, func(ctx context.Context, a api, q queues) error {
		m.begin()
		err := a.move(ctx, "POST", "/v1/dead_set/replay", j.Records)
		m.end()
		if err != nil {
			return err
		}
		return q.await(ctx, q.instant, 0)
	})
}

func stepwellDelete(ctx context.Context, j job, m *meter) error {
	return buried(ctx, j, m, func(ctx context.Context, a api, q queues) error {
		const peeks = 5
		var times []float64
		for range peeks {
			select {
			case <-time.After(1100 * time.Millisecond): // peeks within a second share a walk
			case <-ctx.Done():
				return ctx.Err()
			}
			began := time.Now()
			if err := a.peek(ctx, 100); err != nil {
				return err
			}
			times = append(times, float64(time.Since(began))/float64(time.Millisecond))
		}
		slices.Sort(times)
		m.note("peek", median(times))
		if err := q.await(ctx, q.deadSet, int(j.Records)); err != nil { // the last peek gives back what it held
			return err
		}
		m.begin()
		err := a.move(ctx, "DELETE", "/v1/dead_set?forever=true", j.Records) // else it would measure the trash
		m.end()
		return err
	})
}
