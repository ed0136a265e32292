package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// queues are those of an app's stream: named and made as the actor's, so that programs without it
// can have the same.
type queues struct {
	url                     string
	delay, instant, deadSet string
	more                    []string // further delay queues, which the actor makes
	wait                    time.Duration
}

func openQueues(j job, wait time.Duration) (queues, error) {
	if j.RabbitMQ == "" {
		return queues{}, errors.New("no RabbitMQ")
	}
	prefix := j.App + "." + stream
	return queues{
		url: j.RabbitMQ, delay: fmt.Sprintf("%s.delay.%d", prefix, wait.Milliseconds()), instant: prefix + ".instant", deadSet: prefix + ".dead_set",
		wait: wait,
	}, nil
}

// declare makes the queues, targets first, and lets them come of age.
func (q queues) declare(ctx context.Context) error {
	quorum := func(more amqp.Table) amqp.Table {
		args := amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(1_000_000)}
		for name, value := range more {
			args[name] = value
		}
		return args
	}
	target := func(name string, wait time.Duration) amqp.Table {
		args := amqp.Table{
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name,
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		}
		if wait > 0 {
			args["x-message-ttl"] = wait.Milliseconds()
		}
		return quorum(args)
	}
	err := q.on(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(q.deadSet, true, false, false, false, quorum(amqp.Table{"x-single-active-consumer": true}))
		if err == nil {
			_, err = ch.QueueDeclare(q.instant, true, false, false, false, target(q.deadSet, 0))
		}
		if err == nil {
			_, err = ch.QueueDeclare(q.delay, true, false, false, false, target(q.instant, q.wait))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("declare queues: %w", err)
	}
	select {
	case <-time.After(2 * time.Second): // as the actor does
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// delete removes the queues.
func (q queues) delete() error {
	err := q.on(func(ch *amqp.Channel) error {
		all := append([]string{q.delay, q.instant, q.deadSet}, q.more...)
		for n := range delayQueues - 1 {
			all = append(all, fmt.Sprintf("%s.%d", q.delay, n+2)) // where there is one
		}
		for _, name := range all {
			if _, err := ch.QueueDelete(name, false, false, false); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("delete queues: %w", err)
	}
	return nil
}

// on opens a channel for f.
func (q queues) on(f func(*amqp.Channel) error) error {
	conn, err := dialByHand(q.url)
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	return f(ch)
}
