package deadset

import (
	"context"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

// harmless says that a message did not kill the process.
func harmless(d queue.Delivery) bool {
	return envelope.FailureOf(d.Message).Reason != stepwell.ReasonCrashLoop
}

// renewal publishes those of a window anew, to the same queue, that were handed out so often that the queue might drop them one day.
func (s *Set) renewal() errand {
	return errand{
		most:  queue.WindowSize,
		which: func(d queue.Delivery) bool { return d.Returns > worn },
		act: func(ctx context.Context, d queue.Delivery, done func(error)) {
			s.publisher.Publish(ctx, s.cfg.Queue, d.Message, done)
		},
	}
}

// replayed is the message with a full new budget.
func replayed(d queue.Delivery) queue.Message {
	e, err := envelope.Decode(d.Message)
	if err != nil {
		return d.Message // as it is: whoever reads it next may understand it
	}
	e.Replay()
	return e.Encode()
}
