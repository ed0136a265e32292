package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

const sourceText = `A quorum queue of RabbitMQ that somebody else has filled is worked off by a handler that does nothing, and as the failures of the group before: a part fails at its first try, waits 100 ms, and succeeds
at its second. The hand-written program consumes with a prefetch of 1000 and acks of 100 or 10 ms, hands failures to a publisher with up to 1000 confirms in flight (mandatory, persistent), and acks in order what is done or confirmed. Its writes are gathered while one is under way.`

// sourceGroup asks what it costs to consume a queue of RabbitMQ.
func sourceGroup() group {
	f := feed{Partitions: 8, ValueBytes: 100}
	g := group{name: "source", title: "A queue of RabbitMQ as a source", text: sourceText, columns: append(usual(), brokerCPU(), brokerOfBase())}
	for _, c := range []struct {
		suffix, what string
		every        int64
	}{
		{"", "none fails", 0},
		{"-10", "10 % fail", 10},
	} {
		hand := "hand" + c.suffix
		g.cases = append(g.cases,
			benchCase{name: hand, what: "hand-written, " + c.what + ", 100 B", feed: f, share: 0.15, rabbitmq: true, run: sourceByHand(c.every)},
			benchCase{name: "stepwell" + c.suffix, what: "actor, " + c.what + ", 100 B", base: hand, feed: f, share: 0.15, rabbitmq: true, run: stepwellSource(c.every), bars: []bar{atLeast(0.9, ofBase())}})
	}
	g.cases = append(g.cases, benchCase{
		name: "stepwell-batch", what: "actor, a Batch of 500, none fails, 100 B", base: "hand", feed: f, share: 0.15, rabbitmq: true, run: batchedSource,
		bars: []bar{atLeast(0.9, ofBase())},
	})
	return g
}

// batchedSource is an actor whose stream consumes the queue in batches.
func batchedSource(ctx context.Context, j job, m *meter) error {
	return filled(ctx, j, func(queues) error {
		return runStream(ctx, j, actor.Stream{Batch: func(_ context.Context, b *stepwell.Batch) error {
			for _, msg := range b.Messages() {
				at, err := placeOf(msg.ID)
				if err != nil {
					return stepwell.DeadLetter(err)
				}
				m.once(at.partition, at.offset)
			}
			return nil
		}}, sourceQueue+foreign(j), fmt.Sprintf("BATCH_SIZE=%d", batchSize))
	})
}

// foreign is the queue that is worked off.
func foreign(j job) string { return "foreign-" + j.App }

// filled calls work with queues of a stream, and a queue that is full.
func filled(ctx context.Context, j job, work func(q queues) error) (err error) {
	q, err := openQueues(j, retryDelay)
	if err != nil {
		return err
	}
	if err := q.on(func(ch *amqp.Channel) error { return fillQueue(ctx, ch, j) }); err != nil {
		return fmt.Errorf("fill the queue: %w", err)
	}
	defer func() {
		err = errors.Join(err, q.delete(), q.on(func(ch *amqp.Channel) error {
			_, err := ch.QueueDelete(foreign(j), false, false, false)
			return err
		}))
	}()
	if err := quiet(ctx, j.RabbitPID); err != nil {
		return err
	}
	return work(q)
}

// fillQueue publishes as many messages as there are records, each with a position as its id.
func fillQueue(ctx context.Context, ch *amqp.Channel, j job) error {
	name := foreign(j)
	if _, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		return err
	}
	if err := ch.Confirm(false); err != nil {
		return err
	}
	confirms := make(chan *amqp.DeferredConfirmation, 1000)
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error {
		for c := range confirms {
			if acked, err := c.WaitContext(ctx); err != nil || !acked {
				return errors.Join(errors.New("not confirmed"), err)
			}
		}
		return nil
	})
	all.Go(func() error {
		defer close(confirms)
		body := []byte(strings.Repeat("x", j.Feed.ValueBytes))
		for i := range j.Records {
			c, err := ch.PublishWithDeferredConfirm("", name, false, false, amqp.Publishing{
				DeliveryMode: amqp.Persistent, Body: body, MessageId: position(int32(i%int64(j.Feed.Partitions)), i/int64(j.Feed.Partitions)),
			})
			if err != nil {
				return err
			}
			select {
			case confirms <- c:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	return all.Wait()
}

// stepwellSource is an actor whose stream consumes the queue.
func stepwellSource(every int64) func(context.Context, job, *meter) error {
	return func(ctx context.Context, j job, m *meter) error {
		return filled(ctx, j, func(queues) error {
			return runActor(ctx, j, func(_ context.Context, msg *stepwell.Message) error {
				at, err := placeOf(msg.ID)
				if err != nil {
					return stepwell.DeadLetter(err)
				}
				if every > 0 && fails(every, at.offset, msg.Attempt) {
					return errFirstTry
				}
				m.once(at.partition, at.offset)
				return nil
			}, sourceQueue+foreign(j), "RETRY_DELAY="+retryDelay.String())
		})
	}
}

func placeOf(id string) (t try, err error) {
	before, after, _ := strings.Cut(id, ":")
	partition, err := strconv.ParseInt(before, 10, 32)
	if err != nil {
		return t, fmt.Errorf("id %q: %w", id, err)
	}
	t.partition = int32(partition)
	t.offset, err = strconv.ParseInt(after, 10, 64)
	return t, err
}

// sourceByHand is the program that somebody writes who knows RabbitMQ well and needs it for one
// queue.
func sourceByHand(every int64) func(context.Context, job, *meter) error {
	return func(ctx context.Context, j job, m *meter) error {
		return filled(ctx, j, func(q queues) error {
			if err := q.declare(ctx); err != nil {
				return err
			}
			publishing, err := dialByHand(q.url)
			if err != nil {
				return err
			}
			defer publishing.Close()
			consuming, err := dialByHand(q.url)
			if err != nil {
				return err
			}
			defer consuming.Close()
			handle := func(t try) error {
				if every > 0 && fails(every, t.offset, t.attempt) {
					return errFirstTry
				}
				m.once(t.partition, t.offset)
				return nil
			}
			all, ctx := errgroup.WithContext(ctx)
			all.Go(func() error { return consumeByHand(ctx, consuming, publishing, foreign(j), q.delay, handle) })
			all.Go(func() error { return retryByHand(ctx, consuming, q.instant, handle) })
			return all.Wait()
		})
	}
}

// handed is a delivery that was handled: confirm is where it failed, else nil.
type handed struct {
	amqp.Delivery
	confirm *amqp.DeferredConfirmation
}

// consumeByHand handles what is in the queue, and publishes what fails to the delay queue.
func consumeByHand(ctx context.Context, consuming, publishing *amqp.Connection, queue, delay string, handle func(try) error) error {
	const window = 1000
	ch, err := consuming.Channel()
	if err == nil {
		err = ch.Qos(window, 0, false)
	}
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	out, err := publishing.Channel()
	if err == nil {
		err = out.Confirm(false)
	}
	if err != nil {
		return fmt.Errorf("open a channel with confirms: %w", err)
	}
	deliveries, err := ch.ConsumeWithContext(ctx, queue, "", false, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume %s: %w", queue, err)
	}
	done := make(chan handed, window)
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return ackByHand(ctx, done, out.NotifyReturn(make(chan amqp.Return, window+1))) })
	all.Go(func() error {
		for {
			select {
			case d, ok := <-deliveries:
				if !ok {
					if ctx.Err() != nil {
						return nil
					}
					return errors.New("the consumer was ended")
				}
				h := handed{Delivery: d}
				t, err := placeOf(d.MessageId)
				t.attempt = 1
				if err == nil && handle(t) != nil {
					h.confirm, err = out.PublishWithDeferredConfirm("", delay, true, false, amqp.Publishing{
						DeliveryMode: amqp.Persistent, MessageId: d.MessageId, Body: d.Body,
						Headers: amqp.Table{"try": int32(2), "error": errFirstTry.Error()},
					})
				}
				if err != nil {
					return err
				}
				select {
				case done <- h:
				case <-ctx.Done():
					return nil
				}
			case <-ctx.Done():
				return nil
			}
		}
	})
	return all.Wait()
}

// ackByHand acks in order what is done or confirmed.
func ackByHand(ctx context.Context, done <-chan handed, returns <-chan amqp.Return) error {
	tick := time.NewTicker(handAckWait)
	defer tick.Stop()
	var last amqp.Delivery
	unacked := 0
	for {
		late := false
		select {
		case h := <-done:
			if h.confirm != nil {
				if acked, err := h.confirm.WaitContext(ctx); ctx.Err() != nil {
					return nil
				} else if err != nil || !acked || len(returns) > 0 {
					return errors.Join(errors.New("a failure was not stored"), err)
				}
			}
			last = h.Delivery
			unacked++
		case <-tick.C:
			late = true
		case <-ctx.Done():
			return nil
		}
		if unacked >= handAcks || late && unacked > 0 {
			if err := last.Ack(true); err != nil {
				return fmt.Errorf("ack: %w", err)
			}
			unacked = 0
		}
	}
}
