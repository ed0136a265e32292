package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	shovelPrefetch = 2000
	shovelWindow   = 1000
	shovelAcks     = 100
)

// deadByHand makes queues and fills the dead set with messages as the hand-written program sends
// them.
func deadByHand(ctx context.Context, j job) (q queues, err error) {
	if q, err = openQueues(j, defaultDelay); err != nil {
		return q, err
	}
	if err = q.declare(ctx); err != nil {
		return q, err
	}
	return q, q.on(func(ch *amqp.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return fmt.Errorf("ask for confirms: %w", err)
		}
		sent := make(chan *amqp.DeferredConfirmation, shovelWindow)
		defer close(sent)
		for i := range j.Records {
			confirm, err := ch.PublishWithDeferredConfirm("", q.deadSet, true, false, amqp.Publishing{
				DeliveryMode: amqp.Persistent, MessageId: position(int32(i%int64(j.Feed.Partitions)), i/int64(j.Feed.Partitions)),
				Headers: amqp.Table{"key": strconv.AppendInt(nil, i%int64(j.Feed.Keys), 10), "try": int32(1), "error": errFirstTry.Error()},
				Body:    make([]byte, j.Feed.ValueBytes),
			})
			if err != nil {
				return fmt.Errorf("fill the dead set: %w", err)
			}
			if len(sent) == cap(sent) {
				(<-sent).Wait()
			}
			sent <- confirm
		}
		for len(sent) > 0 {
			(<-sent).Wait()
		}
		return nil
	})
}

func deleteByHand(ctx context.Context, j job, m *meter) (err error) {
	q, err := deadByHand(ctx, j)
	defer func() { err = errors.Join(err, q.delete()) }()
	if err == nil {
		err = q.await(ctx, q.deadSet, int(j.Records))
	}
	if err != nil {
		return err
	}
	m.begin()
	err = q.on(func(ch *amqp.Channel) error {
		return drain(ctx, ch, q.deadSet, j.Records, func(d amqp.Delivery, last bool) error {
			if d.DeliveryTag%shovelAcks == 0 || last {
				return d.Ack(true)
			}
			return nil
		})
	})
	m.finish()
	return err
}

func replayByHand(ctx context.Context, j job, m *meter) (err error) {
	q, err := deadByHand(ctx, j)
	defer func() { err = errors.Join(err, q.delete()) }()
	if err == nil {
		err = q.await(ctx, q.deadSet, int(j.Records))
	}
	if err != nil {
		return err
	}
	conn, err := dialByHand(q.url)
	if err != nil {
		return err
	}
	defer conn.Close()
	handling, stop := context.WithCancel(ctx)
	var handler sync.WaitGroup
	var handlerErr error
	handler.Go(func() { handlerErr = retryByHand(handling, conn, q.instant, func(try) error { return nil }) })
	m.begin()
	err = q.on(func(in *amqp.Channel) error {
		return q.on(func(out *amqp.Channel) error { return shovel(ctx, in, out, q, j.Records) })
	})
	m.end()
	if err == nil {
		err = q.await(ctx, q.instant, 0)
	}
	stop()
	handler.Wait()
	m.finish()
	return errors.Join(err, handlerErr)
}

type moving struct {
	confirm *amqp.DeferredConfirmation
	d       amqp.Delivery
	last    bool
}

// shovel moves so many messages from the dead set to the instant queue.
func shovel(ctx context.Context, in, out *amqp.Channel, q queues, count int64) error {
	if err := out.Confirm(false); err != nil {
		return fmt.Errorf("ask for confirms: %w", err)
	}
	sent := make(chan moving, shovelWindow)
	acked := make(chan error, 1)
	go func() { acked <- ackConfirmed(sent) }()
	err := drain(ctx, in, q.deadSet, count, func(d amqp.Delivery, last bool) error {
		confirm, err := out.PublishWithDeferredConfirm("", q.instant, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: d.MessageId, Body: d.Body, Headers: d.Headers})
		if err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		sent <- moving{confirm, d, last}
		return nil
	})
	close(sent)
	return errors.Join(err, <-acked)
}

func ackConfirmed(sent <-chan moving) (err error) {
	for s := range sent {
		if !s.confirm.Wait() {
			err = errors.New("a message was not confirmed")
		}
		if err == nil && (s.last || s.d.DeliveryTag%shovelAcks == 0) {
			err = s.d.Ack(true)
		}
	}
	return err
}

// drain hands out so many messages of a queue.
func drain(ctx context.Context, ch *amqp.Channel, queue string, count int64, f func(d amqp.Delivery, last bool) error) error {
	if err := ch.Qos(shovelPrefetch, 0, false); err != nil {
		return fmt.Errorf("set the prefetch: %w", err)
	}
	deliveries, err := ch.ConsumeWithContext(ctx, queue, "", false, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume %s: %w", queue, err)
	}
	for n := int64(1); n <= count; n++ {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return errors.New("the consumer was ended")
			}
			if err := f(d, n == count); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
