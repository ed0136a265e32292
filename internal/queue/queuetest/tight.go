package queuetest

import (
	"context"
	"fmt"

	"github.com/stepwell/stepwell/internal/queue"
)

// Tight is a broker that refuses some messages as too large.
type Tight struct {
	queue.Broker
	TooLarge func(queue.Message) bool
}

// Publisher returns one that refuses what TooLarge says.
func (b Tight) Publisher(name string) queue.Publisher {
	return tightPublisher{b.Broker.Publisher(name), b.TooLarge}
}

type tightPublisher struct {
	queue.Publisher
	tooLarge func(queue.Message) bool
}

// Publish tells done of what is refused, from another goroutine, as the contract has it.
func (p tightPublisher) Publish(ctx context.Context, name string, m queue.Message, done func(error)) {
	if p.tooLarge(m) {
		go done(fmt.Errorf("message %s: %w", m.ID, queue.ErrTooLarge))
		return
	}
	p.Publisher.Publish(ctx, name, m, done)
}
