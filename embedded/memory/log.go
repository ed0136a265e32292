package memory

import (
	"context"
	"fmt"

	"github.com/stepwell/stepwell/internal/queue"
)

// Follow hands out what a log has, and what comes later; see queue.Broker. Nothing is cut off.
func (b *Broker) Follow(ctx context.Context, log string, from int64, handle func(queue.Entry)) error {
	first := (*list)(nil)
	for next := int(from); ; {
		var entries []*item
		err := b.await(ctx, func() (bool, error) {
			l := b.queues[log]
			switch {
			case b.down && first != nil:
				return false, fmt.Errorf("%w: cut off", queue.ErrUnavailable)
			case b.down:
				return false, nil
			case l == nil || first != nil && first != l:
				return false, missing(log)
			}
			first = l
			entries = l.ready[min(next, len(l.ready)):]
			return len(entries) > 0, nil
		})
		if err != nil {
			return fmt.Errorf("follow %s: %w", log, err)
		}
		for _, e := range entries {
			handle(queue.Entry{Message: clone(e.m), Offset: int64(next)})
			next++
		}
	}
}
