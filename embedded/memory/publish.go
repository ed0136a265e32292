package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/stepwell/stepwell/internal/queue"
)

// outgoing is a message that was published and is not stored yet. done is called once.
type outgoing struct {
	ctx   context.Context
	queue string
	m     queue.Message
	done  func(error)
}

// Publisher returns a publisher; all share what the broker has not stored yet.
func (b *Broker) Publisher(string) queue.Publisher { return publisher{b} }

type publisher struct{ b *Broker }

// Publish takes m over; see queue.Publisher.
func (p publisher) Publish(ctx context.Context, name string, m queue.Message, done func(error)) {
	o := outgoing{ctx, name, clone(m), done}
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, p.b.poke) // so that one that waits is reported
		o.done = func(err error) { stop(); done(err) }
	}
	p.keep(o)
}

// keep notes a message that is to be stored.
func (p publisher) keep(o outgoing) {
	b := p.b
	b.mu.Lock()
	closed := b.closed
	if !closed {
		b.unstored = append(b.unstored, o)
	}
	b.mu.Unlock()
	if closed {
		go o.done(queue.ErrClosed) // Run is over, so nobody else is there to call it
		return
	}
	b.poke()
}

// poke wakes Run.
func (b *Broker) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// storable takes out of unstored what Run can act on now: messages whose queue is there while
// there is neither an outage nor an alarm, and messages whose context has ended.
func (b *Broker) storable() (ready []outgoing) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unstored = slices.DeleteFunc(b.unstored, func(o outgoing) bool {
		open := !b.down && !b.blocked && b.queues[o.queue] != nil
		// A message whose context has ended is taken out as well, to be told so by store.
		if open || o.ctx.Err() != nil {
			ready = append(ready, o)
			return true
		}
		return false
	})
	return ready
}

// store puts a message into its queue and calls done, without the lock: done may publish again.
func (b *Broker) store(o outgoing) {
	if err := o.ctx.Err(); err != nil {
		o.done(err)
		return
	}
	if err := fits(b, o.m); err != nil {
		o.done(err)
		return
	}
	b.mu.Lock()
	l := b.queues[o.queue]
	if l != nil {
		l.append(&item{m: o.m})
	}
	b.mu.Unlock()
	if l == nil { // deleted meanwhile: it waits for its queue again
		publisher{b}.keep(o)
		return
	}
	o.done(nil)
}

func fits(b *Broker, m queue.Message) error {
	if n := m.Size(); b.MaxMessageSize > 0 && n > b.MaxMessageSize {
		return fmt.Errorf("message of %d bytes: %w", n, queue.ErrTooLarge)
	}
	return nil
}
