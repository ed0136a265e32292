package deadset

import (
	"context"
	"fmt"
	"time"

	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/queue"
)

const (
	// stallTime is how long no confirm may come before a walk gives up: a broker under an alarm may not answer for hours.
	stallTime = 10 * time.Second
	// graceTime is how long the confirms of what is under way may take when a walk was given up.
	graceTime = 2 * time.Second
)

// outcome is what became of a publish.
type outcome struct {
	d   queue.Delivery
	err error
}

// move publishes each message to the queue, pipelined, and acks it once that is confirmed. It says how many.
func (s *Set) move(ctx context.Context, to string, all []queue.Delivery, as func(queue.Delivery) queue.Message) (int, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	outcomes := make(chan outcome, len(all)) // takes all: whoever comes after a walk was given up finds room
	for _, d := range all {
		s.publisher.Publish(ctx, to, as(d), func(err error) { outcomes <- outcome{d, err} })
	}
	failpoint.Hit("walk published")
	return settle(ctx, stop, outcomes, len(all))
}

// settle acks what is confirmed until the fate of all is known. Where it is not in time, messages may rest in both places.
func settle(ctx context.Context, stop context.CancelCauseFunc, outcomes <-chan outcome, count int) (moved int, err error) {
	patience := time.NewTimer(stallTime)
	defer patience.Stop()
	ended := ctx.Done()
	for known := 0; known < count; {
		select {
		case o := <-outcomes:
			known++
			switch {
			case o.err == nil:
				failpoint.Hit("walk confirmed")
				o.d.Ack()
				moved++
			case err == nil:
				err = o.err
			}
			if ended != nil {
				patience.Reset(stallTime)
			}
		case <-ended:
			ended, err = nil, context.Cause(ctx)
			patience.Reset(graceTime)
		case <-patience.C:
			if ended == nil {
				return moved, err
			}
			stop(fmt.Errorf("%w: no confirm for %s", queue.ErrUnavailable, stallTime))
		}
	}
	return moved, err
}

// renew publishes those messages anew, to the same queue, that were handed out so often that the queue might drop them one day.
func (s *Set) renew(ctx context.Context, all []queue.Delivery) (int, error) {
	var old []queue.Delivery
	for _, d := range all {
		if d.Returns > worn {
			old = append(old, d)
		}
	}
	return s.move(ctx, s.cfg.Queue, old, func(d queue.Delivery) queue.Message { return d.Message })
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
