package rabbit

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
)

// showAgain is how long a process waits that could not show itself, since the broker has not
// noticed yet that the connection on which it did before is gone.
const showAgain = time.Second

// presence is who lives. An exclusive queue shows it, on the connection that consumes: it is gone
// with that, as what was handed out there is back.
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

// show declares the queue in one session after another, until ctx ends.
func (p *presence) show(ctx context.Context, name string) {
	for told := false; ; {
		s := p.b.consume.wait(ctx, p.b.over)
		if s == nil {
			return
		}
		ch, err := s.exclusive(name)
		if err == nil { // the queue is the connection's
			err = s.closeChannel(ch)
		}
		switch {
		case code(err) == amqp.ResourceLocked, err != nil && s.lostOver(err):
			sleep(ctx, showAgain)
			continue
		case err != nil && !told:
			told = true
			p.b.config.Logger.Warn("no other process can see that this one lives: if its connection to RabbitMQ is cut while a suspected message runs, that counts as a death",
				"queue", lockOf(name), "error", err)
		}
		select {
		case <-s.ctx.Done():
		case <-ctx.Done():
			return
		}
	}
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
	return ch, s.call("take lease of "+name, func() error {
		_, err := ch.QueueDeclare(lockOf(name), false, false, true, false, amqp.Table{"x-queue-type": "classic"})
		return err
	})
}
