package main

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// poll handles what Kafka has.
func (h *handMade) poll(ctx context.Context) error {
	for {
		fetches := h.client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("poll: %w", err)
		}
		b := &batch{offsets: map[string]map[int32]kgo.EpochOffset{}, done: make(chan struct{})}
		b.pending.Store(1)
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			for _, r := range p.Records {
				if err := h.handle(try{r.Partition, r.Offset, r.Key, r.Value, 1}); err != nil {
					b.pending.Add(1)
					select {
					case h.failed <- failure{r, err, b}:
					case <-ctx.Done():
						return
					}
				}
			}
			if last := len(p.Records) - 1; last >= 0 {
				if b.offsets[p.Topic] == nil {
					b.offsets[p.Topic] = map[int32]kgo.EpochOffset{}
				}
				b.offsets[p.Topic][p.Partition] = kgo.EpochOffset{Epoch: p.Records[last].LeaderEpoch, Offset: p.Records[last].Offset + 1}
			}
		})
		b.settle()
		select {
		case h.batches <- b:
		case <-ctx.Done():
			return nil
		}
	}
}

// publish sends failures to the delay queue.
func (h *handMade) publish(ctx context.Context) error {
	for {
		var f failure
		select {
		case f = <-h.failed:
		case <-ctx.Done():
			return nil
		}
		confirm, err := h.ch.PublishWithDeferredConfirm("", h.queue, true, false, h.says(f.record, f.err))
		if err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		if h.alone {
			<-confirm.Done() // also when the channel ends
		}
		select {
		case h.flight <- flight{confirm, f.batch}:
		case <-ctx.Done():
			return nil
		}
	}
}

// confirms waits for the broker's answers, in the order of what was sent.
func (h *handMade) confirms(ctx context.Context, returns <-chan amqp.Return) error {
	for {
		select {
		case f := <-h.flight:
			if acked, err := f.confirm.WaitContext(ctx); ctx.Err() != nil {
				return nil
			} else if err != nil || !acked {
				return errors.Join(errors.New("a failure was not confirmed"), err)
			}
			select {
			case r := <-returns:
				return fmt.Errorf("returned: %s", r.ReplyText)
			default:
			}
			f.batch.settle()
		case <-ctx.Done():
			return nil
		}
	}
}

// commits marks what may be committed, batch by batch.
func (h *handMade) commits(ctx context.Context) error {
	for {
		select {
		case b := <-h.batches:
			select {
			case <-b.done:
				h.client.MarkCommitOffsets(b.offsets)
			case <-ctx.Done():
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}
