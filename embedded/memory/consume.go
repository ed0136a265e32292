package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// Consume hands out the queue's messages until stop ends; see queue.Broker.
func (b *Broker) Consume(stop, work context.Context, c queue.Consumption) error {
	for stop.Err() == nil {
		s, err := b.session(stop, c)
		if errors.Is(err, queue.ErrClosed) {
			return fmt.Errorf("consume %s: %w", c.Queue, err)
		}
		if err != nil {
			break
		}
		k := &consumer{c: c, s: s, stop: stop}
		k.serve()
		// Where the session ended by itself there is nothing to settle: its messages are back in
		// the queue.
		if stop.Err() != nil {
			// What is being handled may still be acked: the session ends after that.
			k.drain(work)
		}
		b.mu.Lock()
		s.end()
		b.mu.Unlock()
	}
	return nil
}

// session waits until the queue is there.
func (b *Broker) session(ctx context.Context, c queue.Consumption) (s *session, err error) {
	err = b.await(ctx, func() (bool, error) {
		l := b.queues[c.Queue]
		if l == nil || b.down {
			return false, nil
		}
		s = l.open()
		s.paused = c.Paused
		return true, nil
	})
	return s, err
}

// prefetchEvery is how often it is asked whether more may be handed out, as on RabbitMQ.
const prefetchEvery = time.Second

// consumer is one session of a Consume.
type consumer struct {
	c    queue.Consumption
	s    *session
	stop context.Context
	// beside is the last tag that does not count against the prefetch; serve's goroutine alone has
	// it.
	beside uint64

	mu   sync.Mutex
	hand context.CancelFunc // ends the handing out of one message; nil while none is handed out
}

// serve hands out until stop or the session ends.
func (k *consumer) serve() {
	ctx, cancel := context.WithCancel(k.stop)
	var watching sync.WaitGroup
	// Deferred calls run backwards: the context ends first, and watch with it.
	defer watching.Wait()
	defer cancel()
	defer context.AfterFunc(k.s.ctx, cancel)()
	watching.Go(func() { k.watch(ctx) })
	for ctx.Err() == nil {
		d, ok, full := k.next()
		if ok {
			k.give(ctx, d)
			continue
		}
		var again <-chan time.Time
		if full {
			again = time.After(prefetchEvery)
		}
		select {
		case <-ctx.Done():
		case <-k.s.changed:
		case <-again:
			k.another()
		}
	}
}

// another leaves what is out beside the prefetch, if its owner says so.
func (k *consumer) another() {
	b := k.s.list.b
	b.mu.Lock()
	held, last := len(k.s.out), k.s.last
	b.mu.Unlock()
	if k.c.Another != nil && k.c.Another(held) {
		k.beside = last
	}
}

// counted is how many are out that count against the prefetch. The lock must be held.
func (k *consumer) counted() (n int) {
	if k.beside == 0 {
		return len(k.s.out)
	}
	for tag := range k.s.out {
		if tag > k.beside {
			n++
		}
	}
	return n
}

// watch ends a handing out that a pause overtook: the message is given back.
func (k *consumer) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.c.Changed:
			k.mu.Lock()
			if k.hand != nil && k.paused() {
				k.hand()
			}
			k.mu.Unlock()
			k.s.poke()
		}
	}
}

// give hands one message over; one that was not taken goes back to its place.
func (k *consumer) give(ctx context.Context, d queue.Delivery) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k.setHand(cancel)
	defer k.setHand(nil)
	if !k.c.Handle(ctx, d) {
		d.Release()
	}
}

func (k *consumer) setHand(cancel context.CancelFunc) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hand = cancel
	// A pause that began just before finds nothing to end.
	if cancel != nil && k.paused() {
		cancel()
	}
}

func (k *consumer) paused() bool { return k.c.Paused != nil && k.c.Paused() }

func (k *consumer) prefetch() int {
	n := 1
	if k.c.Prefetch != nil {
		n = max(n, k.c.Prefetch())
	}
	if k.c.Told != nil {
		k.c.Told(n)
	}
	return n
}

// next takes the oldest message, unless there is a pause or as many are out as the prefetch says,
// which full reports.
func (k *consumer) next() (d queue.Delivery, ok, full bool) {
	prefetch := k.prefetch()
	l := k.s.list
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	// Under the lock: what is released because of a stop or a pause must not come once more.
	if k.stop.Err() != nil || k.paused() || k.s.over || len(l.ready) == 0 {
		return d, false, false
	}
	if k.counted() >= prefetch {
		return d, false, true
	}
	d = k.s.take()
	d.Life = k.s.ctx
	if k.c.Foreign {
		d.Foreign = way(k.s.out[d.Tag], k.c.Queue)
	}
	return d, true, false
}

// way is how an item came. The default exchange has no name, and a queue's name as routing key.
func way(i *item, name string) *queue.Foreign {
	if i.by == nil {
		return &queue.Foreign{RoutingKey: name}
	}
	own := *i.by
	return &own
}

// drain waits until all that was handed out is settled, or work or the session ends.
func (k *consumer) drain(work context.Context) {
	for k.left() > 0 {
		select {
		case <-work.Done():
			return
		case <-k.s.changed:
		}
	}
}

func (k *consumer) left() int {
	k.s.list.b.mu.Lock()
	defer k.s.list.b.mu.Unlock()
	return len(k.s.out)
}
