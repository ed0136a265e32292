package memory

import (
	"cmp"
	"slices"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// list is one queue. Its broker's lock guards it.
type list struct {
	b        *Broker
	spec     queue.Spec // without what binds it
	bindings []binding
	ready    []*item // oldest first
	sessions []*session
	timer    *time.Timer // fires when the oldest item of a queue with a TTL is due; nil before the first
}

type item struct {
	m    queue.Message
	from string // the Delay queue it was moved from
	// by is the way by which it came, where that was an exchange with a name; it does not change.
	by *queue.Foreign
	// seq is its place in the queue. What is given back goes there, in front of what came later.
	seq uint64
	due time.Time // when it leaves a queue with a TTL
	// returns counts how often it was given back.
	returns int64
}

// append adds an item at the end.
func (l *list) append(i *item) {
	l.b.seq++
	i.seq, i.due = l.b.seq, time.Now().Add(l.spec.TTL)
	l.add(i)
}

// add puts an item at its place.
func (l *list) add(i *item) {
	at, _ := slices.BinarySearchFunc(l.ready, i.seq, func(i *item, seq uint64) int { return cmp.Compare(i.seq, seq) })
	l.ready = slices.Insert(l.ready, at, i)
	l.arm()
	l.signal()
}

// arm sets the timer for the oldest item, which is the first to be due.
func (l *list) arm() {
	if l.spec.Kind != queue.Delay && l.spec.TTL == 0 || len(l.ready) == 0 || l.b.closed {
		return
	}
	wait := time.Until(l.ready[0].due)
	if l.timer == nil {
		l.timer = time.AfterFunc(wait, l.expire)
		return
	}
	l.timer.Reset(wait)
}

// expire moves what is due to the target, in order. Where that is missing, it waits until it is
// declared. Of a DeadSet, which has none, what is due is gone.
func (l *list) expire() {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	target := l.b.queues[l.spec.Target]
	// The timer may fire as the broker ends, or as the queue is deleted and declared anew.
	if l.b.closed || l.b.queues[l.spec.Name] != l || target == nil && l.spec.Kind == queue.Delay {
		return
	}
	for now := time.Now(); len(l.ready) > 0 && !l.ready[0].due.After(now); {
		if i := l.pop(); target != nil {
			target.append(&item{m: i.m, from: l.spec.Name})
		}
	}
	l.arm()
}

// pop takes the oldest item out; there is one.
func (l *list) pop() *item {
	i := l.ready[0]
	// The slice's memory stays: without this it would hold the message.
	l.ready[0] = nil
	l.ready = l.ready[1:]
	return i
}

// signal wakes those who wait for a change.
func (l *list) signal() {
	if l.spec.Kind == queue.Log { // it is followed without a session
		close(l.b.news)
		l.b.news = make(chan struct{})
	}
	for _, s := range l.sessions {
		s.poke()
	}
}

// cut ends all sessions and the lease, as a lost connection does.
func (l *list) cut() {
	for _, s := range slices.Clone(l.sessions) {
		s.end()
	}
	if lease := l.b.leases[l.spec.Name]; lease != nil {
		lease.end()
	}
}

// stop ends the sessions and the timer of a queue that is no more.
func (l *list) stop() {
	l.cut()
	if l.timer != nil {
		l.timer.Stop()
	}
}
