package rabbit

import (
	"context"
	"fmt"

	"github.com/stepwell/stepwell/internal/queue"
)

// Prove makes the queues that are missing and has the broker compare the arguments of each; see
// queue.Broker. A look proves nothing of a queue, and a page without our delivery limit would drop
// its messages after some looks at them. What it makes is not declared again by anybody: after a
// reconnect there would else be queues that somebody has deleted because they were empty.
func (b *Broker) Prove(ctx context.Context, specs []queue.Spec) (proven int, err error) {
	created := false
	for proven < len(specs) && err == nil {
		var made bool
		if made, err = b.prove(ctx, specs[proven]); err == nil {
			proven++
		}
		created = created || made
	}
	// All that were made rest at the same time.
	if created && !sleep(ctx, settleTime) {
		return 0, fmt.Errorf("wait after creating queues: %w", ctx.Err())
	}
	return proven, err
}

// prove makes one queue, unless it is there, and says whether it did. Nil: the broker compared its
// arguments.
func (b *Broker) prove(ctx context.Context, spec queue.Spec) (made bool, err error) {
	b.topology.doubt(spec)
	for {
		s, err := b.session(ctx)
		if err != nil {
			return false, fmt.Errorf("declare queue %s: %w", spec.Name, err)
		}
		created, err := b.topology.ensure(ctx, s, []queue.Spec{spec})
		if err != nil && (!s.alive() || isCut(err)) && sleep(ctx, cutPause) {
			continue // a session that breaks says nothing about the queue
		}
		if err == nil && !b.topology.isCompared(spec.Name) {
			err = fmt.Errorf("the arguments of queue %s could not be compared, since the RabbitMQ user has no right to configure it", spec.Name)
		}
		if err == nil {
			b.topology.prove(spec.Name)
		}
		return len(created) > 0, err
	}
}
