package memory

import (
	"context"
	"slices"

	"github.com/stepwell/stepwell/internal/queue"
)

// session is the life of a consumer or a window. Its broker's lock guards all but ctx and changed.
type session struct {
	list *list
	// ctx ends with the session.
	ctx    context.Context
	cancel context.CancelFunc
	// out has what was handed out and is not settled, by tag.
	out map[uint64]*item
	// last is the tag given out last; tags begin at one, as those of an AMQP channel.
	last uint64
	over bool
	// changed is readable when there may be something to hand out, or nothing is out any more.
	changed chan struct{}

	window *window // nil: it is a consumer's
	// paused says that a pause holds the consumer back; nil: there is none.
	paused func() bool
}

// open begins a session. The lock must be held.
func (l *list) open() *session {
	s := &session{list: l, out: map[uint64]*item{}, changed: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	l.sessions = append(l.sessions, s)
	return s
}

func (s *session) poke() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// take hands the oldest item out. The lock must be held.
func (s *session) take() queue.Delivery {
	i := s.list.pop()
	s.list.arm()
	s.last++
	s.out[s.last] = i
	return queue.Delivery{
		Message: clone(i.m), Queue: s.list.spec.Name, From: i.from, Redelivered: i.returns > 0, Returns: i.returns, Tag: s.last, Session: s,
	}
}

// Ack removes the message.
func (s *session) Ack(tag uint64) { s.settle(tag, false) }

// Release gives the message back to its place.
func (s *session) Release(tag uint64) { s.settle(tag, true) }

// Flush has nothing to wait for.
func (s *session) Flush(context.Context) error { return nil }

func (s *session) settle(tag uint64, back bool) {
	s.list.b.mu.Lock()
	defer s.list.b.mu.Unlock()
	i := s.out[tag]
	if i == nil || back && s.window != nil { // settled before, or the session is over; a window gives back when it ends
		return
	}
	delete(s.out, tag)
	switch {
	case back:
		s.back(i)
	case s.window != nil:
		s.window.acks(i)
	}
	s.poke()
}

// back returns an item to its place in the queue, and counts that, as a quorum queue does.
func (s *session) back(i *item) {
	i.returns++
	s.list.add(i)
}

// end gives everything back that was not settled. The lock must be held.
func (s *session) end() {
	if s.over {
		return
	}
	s.over = true
	s.cancel()
	s.list.sessions = slices.DeleteFunc(s.list.sessions, func(o *session) bool { return o == s })
	for _, i := range s.out {
		s.back(i)
	}
	clear(s.out)
	if s.window != nil {
		s.window.end()
	}
	s.poke()
}
