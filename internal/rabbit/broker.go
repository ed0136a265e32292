// Package rabbit keeps queues in RabbitMQ 3.10 or newer.
//
// It publishes on one connection and consumes on another, so that an alarm, which stops publishers,
// does not hold up acks; apart.go says which consumers have one of their own. A connection is never
// mended: each is a session with channels and delivery tags of its own, and what belongs to an old
// session cannot reach a new one. The library's own recovery is never used: it would let an old ack
// settle another message.
//
// # Parts
//
//	Broker     two links and the topology; it makes publishers, consumers and leases
//	link       one connection after another, for ever; a session is the life of one of them
//	publisher  takes messages over from any goroutine; its lane, on one, sends them
//	consumer   one channel of a Consume; its keeper sends acks, and sees when the broker ended it
//	lease      a connection of its own, with an exclusive queue that only one can have: who walks
//	presence   exclusive queues on the connection that consumes: who lives
//	window     the oldest messages of a queue, held on a channel of a lease's connection
//	topology   the queues that were declared: it makes those again that vanished
//	trouble    what is wrong now, by part, for Status and the log
//
// Where to begin, by what is followed:
//
//	a publish   publisher.go, lane.go; lanesettle.go has its confirm, laneend.go a broken channel
//	a delivery  consumer.go, which hands it out; acks.go, its ack; keeper.go, which sends that
//	a walk      lease.go, window.go; verify.go says whether its acks were taken
//	a queue     topology.go; ripe.go keeps publishers away from one that was just made
//
// # Locks
//
// A lane and its messages belong to one goroutine and have none. All others guard the fields beside
// them, and nothing is asked of the broker under them but under these two: lease.mu is held while a
// window is being opened, and consumer.rpc while the broker is asked something on the consumer's
// channel. Either comes before all others; of the others nobody takes two.
package rabbit

import (
	"context"
	"errors"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
)

// Broker is a queue.Broker on RabbitMQ.
type Broker struct {
	// with defaults; read only after New
	config Config
	// trouble is what Status and the log tell of all parts: links, lanes, consumers, the topology.
	trouble *trouble
	// Two connections: under an alarm the broker stops reading from one that publishes, and acks
	// sent there would hang with the messages.
	publish  *link
	consume  *link
	topology *topology

	// started is closed when Run begins. Lease waits for it, since targets is not set before.
	started chan struct{}
	// over is closed when Run is about to end: who waits for a session then gets queue.ErrClosed.
	over    chan struct{}
	targets []target // set before started is closed

	// mu guards the fields below.
	mu sync.Mutex
	// ctx is that of Run; nil before Run.
	ctx context.Context
	// waiting are the functions given to spawn before Run; start begins them.
	waiting []func(context.Context)
	// closed is set before Run waits for running. spawn adds to running only while it is not set,
	// so that no goroutine begins after that wait.
	closed  bool
	running sync.WaitGroup
	presence
}

var _ queue.Broker = (*Broker)(nil)

// New makes a broker. It does not connect: Run does.
func New(config Config) *Broker {
	config = config.withDefaults()
	b := &Broker{config: config, started: make(chan struct{}), over: make(chan struct{})}
	b.trouble = newTrouble(config.Logger)
	b.publish = newLink("publish", &b.config, b.trouble)
	b.consume = newLink("consume", &b.config, b.trouble)
	b.topology = newTopology(b)
	b.presence = presence{b: b, shown: map[string]bool{}}
	return b
}

// Run owns all connections and goroutines until ctx ends; then it returns nil. It connects for
// ever, and returns an error only for a broker that is too old and for URLs that are none. Run it
// once.
func (b *Broker) Run(ctx context.Context) error {
	targets, err := b.config.targets()
	if err != nil {
		return err
	}
	// A link that meets a broker too old ends both links by this cause.
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if !b.start(ctx, targets) {
		return errors.New("rabbit: Run was called before")
	}
	for _, l := range []*link{b.publish, b.consume} {
		b.spawn(func(ctx context.Context) {
			if err := l.run(ctx, targets); err != nil {
				stop(&fatal{err})
			}
		})
	}
	b.spawn(b.topology.run)
	<-ctx.Done()
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	close(b.over)
	b.running.Wait()
	var cause *fatal
	if errors.As(context.Cause(ctx), &cause) {
		return cause.error
	}
	return nil
}

// fatal is the cause of a Run that ended by itself.
type fatal struct{ error }

// start begins what was spawned before Run. It reports false when Run was called before.
func (b *Broker) start(ctx context.Context, targets []target) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx != nil {
		return false
	}
	b.ctx, b.targets = ctx, targets
	close(b.started)
	for _, f := range b.waiting {
		b.running.Go(func() { f(ctx) })
	}
	b.waiting = nil
	return true
}

// spawn runs f for as long as Run runs, and reports false when Run has ended. Run waits for f.
func (b *Broker) spawn(f func(context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return false
	case b.ctx == nil:
		b.waiting = append(b.waiting, f)
	default:
		b.running.Go(func() { f(b.ctx) })
	}
	return true
}

// isOver reports whether Run has ended or is about to.
func (b *Broker) isOver() bool {
	select {
	case <-b.over:
		return true
	default:
		return false
	}
}

// session waits for the consuming connection, which alarms do not block.
func (b *Broker) session(ctx context.Context) (*session, error) {
	s := b.consume.wait(ctx, b.over)
	switch {
	case s != nil:
		return s, nil
	case b.isOver():
		return nil, queue.ErrClosed
	default:
		return nil, b.unavailable(ctx.Err())
	}
}

// unavailable wraps err, which ended a wait for the broker.
func (b *Broker) unavailable(err error) error {
	return fmt.Errorf("%w: %s: %w", queue.ErrUnavailable, b.Status().Detail, err)
}

// Depth returns how many messages are ready in the queue.
func (b *Broker) Depth(ctx context.Context, name string) (int, error) {
	state, err := b.look(ctx, name)
	return state.Messages, err
}

// Consumers returns how many consumers the queue has, of all processes.
func (b *Broker) Consumers(ctx context.Context, name string) (int, error) {
	state, err := b.look(ctx, name)
	return state.Consumers, err
}

// look asks for the state of a queue.
func (b *Broker) look(ctx context.Context, name string) (amqp.Queue, error) {
	s, err := b.session(ctx)
	if err != nil {
		return amqp.Queue{}, err
	}
	type answer struct {
		state amqp.Queue
		err   error
	}
	// The question is asked on a goroutine that Run waits for, and goes on when ctx ends; the room
	// for its answer lets it end where the caller is gone.
	answers := make(chan answer, 1)
	asked := b.spawn(func(context.Context) {
		state, err := s.count(name)
		answers <- answer{state, err}
	})
	if !asked {
		return amqp.Queue{}, queue.ErrClosed
	}
	select {
	case a := <-answers:
		if code(a.err) == amqp.NotFound {
			b.topology.forget(name)
			return amqp.Queue{}, fmt.Errorf("%w: %w", queue.ErrMissing, a.err)
		}
		if a.err != nil && s.lostOver(a.err) {
			return amqp.Queue{}, fmt.Errorf("%w: %w", queue.ErrUnavailable, a.err)
		}
		return a.state, a.err
	case <-ctx.Done(): // the connection is shared: it must not be cut for one caller's haste
		return amqp.Queue{}, b.unavailable(ctx.Err())
	}
}

// Status tells whether the broker can be used now.
func (b *Broker) Status() queue.Status {
	publish, _ := b.publish.current()
	consume, _ := b.consume.current()
	status := queue.Status{
		Up:      publish != nil && consume != nil,
		Blocked: publish != nil && publish.blocked(),
		Detail:  b.trouble.text(),
	}
	switch {
	case status.Detail != "":
	case status.Blocked:
		status.Detail = underAlarm
	case status.Up:
		status.Detail = consume.release.String()
	case b.isOver():
		status.Detail = "closed"
	default:
		status.Detail = "not connected yet"
	}
	return status
}
