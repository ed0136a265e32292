package memory

import (
	"slices"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// list is one queue. Its broker's lock guards it.
type list struct {
	b        *Broker
	spec     queue.Spec
	ready    []*item // oldest first
	sessions []*session
	leased   bool
}

type item struct {
	m       queue.Message
	seq     uint64 // its place: what is given back goes there
	returns int64
	timer   *time.Timer
}

// add puts an item at its place, which is the end for a new one.
func (l *list) add(i *item) {
	at, _ := slices.BinarySearchFunc(l.ready, i.seq, func(i *item, seq uint64) int {
		switch {
		case i.seq < seq:
			return -1
		case i.seq > seq:
			return 1
		}
		return 0
	})
	l.ready = slices.Insert(l.ready, at, i)
	if l.spec.Kind == queue.Delay && i.timer == nil {
		i.timer = time.AfterFunc(l.spec.TTL, func() { l.expire(i) })
	}
	l.signal()
}

// expire moves an item whose time is up to the target. Where that is missing, the item waits and tries again, as RabbitMQ does.
func (l *list) expire(i *item) {
	const again = time.Second
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	at := slices.Index(l.ready, i)
	if at < 0 || l.b.closed || l.b.queues[l.spec.Name] != l {
		return
	}
	target := l.b.queues[l.spec.Target]
	if target == nil {
		i.timer.Reset(again)
		return
	}
	l.ready = slices.Delete(l.ready, at, at+1)
	l.b.seq++
	target.add(&item{m: i.m, seq: l.b.seq})
}

func (l *list) stopTimers() {
	for _, i := range l.ready {
		if i.timer != nil {
			i.timer.Stop()
		}
	}
}

// signal wakes those who wait for a change.
func (l *list) signal() {
	for _, s := range l.sessions {
		s.poke()
	}
}

// cut ends all sessions.
func (l *list) cut() {
	for _, s := range slices.Clone(l.sessions) {
		s.end()
	}
}
