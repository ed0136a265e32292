package rabbit

import (
	"context"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
)

// publisher takes messages over and leads them to its lane, which alone sends them.
type publisher struct {
	b    *Broker
	name string
	wake chan struct{}

	mu     sync.Mutex
	inbox  []*outgoing
	closed bool
}

// outgoing is a message on its way.
type outgoing struct {
	ctx   context.Context
	queue string
	msg   amqp.Publishing
	err   error // not nil: it cannot be sent
	done  func(error)

	confirm  *amqp.DeferredConfirmation // of the last time it was sent
	sent     time.Time
	returned bool // the last time it was sent, its queue was missing
	breaks   int  // how many sessions ended with it in flight
	tries    int  // how often it was held back
	due      time.Time
}

// alone tells whether nothing else may be in flight with the message, since it may be what ends the
// sessions.
func (o *outgoing) alone() bool { return o.breaks >= 2 }

// Publisher returns a publisher with a channel of its own; see queue.Broker.
func (b *Broker) Publisher(name string) queue.Publisher {
	p := &publisher{b: b, name: name, wake: make(chan struct{}, 1)}
	if !b.spawn(newLane(p).run) {
		p.closed = true
	}
	return p
}

// Publish takes m over; see queue.Publisher.
func (p *publisher) Publish(ctx context.Context, name string, m queue.Message, done func(error)) {
	msg, err := encode(m, p.b.config.MaxMessageSize)
	msg.AppId = p.b.config.AppID
	o := &outgoing{ctx: ctx, queue: name, msg: msg, err: err, done: done}
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.inbox = append(p.inbox, o)
	}
	p.mu.Unlock()
	if closed {
		go done(queue.ErrClosed) // Run is over, so nobody is left to call it
		return
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// take empties the inbox.
func (p *publisher) take() []*outgoing {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.inbox
	p.inbox = nil
	return all
}

// shut empties the inbox for the last time.
func (p *publisher) shut() []*outgoing {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return p.inbox
}
