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
func harmless(h *held) bool {
	return envelope.FailureOf(h.Message).Reason != stepwell.ReasonCrashLoop
}

// fewRenewed is how many messages a renewal holds at a time.
const fewRenewed = 16

// renewAll publishes the oldest messages anew, to the same queue: they were handed out so often
// that the queue might drop some of them one day. It renews as many as a window may hold, so that a
// queue that fits into one window keeps its order. It holds few of them at a time: in a whole
// window large messages would fill the bytes before all were renewed, and the others would come
// back to the queue once more, at each renewal. Where the broker does not take some of them anew,
// the Set refuses all walks from then on.
func (s *Set) renewAll(ctx context.Context, p part) error {
	few := fewRenewed
	for left := queue.WindowSize; left > 0; few = 1 { // one always fits
		st, err := s.step(ctx, p, renewal(s.publisher, p, left, few), left)
		switch {
		case err != nil:
			return err
		case st.tooLarge > 0:
			s.mu.Lock()
			defer s.mu.Unlock()
			s.refused = true
			return refusal(s.cfg)
		case st.done == 0 || few == 1:
			return nil
		}
		// Large messages used up the bytes before few were held. What is behind them is renewed one
		// by one.
		left = min(left, st.depth) - st.done
	}
	return nil
}

func renewal(to queue.Publisher, p part, most, few int) errand {
	return errand{most: most, few: few, act: func(ctx context.Context, h *held, done func(error)) {
		m := h.Message
		m.Headers = maps.Clone(m.Headers)
		m.Headers[renewed] = time.Now().UTC().Format(time.RFC3339Nano)
		to.Publish(ctx, p.queue, m, done)
	}}
}

// renewed is a header that tells a message from what it takes the place of: a window that ends
// looks whether what was acked is gone, and would take a message that is the same in all for one
// whose ack was lost.
const renewed = "x-stepwell-renewed"

// replayed is the message with a full new budget, and the mark of the operation that gives it: with
// it no operation replays a message once more that it has replayed, and who handles it tells what
// becomes of it. A replay by count takes a mark off: what follows is not the operation's.
func replayed(h *held, mark envelope.Mark) queue.Message {
	m := unmoved(h.Message) // as it is, where nobody can read it: whoever reads it next may understand it
	if e := h.envelope(); e != nil {
		e.Replay()
		m = e.Encode()
	}
	return envelope.Marked(m, mark)
}
