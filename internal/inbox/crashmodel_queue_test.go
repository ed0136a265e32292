package inbox_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// How long things take between a process of the model and its broker.
const (
	sendTime    = 2 * time.Millisecond // from a publish until the broker has it
	confirmTime = 3 * time.Millisecond // until the publisher knows
	ackTime     = time.Millisecond     // until the broker has an ack: sooner than what was published before it
	waitTime    = s                    // in the queue beside
)

// The queues of the model.
const (
	modelMain = "orders"
	modelWait = "orders.wait"
	modelDead = "orders.dead"
)

var errProcessDied = errors.New("the process died")

// modelQueue is one queue as RabbitMQ keeps it: it goes through its consumers in turn, sends each
// as much as its prefetch says, and counts what comes back. What rests in the queue beside is here,
// too. The lock of its world guards it.
type modelQueue struct {
	w *crashWorld
	// items are all that are in the queue, whoever has them.
	items []*item
	// ready are those of them that nobody has, in the order in which they are handed out.
	ready []*item
	// sessions are those of the processes, in turn.
	sessions []*session
	// newRabbit has 4.3 in place of 3.10: what a process gives back is not counted, and is handed
	// out after the others.
	newRabbit bool
}

// item is a message in the queue.
type item struct {
	m       queue.Message
	returns int64
	back    bool     // it was handed out before
	with    *session // nil: it is ready, or rests
	rests   bool     // it is in the queue beside
	acked   bool     // an ack is on its way
	// waited is for how long it was not called though it was not suspected and somebody was free.
	waited time.Duration
}

func (i *item) suspected() bool {
	_, suspect := i.m.Headers["x-stepwell-suspect"]
	return suspect || i.returns > 10
}

// arrive stores what was published. The lock must be held.
func (q *modelQueue) arrive(to string, m queue.Message) {
	q.w.note("%s comes to %s: %s", m.ID, to, headersOf(m))
	if to == modelDead {
		q.w.dead[m.ID]++
		return
	}
	i := &item{m: m}
	q.items = append(q.items, i)
	if to == modelMain {
		q.add(i)
		return
	}
	i.rests = true
	time.AfterFunc(waitTime, func() { q.w.change(func() { i.rests = false; q.add(i) }) })
}

func (q *modelQueue) add(i *item) {
	q.ready = append(q.ready, i)
	q.dispatch()
}

// dispatch sends what is ready to those who have room.
func (q *modelQueue) dispatch() {
	for len(q.ready) > 0 {
		at := slices.IndexFunc(q.sessions, (*session).hasRoom)
		if at < 0 {
			return
		}
		s := q.sessions[at]
		q.sessions = append(slices.Delete(q.sessions, at, at+1), s) // it is the last one's turn again
		i := q.ready[0]
		q.ready = q.ready[1:]
		s.last++
		i.with, s.out[s.last] = s, i
		q.w.note("%s goes to process %d, returns %d: %s", i.m.ID, s.l.p.number, i.returns, headersOf(i.m))
		s.buffer = append(s.buffer, s.last)
		s.poke()
	}
}

// back returns an item to the queue.
func (q *modelQueue) back(i *item, released bool) {
	i.with, i.acked, i.back = nil, false, true
	q.w.note("%s goes back, released %v: %s", i.m.ID, released, headersOf(i.m))
	switch {
	case released && q.newRabbit:
		q.ready = append(q.ready, i)
	default:
		i.returns++
		q.ready = slices.Insert(q.ready, 0, i)
	}
}

func (q *modelQueue) remove(i *item) {
	q.items = slices.DeleteFunc(q.items, func(other *item) bool { return other == i })
	q.w.mustBeSomewhere(i.m.ID)
}

// session is one connection's consumer.
type session struct {
	l      *link
	c      queue.Consumption
	ctx    context.Context // ends with the session
	end    context.CancelFunc
	over   bool
	listen bool             // the broker may send more
	out    map[uint64]*item // what was sent and is not settled, by tag
	last   uint64
	buffer []uint64 // what was sent and not handed over yet
	hand   context.CancelFunc
	news   chan struct{}
}

func (s *session) hasRoom() bool { return s.listen && !s.over && len(s.out) < s.c.Prefetch() }

func (s *session) poke() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// next takes what was sent first. In a pause there is nothing, and what was sent ahead goes back.
func (s *session) next() (d queue.Delivery, ok bool) {
	q := &s.l.p.w.queue
	if s.c.Paused() {
		s.giveBack()
	}
	q.w.change(func() {
		s.listen = !s.c.Paused()
		q.dispatch()
		if len(s.buffer) == 0 || s.over {
			return
		}
		d, ok = s.first(), true
	})
	return d, ok
}

// first takes what was sent first, if there is anything. The lock must be held.
func (s *session) first() queue.Delivery {
	tag, i := s.buffer[0], s.out[s.buffer[0]]
	s.buffer = s.buffer[1:]
	d := queue.Delivery{Message: cloned(i.m), Queue: modelMain, Redelivered: i.back, Tag: tag, Session: s, Life: s.ctx}
	if i.back {
		d.Returns = i.returns
	}
	return d
}

func cloned(m queue.Message) queue.Message {
	m.Headers = maps.Clone(m.Headers)
	return m
}

// giveBack releases what was sent ahead, unless the owner takes it though nothing is handed out.
func (s *session) giveBack() {
	over, end := context.WithCancel(s.ctx)
	end()
	var all []queue.Delivery
	s.l.p.w.change(func() {
		s.listen = false
		for len(s.buffer) > 0 && !s.over {
			all = append(all, s.first())
		}
	})
	for _, d := range slices.Backward(all) {
		if !s.c.Handle(over, d) {
			s.l.p.w.change(func() { s.refuse(d.Tag) })
		}
	}
}

// refuse releases what no worker took. The lock must be held.
func (s *session) refuse(tag uint64) {
	if i := s.out[tag]; i != nil {
		delete(s.out, tag)
		s.l.p.w.queue.back(i, true)
	}
}

// handOut hands over what comes until stop or the session ends.
func (s *session) handOut(stop context.Context) {
	ctx, cancel := context.WithCancel(stop)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	for ctx.Err() == nil {
		d, ok := s.next()
		if !ok {
			select {
			case <-ctx.Done():
			case <-s.news:
			}
			continue
		}
		one, end := context.WithCancel(ctx)
		s.l.p.w.change(func() { s.hand = end })
		if !s.c.Handle(one, d) {
			s.l.p.w.change(func() { s.refuse(d.Tag) })
		}
		end()
	}
}

// drain waits until all is settled that was handed over, or work or the session ends.
func (s *session) drain(work context.Context) {
	s.giveBack()
	s.l.p.w.change(s.l.p.w.queue.dispatch)
	for {
		left := 0
		s.l.p.w.change(func() { left = len(s.out) })
		if left == 0 {
			return
		}
		select {
		case <-work.Done():
			return
		case <-s.ctx.Done():
			return
		case <-s.news:
		}
	}
}

// close ends the session: in order, after the last acks, or because the connection is cut, which
// loses acks that are on their way.
func (s *session) close(inOrder bool) {
	if s.over {
		return
	}
	q := &s.l.p.w.queue
	s.over = true
	s.end()
	q.sessions = slices.DeleteFunc(q.sessions, func(other *session) bool { return other == s })
	for _, tag := range slices.Backward(slices.Sorted(maps.Keys(s.out))) {
		switch i := s.out[tag]; {
		case inOrder && i.acked:
			q.remove(i)
		default:
			q.back(i, false)
		}
	}
	clear(s.out)
	q.dispatch()
}

// Ack removes the message, a little later.
func (s *session) Ack(tag uint64) {
	s.l.p.w.change(func() {
		if i := s.out[tag]; i != nil && !s.over {
			i.acked = true
			time.AfterFunc(ackTime, func() { s.l.p.w.change(func() { s.ackCame(tag) }) })
		}
	})
}

func (s *session) ackCame(tag uint64) {
	i := s.out[tag]
	if i == nil || s.over {
		return
	}
	delete(s.out, tag)
	s.l.p.w.queue.remove(i)
	s.l.p.w.queue.dispatch()
	s.poke()
}

// Release gives the message back.
func (s *session) Release(tag uint64) {
	s.l.p.w.change(func() {
		if i := s.out[tag]; i != nil && !s.over {
			delete(s.out, tag)
			s.l.p.w.queue.back(i, true)
			s.l.p.w.queue.dispatch()
			s.poke()
		}
	})
}

// Flush waits until the broker has the acks.
func (s *session) Flush(ctx context.Context) error {
	select {
	case <-time.After(ackTime):
		return nil
	case <-s.ctx.Done():
		return queue.ErrUnavailable
	case <-ctx.Done():
		return ctx.Err()
	}
}

// link is all that a process has of the broker: its Consumer and its Publisher.
type link struct {
	p       *process
	up      bool
	since   int           // counts the connections
	changes []time.Time   // of up, which was true before the first
	changed chan struct{} // closed, and made anew, when up has changed
	s       *session
	sends   []*send
	// trap is what happens after the next publish; nil: nothing does.
	trap func()
	// shows is what Show was called with.
	shows map[string]bool
}

// Show has the process be seen to live.
func (l *link) Show(name string) { l.p.w.change(func() { l.shows[name] = true }) }

// Shown says whether somebody of that name is seen to live: who is connected, and for a while who
// died.
func (l *link) Shown(_ context.Context, name string) (shown bool, err error) {
	w := l.p.w
	w.change(func() {
		if w.blind || !l.up {
			err = queue.ErrUnavailable
			return
		}
		shown = slices.ContainsFunc(w.procs, func(p *process) bool {
			return p.link.shows[name] && (p.link.up || p.gone && time.Since(p.goneAt) < noticed)
		})
	})
	return shown, err
}

// Consume hands out until stop ends, through all cuts.
func (l *link) Consume(stop, work context.Context, c queue.Consumption) error {
	for stop.Err() == nil {
		var s *session
		var changed chan struct{}
		l.p.w.change(func() {
			if changed = l.changed; !l.up {
				return
			}
			s = &session{l: l, c: c, out: map[uint64]*item{}, news: make(chan struct{}, 1)}
			s.ctx, s.end = context.WithCancel(context.Background())
			l.s, l.p.w.queue.sessions = s, append(l.p.w.queue.sessions, s)
		})
		if s == nil {
			select {
			case <-stop.Done():
			case <-changed:
			}
			continue
		}
		if s.handOut(stop); stop.Err() != nil {
			s.drain(work)
		}
		l.p.w.change(func() { s.close(true) })
	}
	return nil
}

// cut ends the connection. What was published and has not come to the broker arrives, or does not.
func (l *link) cut(arrives bool) {
	if l.up {
		l.changes = append(l.changes, time.Now())
	}
	l.up = false
	l.p.w.note("process %d is cut off", l.p.number)
	if l.s != nil { // first: what arrives goes to somebody else
		l.s.close(false)
	}
	for _, one := range l.sends {
		if !one.stored && arrives && !l.p.w.refuses(one.to) {
			l.p.w.queue.arrive(one.to, one.m)
		}
	}
}

// connect connects again: what was not confirmed is published anew.
func (l *link) connect() {
	if l.up || l.p.gone {
		return
	}
	l.up = true
	l.changes = append(l.changes, time.Now())
	l.since++
	l.p.w.note("process %d is connected", l.p.number)
	for _, one := range l.sends {
		one.stored = false
		time.AfterFunc(sendTime, one.store)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// send is a message that was published and is not confirmed.
type send struct {
	l      *link
	ctx    context.Context
	to     string
	m      queue.Message
	done   func(error)
	once   sync.Once
	stored bool
}

// Publish sends the message; see queue.Publisher.
func (l *link) Publish(ctx context.Context, to string, m queue.Message, done func(error)) {
	one := &send{l: l, ctx: ctx, to: to, m: cloned(m), done: done}
	l.p.w.change(func() {
		if l.p.gone {
			one.finish(errProcessDied)
			return
		}
		l.sends = append(l.sends, one)
		time.AfterFunc(sendTime, one.store)
		if trap := l.trap; trap != nil {
			l.trap = nil
			trap()
		}
	})
	context.AfterFunc(ctx, func() {
		l.p.w.change(func() {
			if !one.stored || !l.up {
				one.finish(ctx.Err())
			}
		})
	})
}

// store has the message come to the broker, which confirms it if the connection lasts so long.
func (one *send) store() {
	w := one.l.p.w
	w.change(func() {
		switch {
		case !one.l.up || one.stored || !slices.Contains(one.l.sends, one):
		case one.to == modelDead && w.deadSet == refusing:
			one.finish(queue.ErrTooLarge)
		case one.to == modelDead && w.deadSet == silent:
			time.AfterFunc(s, one.store)
		default:
			one.stored = true
			w.queue.arrive(one.to, one.m)
			connection := one.l.since
			time.AfterFunc(confirmTime, func() {
				w.change(func() {
					if one.l.up && one.l.since == connection {
						one.finish(nil)
					}
				})
			})
		}
	})
}

// finish tells who published, once.
func (one *send) finish(err error) {
	one.l.sends = slices.DeleteFunc(one.l.sends, func(other *send) bool { return other == one })
	one.once.Do(func() { go one.done(err) })
}
