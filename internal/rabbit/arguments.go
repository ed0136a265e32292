package rabbit

import (
	"fmt"
	amqp "github.com/rabbitmq/amqp091-go"

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

// refusal is what to do about a declaration that failed; nil: one without the right to it, where
// the look at the queue was enough.
func (t *topology) refusal(name string, absent bool, err error) error {
	switch {
	// As where the vhost has a limit of queues: nothing is to be deleted then.
	case code(err) == amqp.PreconditionFailed && absent:
		return fmt.Errorf("RabbitMQ refuses to create queue %s: %w", name, err)
	case code(err) == amqp.PreconditionFailed:
		return fmt.Errorf("queue %s exists with other arguments: restore the policy that it had, or, "+
			"once it is empty, delete it, or give the app another name: %w", name, err)
	case code(err) == amqp.AccessRefused && t.b.config.DeclareOnlyCheck:
		return nil
	case code(err) == amqp.AccessRefused:
		return fmt.Errorf("the RabbitMQ user may not declare queue %s: grant it, or create the queues and set "+
			"%s=check: %w", name, t.b.config.Setting("rabbitmq.declare"), err)
	}
	return err
}

// compare notes whether the queue is known to have our arguments.
func (t *topology) compare(name string, equal bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.compared[name] = equal
}

// compareDeadSet compares the arguments of a queue that was not declared here, as that of a stream
// whose retries are off. A missing one it does not make, but one that is deleted in between; and
// where it may not ask, nothing is known.
func (t *topology) compareDeadSet(s *session, spec queue.Spec) {
	name := spec.Name
	t.mu.Lock()
	_, asked := t.compared[name]
	t.mu.Unlock()
	if asked {
		return
	}
	if _, err := s.inspect(name); err != nil {
		return
	}
	args, err := Arguments(spec)
	if err == nil {
		err = s.declare(name, args)
	}
	if err == nil || code(err) > 0 {
		t.compare(name, err == nil)
	}
}

func (t *topology) isCompared(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.compared[name]
}

// uncompared names the queues whose arguments nobody could compare, or that have others.
func (t *topology) uncompared(specs []queue.Spec) (names []string) {
	for _, spec := range specs {
		if !t.isCompared(spec.Name) {
			names = append(names, spec.Name)
		}
	}
	return names
}
