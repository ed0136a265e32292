package rabbit

import (
	"errors"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
)

// end gives up the channel. What was in flight without a confirm is unknown, and is published again
// on the next channel: stored twice at worst, never lost.
func (l *lane) end(cause error) {
	o := l.open
	// The channel is closed before flight is divided: after that no confirm can come any more, and
	// a message that is taken for unknown stays so.
	if !o.ch.IsClosed() {
		_ = o.session.closeChannel(o.ch)
	}
	if err := closeReason(o); err != nil {
		cause = err
	}
	l.drainReturns()
	unknown := slices.DeleteFunc(slices.Clone(l.flight), func(o *outgoing) bool { return l.known(o) })
	l.flight, l.open = nil, nil
	l.retry = time.Now().Add(l.wait.next())
	// With several unknown ones it cannot be said which was too large: all are tried again, after
	// two times each of them alone.
	if len(unknown) == 1 && refusedAsTooLarge(o, cause) {
		unknown[0].done(tooLarge(cause))
		return
	}
	var again []*outgoing
	for _, o := range unknown {
		switch o.breaks++; {
		case ended(o):
		case o.alone():
			l.hold(o)
		default:
			again = append(again, o)
		}
	}
	l.pending = append(again, l.pending...)
	// Who has nothing to publish waits for nothing, and may have no confirm for days.
	if o.session.alive() && l.busy() {
		l.p.b.trouble.set(l.part, cause.Error())
	}
}

// known handles a message whose fate was told before the channel closed.
func (l *lane) known(o *outgoing) bool {
	if !o.returned && !o.confirm.Acked() {
		return false // refused, or nothing was said: a closed channel makes these look alike
	}
	l.judge(o)
	return true
}

// closeReason returns what the broker said when it closed the channel. The channel is closed, or
// about to be: the library marks it before it tells why.
func closeReason(o *opened) error {
	select {
	case err := <-o.closed:
		if err != nil {
			return err
		}
	case <-time.After(time.Second):
	}
	return nil
}

func tooLarge(cause error) error { return fmt.Errorf("%w: %w", queue.ErrTooLarge, cause) }

// refusedAsTooLarge tells whether the broker closed this channel, not the connection, over the one
// message in flight.
func refusedAsTooLarge(o *opened, cause error) bool {
	return o.session.alive() && code(cause) == amqp.PreconditionFailed && !errors.Is(cause, errConfirmLate)
}

// abandon ends everything with queue.ErrClosed but what is confirmed.
func (l *lane) abandon() {
	if l.open != nil {
		l.drainReturns()
	}
	waiting, asked := l.aside.all()
	for _, o := range slices.Concat(l.flight, asked) {
		if !o.returned && o.confirm.Acked() {
			o.done(nil)
		} else {
			o.done(queue.ErrClosed)
		}
	}
	for _, young := range l.young {
		waiting = append(waiting, young...)
	}
	for _, o := range slices.Concat(l.pending, l.held, waiting, l.p.shut()) {
		o.done(queue.ErrClosed)
	}
}
