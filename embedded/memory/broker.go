// Package memory keeps queues in memory with the semantics of the RabbitMQ ones: delays, dead sets, leases, returns in place. Nothing
// survives the process. It waits with timers and channels only, so that a test may run it on a false clock.
package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/stepwell/stepwell/internal/queue"
)

// Broker implements queue.Broker.
type Broker struct {
	// MaxMessageSize bounds body and headers of a message in bytes; 0: no bound.
	MaxMessageSize int

	wake chan struct{} // there is something to publish, or nothing is in its way any more

	mu      sync.Mutex
	queues  map[string]*list
	seq     uint64
	inbox   []outgoing
	down    bool
	blocked bool
	closed  bool
}

type outgoing struct {
	ctx   context.Context
	queue string
	m     queue.Message
	done  func(error)
}

// New makes a broker without queues.
func New() *Broker {
	return &Broker{queues: map[string]*list{}, wake: make(chan struct{}, 1)}
}

// Run stores what is published until ctx ends.
func (b *Broker) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		for _, o := range b.storable() {
			b.store(o)
		}
		select {
		case <-ctx.Done():
		case <-b.wake:
		}
	}
	b.mu.Lock()
	b.closed = true
	left := b.inbox
	b.inbox = nil
	for _, l := range b.queues {
		l.stopTimers()
	}
	b.mu.Unlock()
	for _, o := range left {
		o.done(queue.ErrClosed)
	}
	return nil
}

// storable takes the messages out of the inbox that nothing keeps from being stored or reported.
func (b *Broker) storable() (ready []outgoing) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inbox = slices.DeleteFunc(b.inbox, func(o outgoing) bool {
		open := !b.down && !b.blocked && b.queues[o.queue] != nil
		if open || o.ctx.Err() != nil {
			ready = append(ready, o)
		}
		return open || o.ctx.Err() != nil
	})
	return ready
}

func (b *Broker) store(o outgoing) {
	if err := o.ctx.Err(); err != nil {
		o.done(err)
		return
	}
	if b.MaxMessageSize > 0 && size(o.m) > b.MaxMessageSize {
		o.done(fmt.Errorf("%w: %d bytes", queue.ErrTooLarge, size(o.m)))
		return
	}
	b.mu.Lock()
	l := b.queues[o.queue]
	if l != nil {
		b.seq++
		l.add(&item{m: o.m, seq: b.seq})
	}
	b.mu.Unlock()
	if l == nil { // deleted meanwhile: it waits for its queue again
		b.publish(o)
		return
	}
	o.done(nil)
}

func (b *Broker) publish(o outgoing) {
	b.mu.Lock()
	closed := b.closed
	if !closed {
		b.inbox = append(b.inbox, o)
	}
	b.mu.Unlock()
	if closed {
		go o.done(queue.ErrClosed) // Run is over, so nobody else is there to call it
		return
	}
	b.poke()
}

func (b *Broker) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Publisher returns a publisher; all share the broker's inbox.
func (b *Broker) Publisher(string) queue.Publisher { return publisher{b} }

type publisher struct{ b *Broker }

// Publish takes m over; see queue.Publisher.
func (p publisher) Publish(ctx context.Context, name string, m queue.Message, done func(error)) {
	o := outgoing{ctx, name, m, done}
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, p.b.poke) // so that one that waits is reported
		o.done = func(err error) { stop(); done(err) }
	}
	p.b.publish(o)
}

// Declare makes the queues that are missing.
func (b *Broker) Declare(ctx context.Context, specs []queue.Spec) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("declare queues: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range specs {
		l := b.queues[s.Name]
		if l == nil {
			b.queues[s.Name] = &list{b: b, spec: s}
			continue
		}
		if l.spec != s {
			return fmt.Errorf("queue %s is there with other arguments: %+v, not %+v", s.Name, l.spec, s)
		}
	}
	b.poke()
	return nil
}

// Delete removes a queue with all that is in it, as an operator might.
func (b *Broker) Delete(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.queues[name]; l != nil {
		l.stopTimers()
		delete(b.queues, name)
	}
}

// Depth returns how many messages are ready in the queue.
func (b *Broker) Depth(_ context.Context, name string) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch l := b.queues[name]; {
	case b.down:
		return 0, queue.ErrUnavailable
	case l == nil:
		return 0, fmt.Errorf("queue %s is missing", name)
	default:
		return len(l.ready), nil
	}
}

// SetUp false cuts all sessions and refuses new ones until SetUp true: an outage, for tests.
func (b *Broker) SetUp(up bool) {
	b.mu.Lock()
	b.down = !up
	for _, l := range b.queues {
		if b.down {
			l.cut()
		}
		l.signal()
	}
	b.mu.Unlock()
	b.poke()
}

// Block true stores nothing more until Block false: an alarm, for tests.
func (b *Broker) Block(blocked bool) {
	b.mu.Lock()
	b.blocked = blocked
	b.mu.Unlock()
	b.poke()
}

// Status tells whether the broker can be used.
func (b *Broker) Status() queue.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := queue.Status{Up: !b.down, Blocked: b.blocked, Detail: "in memory: nothing survives this process"}
	if b.down {
		s.Detail = "cut off"
	}
	return s
}

func size(m queue.Message) int {
	n := len(m.Body)
	for k, v := range m.Headers {
		n += len(k) + valueSize(v)
	}
	return n
}

func valueSize(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case []byte:
		return len(v)
	case []any:
		n := 0
		for _, e := range v {
			n += valueSize(e)
		}
		return n
	}
	return 8
}
