package rabbit

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/failpoint"
)

// settle judges the oldest messages in flight, as far as they have their confirms without a gap.
// What was confirmed behind a gap is found by sweep.
func (l *lane) settle() {
	n := 0
	for n < len(l.flight) && isDone(l.flight[n]) {
		n++
	}
	if n == 0 || l.open.ch.IsClosed() { // a channel that closes makes every confirm look like a refusal: see end
		return
	}
	// Before judge: what is returned is confirmed as well, and only its return says that it is not
	// stored.
	l.drainReturns()
	for _, o := range l.flight[:n] {
		l.judge(o)
	}
	clear(l.flight[:n])
	l.flight = l.flight[n:]
}

func isDone(o *outgoing) bool {
	select {
	case <-o.confirm.Done():
		return true
	default:
		return false
	}
}

// judge tells what a confirm means. The returns that came before it are noted already.
//
// It asks the message's own confirmation: the library's ordered stream of confirms (NotifyPublish)
// calls a refused message confirmed when a later "all up to here" arrives before the ones ahead of
// it.
func (l *lane) judge(o *outgoing) {
	switch {
	case o.returned:
		l.hindered.note(l.p.b.trouble, o.queue, "is missing")
		l.p.b.topology.missing(o.queue)
		l.hold(o)
	case !o.confirm.Acked():
		l.hindered.note(l.p.b.trouble, o.queue, "refuses messages")
		l.stale = l.stale || o.tries >= renewAfter
		l.hold(o)
	default:
		if o.tries > 0 || o.breaks > 0 {
			l.p.b.trouble.clear("queue " + o.queue)
		}
		// The first confirm of a channel shows that the broker takes messages.
		if l.limit == 1 {
			l.wait.reset()
			l.p.b.trouble.clear(l.part)
		}
		l.limit = min(2*l.limit, l.p.b.config.PublishWindow)
		failpoint.Hit("confirmed")
		o.done(nil)
	}
}

// hold keeps the message back: due grows with its tries, from BackoffMin to BackoffMax. Others, to
// other queues, go on meanwhile.
func (l *lane) hold(o *outgoing) {
	o.due = time.Now().Add(l.holding.after(o.tries))
	o.tries++
	l.held = append(l.held, o)
}

// hindered are the queues that a lane holds messages back for, or did since it was idle.
type hindered map[string]bool

// note says why messages to a queue are held back.
func (h hindered) note(t *trouble, name, why string) {
	h[name] = true
	t.set("queue "+name, "queue "+name+" "+why+": what is published to it is held back")
}

// forget is for a lane that has nothing left. Where another has something for one of the queues,
// its next try says so again.
func (h hindered) forget(t *trouble) {
	for name := range h {
		t.forget("queue " + name)
	}
	clear(h)
}

// drainReturns notes all returns that are there. A return is there before its confirm is.
func (l *lane) drainReturns() {
	for {
		select {
		case r, ok := <-l.open.returns:
			if !ok {
				return
			}
			l.note(r, true)
		default:
			return
		}
	}
}

// note marks what came back. A return does not say which publish it answers, so all that look alike
// are marked: at worst one is published twice.
func (l *lane) note(r amqp.Return, ok bool) {
	if !ok {
		l.open.returns = nil
		return
	}
	for _, o := range l.flight {
		if o.queue == r.RoutingKey && o.msg.MessageId == r.MessageId {
			o.returned = true
		}
	}
}

// settleOutOfOrder judges every message in flight that has its confirm. Different queues confirm at
// different speeds, so that one queue without a majority would hold up the confirms of all others.
func (l *lane) settleOutOfOrder() {
	var confirmed, rest []*outgoing
	for _, o := range l.flight {
		if isDone(o) {
			confirmed = append(confirmed, o)
		} else {
			rest = append(rest, o)
		}
	}
	if len(confirmed) == 0 || l.open.ch.IsClosed() { // these may be no confirms at all: see end
		return
	}
	l.drainReturns() // before judge, as in settle
	l.flight = rest
	for _, o := range confirmed {
		l.judge(o)
	}
}
