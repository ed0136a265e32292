package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	handPrefetch = 300
	handAcks     = 100 // acked at once, or after handAckWait
	handAckWait  = 10 * time.Millisecond
)

// retryByHand is the second half of the hand-written program: what comes back from the delay queue
// is tried again.
func retryByHand(ctx context.Context, conn *amqp.Connection, queue string, handle func(try) error) error {
	ch, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	if err := ch.Qos(handPrefetch, 0, false); err != nil {
		return fmt.Errorf("set the prefetch: %w", err)
	}
	deliveries, err := ch.ConsumeWithContext(ctx, queue, "", false, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume %s: %w", queue, err)
	}
	tick := time.NewTicker(handAckWait)
	defer tick.Stop()
	var last amqp.Delivery
	unacked := 0
	ack := func() error {
		if unacked == 0 {
			return nil
		}
		unacked = 0
		return last.Ack(true)
	}
	for {
		select {
		case <-ctx.Done():
			return ack()
		case <-tick.C:
			err = ack()
		case d, ok := <-deliveries:
			if !ok {
				if ctx.Err() != nil { // the client ends the consumer then, and select may see that first
					return ack()
				}
				return errors.New("the consumer was ended")
			}
			if err := handle(tryOf(d)); err != nil {
				return fmt.Errorf("a second try failed, which is not part of this: %w", err)
			}
			last = d
			if unacked++; unacked >= handAcks {
				err = ack()
			}
		}
		if err != nil {
			return fmt.Errorf("ack: %w", err)
		}
	}
}
