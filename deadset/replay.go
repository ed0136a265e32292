package deadset

import (
	"context"
	"errors"
	"time"

	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

// republish publishes all to the instant queue, removes each that is confirmed, and says how many. It does not return before the fate of all is known.
func (s *Set) republish(ctx context.Context, all []queue.Delivery) (int, error) {
	return s.move(ctx, s.cfg.Instant, all, replayed)
}

// renew publishes messages anew that were handed out so often that the queue might drop them one day.
func (s *Set) renew(ctx context.Context, seen []queue.Delivery) error {
	old := 0
	for _, d := range seen {
		if d.Returns > worn {
			old++
		}
	}
	if old == 0 {
		return nil
	}
	lease, err := s.cfg.Broker.Lease(ctx, s.cfg.Queue)
	if err != nil {
		return nil // another walk is faster: the next peek sees to it
	}
	defer lease.Release()
	_, err = s.step(ctx, lease, len(seen), func(ctx context.Context, all []queue.Delivery) (int, error) {
		var worse []queue.Delivery
		for _, d := range all {
			if d.Returns > worn {
				worse = append(worse, d)
			}
		}
		return s.move(ctx, s.cfg.Queue, worse, func(d queue.Delivery) queue.Message { return d.Message })
	})
	return err
}

// move publishes each message to the queue, pipelined, and acks it once that is confirmed.
func (s *Set) move(ctx context.Context, to string, all []queue.Delivery, as func(queue.Delivery) queue.Message) (int, error) {
	type outcome struct {
		d   queue.Delivery
		err error
	}
	outcomes := make(chan outcome, len(all))
	for _, d := range all {
		s.publisher.Publish(ctx, to, as(d), func(err error) { outcomes <- outcome{d, err} })
	}
	moved := 0
	var first error
	for range all {
		o := <-outcomes // comes for each: Publish calls back when ctx ends, too
		if o.err != nil {
			first = errors.Join(first, onlyFirst(first, o.err))
			continue
		}
		o.d.Ack()
		moved++
	}
	return moved, first
}

func onlyFirst(first, err error) error {
	if first != nil {
		return nil
	}
	return err
}

// replayed is the message with a full new budget.
func replayed(d queue.Delivery) queue.Message {
	e, err := envelope.Decode(d.Message)
	if err != nil {
		return d.Message // as it is: whoever reads it next may understand it
	}
	e.Message.Attempt = 1
	e.Message.Replays++
	e.Failure = envelope.Failure{}
	e.DiedAt = time.Time{}
	return e.Encode()
}
