// Package memory keeps queues in memory with the semantics of the RabbitMQ ones: delays, dead sets,
// leases, returns in place. Nothing survives the process. It waits with timers and channels only,
// so that a test may run it on a false clock.
package memory

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"github.com/stepwell/stepwell/internal/queue"
)

// Broker implements queue.Broker.
type Broker struct {
	alone
	// MaxMessageSize bounds body and headers of a message in bytes; 0: no bound.
	MaxMessageSize int

	// wake is readable when there is something to publish, or nothing is in its way any more.
	wake chan struct{}

	// mu guards the fields below, and all queues, sessions and leases: one lock, so that moving a
	// message from queue to queue is one step.
	mu     sync.Mutex
	queues map[string]*list
	// leases are those that somebody has, by what they are of.
	leases map[string]*lease
	// seq is the place of the message that came last; see item.
	seq uint64
	// unstored has what was published and not stored, also while there is an outage, an alarm or no
	// queue.
	unstored []outgoing
	// news is closed, and made anew, whenever queues or one of the fields below changes.
	news chan struct{}
	// running is since Run began; down is an outage and blocked an alarm, both for tests; closed is
	// since Run ended.
	running bool
	down    bool
	blocked bool
	closed  bool
}

var _ queue.Broker = (*Broker)(nil)

// New makes a broker without queues.
func New() *Broker {
	return &Broker{queues: map[string]*list{}, leases: map[string]*lease{}, wake: make(chan struct{}, 1), news: make(chan struct{})}
}

// Run stores what is published until ctx ends. Run it once. Every done is called on this goroutine,
// without the lock, as queue.Publisher promises.
func (b *Broker) Run(ctx context.Context) error {
	b.change(func() { b.running = true })
	for ctx.Err() == nil {
		for _, o := range b.storable() {
			b.store(o)
		}
		select {
		case <-ctx.Done():
		case <-b.wake:
		}
	}
	var left []outgoing
	b.change(func() {
		b.closed, b.running = true, false
		left, b.unstored = b.unstored, nil
		for _, l := range b.queues {
			l.stop()
		}
		cut(b)
	})
	// Nobody would store these any more.
	for _, o := range left {
		o.done(queue.ErrClosed)
	}
	return nil
}

// change calls f under the lock and wakes all who wait, since their condition may hold now.
func (b *Broker) change(f func()) {
	b.mu.Lock()
	f()
	close(b.news)
	b.news = make(chan struct{})
	b.mu.Unlock()
	b.poke()
}

// await calls is, which has the lock, now and after each change, until it says true or an error.
func (b *Broker) await(ctx context.Context, is func() (bool, error)) error {
	for {
		b.mu.Lock()
		// news is read under the lock under which is was asked: a change in between cannot be
		// missed.
		closed, news := b.closed, b.news
		ok, err := false, queue.ErrClosed
		if !closed {
			ok, err = is()
		}
		b.mu.Unlock()
		if ok || err != nil {
			return err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("%w: %s: %w", queue.ErrUnavailable, b.Status().Detail, ctx.Err())
		}
	}
}

// Declare makes the queues that are missing.
func (b *Broker) Declare(ctx context.Context, specs []queue.Spec) error {
	err := ctx.Err()
	if err == nil {
		err = b.await(ctx, func() (bool, error) { return !b.down, nil })
	}
	if err == nil {
		b.change(func() { err = b.declare(specs) })
	}
	if err != nil {
		return fmt.Errorf("declare queues: %w", err)
	}
	return nil
}

// Prove makes the queues that are missing; see queue.Broker.
func (b *Broker) Prove(ctx context.Context, specs []queue.Spec) (int, error) {
	for i := range specs {
		if err := b.Declare(ctx, specs[i:i+1]); err != nil {
			return i, err
		}
	}
	return len(specs), nil
}

// declare has the lock. A queue that is there with other arguments is an error, as with RabbitMQ's
// 406.
func (b *Broker) declare(specs []queue.Spec) error {
	for _, s := range specs {
		if (s.Kind == queue.Delay || s.Kind == queue.Instant) && s.Target == "" {
			return fmt.Errorf("queue %s: no target", s.Name)
		}
		exchange, keys := s.Exchange, s.Keys
		s.Exchange, s.Keys = "", nil // no arguments of the queue itself
		l := b.queues[s.Name]
		switch {
		case l == nil:
			l = &list{b: b, spec: s}
			b.queues[s.Name] = l
		case l.spec.Kind == 0 && s.Kind == queue.Source: // see Make: what is published to it may come first
			l.spec = s
		case !reflect.DeepEqual(l.spec, s):
			return fmt.Errorf("queue %s is there with other arguments: %+v, not %+v", s.Name, l.spec, s)
		}
		l.bind(exchange, keys)
	}
	for _, l := range b.queues {
		l.arm() // what is due may have waited for its target
	}
	return nil
}

// Delete removes a queue with all that is in it, as an operator might.
func (b *Broker) Delete(name string) {
	b.change(func() {
		if l := b.queues[name]; l != nil {
			delete(b.queues, name)
			l.stop()
		}
	})
}

// alone is the one process that uses the broker.
type alone struct{}

// Show shows nobody, since there is nobody to see it.
func (alone) Show(string) {}

// Shown sees nobody.
func (alone) Shown(context.Context, string) (bool, error) { return false, nil }

// Examine says whether there is such a queue.
func (b *Broker) Examine(ctx context.Context, name string) error {
	_, err := b.Depth(ctx, name)
	return err
}

// Make makes a queue that is nobody's, as an operator might, unless it is there.
func (b *Broker) Make(name string) {
	b.change(func() {
		if b.queues[name] == nil {
			b.queues[name] = &list{b: b, spec: queue.Spec{Name: name}}
		}
	})
}

// Trouble is none: what hinders one queue hinders all, and Status tells it.
func (b *Broker) Trouble(string) string { return "" }

// ReturnLimit is that of queues in RabbitMQ; here nothing is dropped.
func (b *Broker) ReturnLimit(string) int64 { return 1_000_000 }

// Depth returns how many messages are ready in the queue.
func (b *Broker) Depth(ctx context.Context, name string) (depth int, err error) {
	err = look(ctx, b, name, func(l *list) { depth = len(l.ready) })
	return depth, err
}

// Consumers returns how many sessions the queue has, without those that a pause holds back.
func (b *Broker) Consumers(ctx context.Context, name string) (consumers int, err error) {
	err = look(ctx, b, name, func(l *list) {
		for _, s := range l.sessions {
			if s.paused == nil || !s.paused() {
				consumers++
			}
		}
	})
	return consumers, err
}

// look calls see with the queue, under the lock, once there is no outage.
func look(ctx context.Context, b *Broker, name string, see func(*list)) error {
	err := b.await(ctx, func() (bool, error) {
		l := b.queues[name]
		switch {
		case b.down:
			return false, nil
		case l == nil:
			return true, missing(name)
		}
		see(l)
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("look at %s: %w", name, err)
	}
	return nil
}

func missing(name string) error {
	return fmt.Errorf("%w: %s: %w", queue.ErrUnavailable, name, queue.ErrMissing)
}

// SetUp false cuts all sessions and leases, and refuses new ones until SetUp true: an outage, for
// tests.
func (b *Broker) SetUp(up bool) {
	b.change(func() {
		b.down = !up
		if b.down {
			cut(b)
		}
	})
}

// cut ends all sessions and leases. The lock must be held.
func cut(b *Broker) {
	for _, l := range b.queues {
		l.cut()
	}
	for _, l := range b.leases {
		l.end()
	}
}

// Block true stores nothing more until Block false: an alarm, for tests.
func (b *Broker) Block(blocked bool) {
	b.change(func() { b.blocked = blocked })
}

// Status tells whether the broker can be used.
func (b *Broker) Status() queue.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := queue.Status{Up: b.running && !b.down, Blocked: b.blocked, Detail: "in memory: nothing survives this process"}
	switch {
	case b.closed:
		s.Detail = "closed"
	case !b.running:
		s.Detail = "not running yet"
	case b.down:
		s.Detail = "cut off"
	case b.blocked:
		s.Detail = "blocked"
	}
	return s
}
