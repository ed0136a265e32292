package rabbit

import (
	"fmt"

	"github.com/stepwell/stepwell/internal/queue"
)

const (
	// returnLimit is how many returns of a message our queues bear. "No limit" has no value that
	// all releases understand: -1 lets 3.10 drop at the first return.
	returnLimit = 1_000_000
	// defaultReturnLimit is RabbitMQ 4's for quorum queues that say nothing.
	defaultReturnLimit = 20
	// segmentSize is by how many bytes a log is cut off at a time.
	segmentSize = 16 << 20
)

// Arguments are layout 1 of the topology and never change: a queue that exists with others is
// refused. Another layout would need other names.
func Arguments(spec queue.Spec) (map[string]any, error) {
	if spec.Kind == queue.Log {
		// A stream is cut off by whole segments: one beyond the size, the rest is there.
		return map[string]any{
			"x-queue-type": "stream", "x-max-length-bytes": int64(queue.LogSize + segmentSize), "x-stream-max-segment-size-bytes": int64(segmentSize),
		}, nil
	}
	args := map[string]any{"x-queue-type": "quorum", "x-delivery-limit": int64(returnLimit)}
	switch spec.Kind {
	case queue.DeadSet:
		args["x-single-active-consumer"] = true
		if spec.TTL > 0 {
			args["x-message-ttl"] = spec.TTL.Milliseconds()
		}
		return args, nil
	case queue.Source:
		return args, nil
	case queue.Instant:
	case queue.Delay:
		args["x-message-ttl"] = spec.TTL.Milliseconds()
	default:
		return nil, fmt.Errorf("queue %s: unknown kind %d", spec.Name, spec.Kind)
	}
	if spec.Target == "" {
		return nil, fmt.Errorf("queue %s: no target", spec.Name)
	}
	args["x-dead-letter-exchange"] = ""
	args["x-dead-letter-routing-key"] = spec.Target
	args["x-dead-letter-strategy"] = "at-least-once" // takes effect with reject-publish only
	// The default, drop-head, would make RabbitMQ fall back to at-most-once without a word. It also
	// turns a full queue into a refusal, which the lane holds back, where messages would be
	// dropped.
	args["x-overflow"] = "reject-publish"
	return args, nil
}

// ReturnLimit is how many returns of a message the queue bears for certain; see queue.Broker. Of a
// queue whose arguments were not compared it is what RabbitMQ gives to those that say nothing.
func (b *Broker) ReturnLimit(name string) int64 {
	if b.topology.isCompared(name) {
		return returnLimit
	}
	return defaultReturnLimit
}
