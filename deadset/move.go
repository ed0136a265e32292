package deadset

import (
	"context"
	"maps"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

// harmless says that a message did not kill the process.
func harmless(d queue.Delivery) bool {
	return envelope.FailureOf(d.Message).Reason != stepwell.ReasonCrashLoop
}

// renewal publishes the oldest anew, to the same queue: its window was handed out so often that the queue might drop some of it one day. All of a
// window are, so that those of a queue that fits into one keep their order.
func (s *Set) renewal() errand {
	return errand{most: queue.WindowSize, act: func(ctx context.Context, d queue.Delivery, done func(error)) {
		m := d.Message
		m.Headers = maps.Clone(m.Headers)
		m.Headers[renewed] = time.Now().UTC().Format(time.RFC3339Nano)
		s.publisher.Publish(ctx, s.cfg.Queue, m, done)
	}}
}

// renewed is a header that tells a message from what it takes the place of: a window that ends looks whether what was acked is gone, and would
// take a message that is the same in all for one whose ack was lost.
const renewed = "x-stepwell-renewed"

// replayed is the message with a full new budget.
func replayed(d queue.Delivery) queue.Message {
	e, err := envelope.Decode(d.Message)
	if err != nil {
		return d.Message // as it is: whoever reads it next may understand it
	}
	e.Replay()
	return e.Encode()
}
