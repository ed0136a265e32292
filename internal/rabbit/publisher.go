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
	// wake is readable when the inbox has something; it has room for one signal.
	wake chan struct{}

	mu sync.Mutex
	// inbox is not bounded here: callers bound it, each of whom waits for done (see
	// queue.Publisher).
	inbox []*outgoing
	// closed says that the lane is gone, or never began, so that nobody will empty the inbox.
	closed bool
}

// outgoing is a message on its way. After Publish has put it into the inbox it is the lane's alone.
type outgoing struct {
	// ctx is the caller's. Its end takes the message back while it is unsent, or once the channel
	// broke; in flight the confirm is waited for.
	ctx   context.Context
	queue string
	msg   amqp.Publishing
	// err is why the message cannot be sent: done must not be called by Publish itself, so the lane
	// does.
	err  error
	done func(error)

	confirm *amqp.DeferredConfirmation // of the last time it was sent
	sent    time.Time
	// returned: the broker found no queue of that name when it was last sent. The confirm that
	// follows means nothing then.
	returned bool
	// breaks counts the channels that ended with the message in flight.
	breaks int
	// tries counts how often it was returned or refused, and so how long it is held back next.
	tries int
	// due is when a message that is held may be sent again.
	due time.Time
}

// alone tells whether nothing else may be in flight with the message: two channels ended with it in
// flight, so that it may be what ends them. Alone it shows whether it is, and its neighbours get
// through meanwhile.
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
	signal(p.wake)
}

// take empties the inbox.
func (p *publisher) take() []*outgoing {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.inbox
	p.inbox = nil
	return all
}

// shut empties the inbox for the last time. From then on Publish answers with ErrClosed itself.
func (p *publisher) shut() []*outgoing {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return p.inbox
}
