package rabbit

import (
	"context"
	"slices"
	"time"
)

// aside is a queue that confirms nothing: most likely a quorum queue without a majority of its
// nodes. RabbitMQ lets the whole channel wait on which such a queue is published to: it confirms
// nothing to other queues either, and does not answer a close. So the queue is asked by one message
// on a channel of its own, and all others to it wait for that one's confirm. The lane goes on
// without them.
type aside struct {
	// waiting is to be sent when the queue confirms, in order.
	waiting []*outgoing
	// asked is in flight on open; nil: nothing is.
	asked *outgoing
	open  *opened
	// retry is when a channel may be opened at the earliest.
	retry time.Time
	// patience is after what time it is asked anew: an open channel gets the confirm as soon as the
	// queue is back, unless it was lost. It doubles, since that may cost the connection.
	patience time.Duration
}

// Both are in confirm time-outs.
const (
	firstPatience = 4
	mostPatience  = 64
)

// asides are the queues of a lane that confirm nothing, by name.
type asides map[string]*aside

// waits keeps a message back whose queue confirms nothing, and reports whether it did.
func (s asides) waits(o *outgoing) bool {
	a := s[o.queue]
	if a != nil {
		a.waiting = append(a.waiting, o)
	}
	return a != nil
}

// all is what waits, and what is in flight, of all these queues.
func (s asides) all() (waiting, flight []*outgoing) {
	for _, a := range s {
		waiting = append(waiting, a.waiting...)
		if a.asked != nil {
			a.noteReturn()
			flight = append(flight, a.asked)
		}
	}
	return waiting, flight
}

// noteReturn marks what was asked if it came back, which is there before its confirm is.
func (a *aside) noteReturn() {
	select {
	case _, came := <-a.open.returns: // else the channel is closed
		a.asked.returned = a.asked.returned || came
	default:
	}
}

// lookAside ends what waits and has no context any more, asks queues that were not asked, and takes
// those back that confirm.
func (l *lane) lookAside(s *session, now time.Time) {
	for name, a := range l.aside {
		a.waiting = slices.DeleteFunc(a.waiting, ended)
		switch {
		case a.asked != nil && a.open.ch.IsClosed():
			l.askAgain(a, now)
		case a.asked != nil && isDone(a.asked):
			l.takeBack(name, a)
		case a.asked != nil && !a.open.session.blocked() && now.Sub(a.asked.sent) >= a.patience:
			a.patience = min(2*a.patience, mostPatience*l.p.b.config.ConfirmTimeout)
			a.giveUp(l.p.b, now)
		case a.asked == nil && len(a.waiting) == 0: // whether it is well shows when somebody needs it
			delete(l.aside, name)
			l.p.b.trouble.clear("queue " + name)
		case a.asked == nil && s != nil && !s.blocked() && !now.Before(a.retry):
			l.ask(a, s, now)
		}
	}
}

// ask sends the oldest message that waits.
func (l *lane) ask(a *aside, s *session, now time.Time) {
	a.retry = now.Add(l.p.b.config.BackoffMin)
	open, err := s.open(1)
	if err != nil {
		return // it is asked again, and the lane's own channel says what is wrong
	}
	if open.send(a.waiting[0]) != nil {
		_ = s.closeChannel(open.ch)
		return
	}
	a.open, a.asked, a.waiting = open, a.waiting[0], a.waiting[1:]
}

// giveUp has the message that asked be sent on another channel, though this one is open. RabbitMQ
// may not answer its close before the queue is back, which must hold up no other message of the
// lane.
func (a *aside) giveUp(b *Broker, now time.Time) {
	open := a.open
	b.spawn(func(context.Context) { _ = open.session.closeChannel(open.ch) }) // at most callLimit
	a.waiting = append([]*outgoing{a.asked}, a.waiting...)
	a.asked, a.open, a.retry = nil, nil, now.Add(b.config.BackoffMin)
}

// askAgain has the message that asked be sent on another channel: whether it is stored is unknown.
func (l *lane) askAgain(a *aside, now time.Time) {
	o := a.asked
	a.asked, a.retry = nil, now.Add(l.p.b.config.BackoffMin)
	if cause := closeReason(a.open); cause != nil && refusedAsTooLarge(a.open, cause) {
		o.done(tooLarge(cause))
		return
	}
	a.waiting = append([]*outgoing{o}, a.waiting...)
}

// takeBack has the messages of a queue that confirms again be sent with all others.
func (l *lane) takeBack(name string, a *aside) {
	delete(l.aside, name)
	l.p.b.trouble.clear("queue " + name)
	a.noteReturn()
	l.judge(a.asked)
	_ = a.open.session.closeChannel(a.open.ch)
	l.pending = append(a.waiting, l.pending...)
}
