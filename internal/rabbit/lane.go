package rabbit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/failpoint"
)

// lane sends the messages of one publisher and tells what became of them. The goroutine of run owns
// it and all outgoing messages, so that it has no lock.
//
// A message is in one place: pending (to be sent, in order), held (to be sent later), flight (sent,
// no confirm yet), in young, where its queue is, or in aside, where its queue confirms nothing. It
// leaves them only with its done. That is what "never lost" rests on here.
type lane struct {
	p *publisher
	// part is the lane's name in trouble.
	part    string
	pending []*outgoing
	held    []*outgoing
	flight  []*outgoing
	young   youngs
	aside   asides
	// open is the channel that is published on; nil: there is none.
	open *opened
	// limit is how many may be in flight now. A channel begins with one, so that an alarm is met by
	// one message, and doubles up to PublishWindow with each confirm.
	limit int
	// retry is when the next channel may be opened at the earliest; wait is how that grows.
	retry time.Time
	wait  backoff
	// holding says how long a message waits that was returned or refused. Only its after is used,
	// with the tries of each message.
	holding  backoff
	hindered hindered
	// stale says that a queue has refused for long: nothing more is sent on this channel; see
	// renew.
	stale bool
	// renewed is when a channel was last given up for that.
	renewed time.Time
}

// opened is a channel in confirm mode.
type opened struct {
	session *session
	ch      *amqp.Channel
	returns chan amqp.Return
	closed  chan *amqp.Error
}

const (
	// renewAfter is how many refusals of one message, about five seconds, it takes until another
	// channel is tried.
	renewAfter = 6
	// renewEvery is how often that is tried at most.
	renewEvery = 10 * time.Second
)

var (
	errConfirmLate = errors.New("no confirm in time")
	errCannotSend  = errors.New("channel closed")
)

func newLane(p *publisher) *lane {
	return &lane{
		p: p, part: "publisher " + p.name, young: youngs{}, aside: asides{}, hindered: hindered{}, wait: p.b.config.backoff(), holding: p.b.config.backoff(),
	}
}

// run sends until ctx ends. What is left then ends with queue.ErrClosed.
func (l *lane) run(ctx context.Context) {
	const tick = 50 * time.Millisecond
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for ctx.Err() == nil {
		// What comes after this line signals wake, and a session that changes closes changed:
		// nothing is missed by the select below.
		l.collect()
		session, changed := l.p.b.publish.current()
		if l.step(session) {
			continue
		}
		// An idle publisher does not wake up at all.
		var ticks <-chan time.Time
		if l.busy() {
			ticks = ticker.C
		} else { // also where its callers gave up: no confirm may come for days, to take a trouble back
			l.p.b.trouble.forget(l.part)
			l.hindered.forget(l.p.b.trouble)
		}
		select {
		case <-ctx.Done():
		case <-l.p.wake:
		case <-changed:
		case <-l.confirmed():
		case r, ok := <-l.open.returned():
			l.note(r, ok)
		case err := <-l.open.broken():
			// Confirms that came before the channel broke are judged while that can be told apart;
			// see end.
			l.settle()
			l.end(closeCause(l.open, err))
		case <-ticks:
			l.sweep(session, time.Now())
		}
	}
	// Every done is called, whatever the state: callers wait for it.
	l.abandon()
}

// collect takes over what was published, but for what cannot be sent at all.
func (l *lane) collect() {
	for _, o := range l.p.take() {
		if o.err != nil {
			o.done(o.err)
			continue
		}
		l.pending = append(l.pending, o)
	}
}

// step does what can be done at once, and reports whether there is more of it.
func (l *lane) step(session *session) (more bool) {
	now := time.Now()
	if l.open == nil && len(l.pending) > 0 && session != nil && !session.blocked() && !now.Before(l.retry) {
		l.openChannel(session)
	}
	if l.open == nil {
		return false
	}
	l.settle()
	if l.stale && l.renew(now) {
		return true
	}
	more, err := l.send()
	if err != nil {
		l.settle()
		l.end(err)
	}
	return more
}

func (l *lane) busy() bool {
	return len(l.pending)+len(l.held)+len(l.flight)+len(l.young)+len(l.aside) > 0
}

// confirmed is readable when the oldest message in flight has its confirm.
func (l *lane) confirmed() <-chan struct{} {
	if len(l.flight) == 0 {
		return nil
	}
	return l.flight[0].confirm.Done()
}

// returned has what the broker had no queue for; nil where there is no channel.
func (o *opened) returned() <-chan amqp.Return {
	if o == nil {
		return nil
	}
	return o.returns
}

// broken is readable when the channel is closed; nil where there is none.
func (o *opened) broken() <-chan *amqp.Error {
	if o == nil {
		return nil
	}
	return o.closed
}

// openChannel opens the lane's channel. Where that fails run comes back by the tick, and tries
// again when retry has passed.
func (l *lane) openChannel(s *session) {
	open, err := s.open(l.p.b.config.PublishWindow)
	if err != nil {
		l.retry = time.Now().Add(l.wait.next())
		if s.alive() {
			l.p.b.trouble.set(l.part, err.Error())
		}
		return
	}
	l.open, l.limit = open, 1
}

// open opens a channel in confirm mode, on which at most so many messages are in flight.
func (s *session) open(window int) (*opened, error) {
	ch, err := s.channel()
	if err == nil {
		err = s.call("ask for confirms", func() error { return ch.Confirm(false) })
	}
	if err != nil {
		return nil, err
	}
	return &opened{
		session: s,
		ch:      ch,
		// The library skips a listener that is full for five seconds, and a return that is lost is
		// a message that is lost: there is room for every message in flight.
		returns: ch.NotifyReturn(make(chan amqp.Return, window+1)),
		closed:  ch.NotifyClose(make(chan *amqp.Error, 1)),
	}, nil
}

// send sends what may be sent now, up to a batch, and reports whether there is more.
func (l *lane) send() (more bool, err error) {
	const batch = 32
	for range batch {
		if len(l.pending) == 0 || len(l.flight) >= l.limit || l.stale || l.open.session.blocked() {
			return false, nil
		}
		o := l.pending[0]
		// The first in flight is enough to look at: a message that has to be alone has none beside
		// it.
		if len(l.flight) > 0 && (o.alone() || l.flight[0].alone()) {
			return false, nil
		}
		l.pending[0] = nil
		l.pending = l.pending[1:]
		switch {
		// The message is not tried again. Stored it may be all the same, where an earlier channel
		// broke with it in flight.
		case o.ctx.Err() != nil:
			o.done(o.ctx.Err())
		case l.young.waits(o, l.p.b.topology):
		case l.aside.waits(o):
		default:
			if err := l.sendOne(o); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// renew gives up the channel once nothing is in flight on it, and reports whether it did.
//
// RabbitMQ 3.10 tells a channel when a queue is full, and forgets to tell it when the limit is
// lifted by a policy: what is published to the queue on that channel is refused for ever, though it
// has room.
func (l *lane) renew(now time.Time) bool {
	if l.stale = now.Sub(l.renewed) > renewEvery; !l.stale || len(l.flight) > 0 {
		return false
	}
	_ = l.open.session.closeChannel(l.open.ch)
	l.open, l.stale, l.renewed = nil, false, now
	return true
}

func (l *lane) sendOne(o *outgoing) error {
	if err := l.open.send(o); err != nil {
		l.pending = slices.Insert(l.pending, 0, o)
		return err
	}
	l.flight = append(l.flight, o)
	l.open.session.written()
	failpoint.Hit("published")
	return nil
}

// send sends the message, which its caller then has in flight.
func (o *opened) send(m *outgoing) error {
	m.returned, m.sent = false, time.Now()
	// To the default exchange, whose routing key is the queue's name, and mandatory: without that
	// the broker confirms a message for which there is no queue, and drops it.
	confirm, err := o.ch.PublishWithDeferredConfirm("", m.queue, true, false, m.msg)
	if err == nil {
		m.confirm = confirm
		return nil
	}
	if !errors.Is(err, amqp.ErrClosed) {
		m.breaks++ // it may have gone out in part
	}
	return fmt.Errorf("%w: %w", errCannotSend, err)
}

// sweep looks at everything that waits: contexts that ended, messages that are due, confirms that
// came out of order, and one that does not come.
func (l *lane) sweep(s *session, now time.Time) {
	// Before what is pending, all of which was published later.
	l.pending = append(l.young.ripe(l.p.b.topology), l.pending...)
	l.lookAside(s, now)
	l.pending = slices.DeleteFunc(l.pending, ended)
	l.held = slices.DeleteFunc(l.held, ended)
	var due []*outgoing
	l.held = slices.DeleteFunc(l.held, func(o *outgoing) bool {
		if now.Before(o.due) {
			return false
		}
		due = append(due, o)
		return true
	})
	l.pending = slices.Insert(l.pending, 0, due...)
	// A channel that closes makes every confirm look like a refusal; end tells them apart.
	if l.open == nil || len(l.flight) == 0 || l.open.ch.IsClosed() {
		return
	}
	l.settleOutOfOrder()
	l.checkTime(now)
}

// ended calls done for a message whose ctx has ended, and reports whether it did.
func ended(o *outgoing) bool {
	if o.ctx.Err() == nil {
		return false
	}
	o.done(o.ctx.Err())
	return true
}

// checkTime ends the channel when the oldest confirm is late. Time under an alarm does not count:
// the broker confirms nothing then, and what it has taken it may still store.
func (l *lane) checkTime(now time.Time) {
	s := l.open.session
	if len(l.flight) == 0 || s.blocked() {
		return
	}
	since := l.flight[0].sent
	if unblocked := s.unblockedAt.Load(); unblocked != nil && unblocked.After(since) {
		since = *unblocked
	}
	if now.Sub(since) < l.p.b.config.ConfirmTimeout {
		return
	}
	// All that came before it has its confirm: if a queue is why, it is this one. If it is the
	// connection, the queue confirms on the next one. An operator must know which it is.
	c, queue := &l.p.b.config, l.flight[0].queue
	l.aside[queue] = &aside{patience: firstPatience * c.ConfirmTimeout}
	l.p.b.trouble.set("queue "+queue, "queue "+queue+" has confirmed nothing for "+c.ConfirmTimeout.String()+": what is published to it waits until it does")
	_ = s.closeChannel(l.open.ch)
	l.end(fmt.Errorf("%w (%s %s)", errConfirmLate, c.Setting("rabbitmq.confirm_timeout"), c.ConfirmTimeout))
	l.pending = slices.DeleteFunc(l.pending, l.aside.waits)
}

// closeCause says why a channel is gone.
func closeCause(o *opened, err *amqp.Error) error {
	if err != nil {
		return err
	}
	if cause := context.Cause(o.session.ctx); cause != nil {
		return cause
	}
	return errCannotSend
}
