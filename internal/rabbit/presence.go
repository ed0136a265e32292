package rabbit

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
)

const (
	// showAgain is how long a process waits that could not show itself, be it that the broker has
	// not noticed yet that the connection on which it did before is gone. For other reasons each
	// further wait is twice as long, up to showSeldom: whatever refuses the queue may refuse it for
	// good, and a channel too many ends the connection.
	showAgain  = time.Second
	showSeldom = time.Minute
	// showStill is how often the queue is declared that should be there: it may be deleted while
	// the connection lives.
	showStill = 10 * time.Second
)

// presence is who lives. An exclusive queue shows it, on the connection that consumers share: it is
// gone with that, as what was handed out there is back.
type presence struct {
	b *Broker

	mu    sync.Mutex
	shown map[string]bool // the names that Show was called with
}

// Show lets others see that somebody lives; see queue.Broker.
func (p *presence) Show(name string) {
	p.mu.Lock()
	before := p.shown[name]
	p.shown[name] = true
	p.mu.Unlock()
	if !before {
		p.b.spawn(func(ctx context.Context) { p.show(ctx, name) })
	}
}

// show declares the queue again and again until ctx ends.
func (p *presence) show(ctx context.Context, name string) {
	wait, told := showAgain, false
	for {
		s := p.b.consume.wait(ctx, p.b.over)
		if s == nil || ctx.Err() != nil {
			return
		}
		err := s.show(name)
		if err == nil {
			wait, told = showAgain, false
			select {
			case <-time.After(showStill):
			case <-s.ctx.Done():
			case <-ctx.Done():
			}
			continue
		}
		if code(err) == amqp.ResourceLocked {
			sleep(ctx, showAgain)
			continue
		}
		if !told && (!s.lostOver(err) || wait == showSeldom) {
			told = true
			p.b.config.Logger.Warn("no other process can see that this one lives: if its connection to RabbitMQ is cut while a suspected message runs, that counts as a death",
				"queue", lockOf(name), "error", err)
		}
		sleep(ctx, wait)
		wait = min(2*wait, showSeldom)
	}
}

// show declares the queue, which is the connection's.
func (s *session) show(name string) error {
	ch, err := s.exclusive(name)
	if err != nil {
		return err
	}
	return s.closeChannel(ch)
}

// Shown says whether somebody of that name lives; see queue.Broker. Who has no right to look sees
// nobody.
func (p *presence) Shown(ctx context.Context, name string) (bool, error) {
	_, err := p.b.look(ctx, lockOf(name))
	switch {
	case err == nil, code(err) == amqp.ResourceLocked, errors.Is(err, errMute):
		return true, nil
	case errors.Is(err, queue.ErrMissing), code(err) == amqp.AccessRefused:
		return false, nil
	}
	return false, err
}

// lockOf is the exclusive queue that a name is held by.
func lockOf(name string) string { return name + ".lease" }

// exclusive declares the queue that a name is held by, which the broker lets only one connection
// have at a time, and returns the channel that did.
func (s *session) exclusive(name string) (*amqp.Channel, error) {
	ch, err := s.channel()
	if err != nil {
		return nil, err
	}
	return ch, s.call("declare exclusive queue "+lockOf(name), func() error {
		_, err := ch.QueueDeclare(lockOf(name), false, false, true, false, amqp.Table{"x-queue-type": "classic"})
		return err
	})
}
