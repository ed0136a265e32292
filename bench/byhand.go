package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// byHand is the program that somebody writes who knows both brokers well and needs it for one
// topic: no dead connection is ever opened again, and nothing tells what goes on inside. Three
// short headers, many messages in one write. Up to window failures wait for their confirms.
func byHand(every int64, window int) func(context.Context, job, *meter) error {
	return byHandSaying(every, window, inShort)
}

// byHandSaying is byHand with what its messages say beside the record's value.
func byHandSaying(every int64, window int, says saying) func(context.Context, job, *meter) error {
	return func(ctx context.Context, j job, m *meter) (err error) {
		q, err := openQueues(j, retryDelay)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, q.delete()) }()
		if err := q.declare(ctx); err != nil {
			return err
		}
		return runByHand(ctx, j, q, window, says, func(t try) error {
			if t.attempt == 1 {
				m.ordered(t.partition, t.offset)
			}
			if fails(every, t.offset, t.attempt) {
				return errFirstTry
			}
			m.once(t.partition, t.offset)
			return nil
		})
	}
}

// try is what the handler of the hand-written program gets.
type try struct {
	partition int32
	offset    int64
	key       []byte
	value     []byte
	attempt   int
}

// handMade is the first half of the program: what reads Kafka and publishes failures.
type handMade struct {
	client  *kgo.Client
	ch      *amqp.Channel
	queue   string
	handle  func(try) error
	failed  chan failure
	flight  chan flight
	batches chan *batch
	alone   bool // one confirm is waited for before the next message is sent
	says    saying
}

// batch is what one poll brought. It may be committed when nothing in it is pending.
type batch struct {
	offsets map[string]map[int32]kgo.EpochOffset
	pending atomic.Int32 // one more than failures without confirm, until all have been handled
	done    chan struct{}
}

func (b *batch) settle() {
	if b.pending.Add(-1) == 0 {
		close(b.done)
	}
}

type failure struct {
	record *kgo.Record
	err    error
	batch  *batch
}

type flight struct {
	confirm *amqp.DeferredConfirmation
	batch   *batch
}

func runByHand(ctx context.Context, j job, q queues, window int, says saying, handle func(try) error) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(j.Kafka), kgo.ConsumerGroup(j.ConsumerGroup), kgo.ConsumeTopics(j.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AutoCommitMarks(), kgo.AutoCommitInterval(time.Second))
	if err != nil {
		return fmt.Errorf("kafka client: %w", err)
	}
	defer client.Close()
	publishing, err := dialByHand(q.url)
	if err != nil {
		return err
	}
	defer publishing.Close()
	ch, err := publishing.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		return fmt.Errorf("open a channel with confirms: %w", err)
	}
	h := &handMade{
		client: client, ch: ch, queue: q.delay, handle: handle,
		failed: make(chan failure, 1000), batches: make(chan *batch, 1000), alone: window == 1, says: says,
		flight: make(chan flight, max(window-2, 0)), // one more is held at each end
	}
	consuming, err := dialByHand(q.url)
	if err != nil {
		return err
	}
	defer consuming.Close()
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return h.poll(ctx) })
	all.Go(func() error { return h.publish(ctx) })
	all.Go(func() error { return h.confirms(ctx, ch.NotifyReturn(make(chan amqp.Return, window+1))) })
	all.Go(func() error { return h.commits(ctx) })
	all.Go(func() error { return retryByHand(ctx, consuming, q.instant, handle) })
	return all.Wait()
}
