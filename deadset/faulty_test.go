package deadset_test

import (
	"context"
	"sync"

	"github.com/stepwell/stepwell/internal/queue"
)

// faulty counts the steps of a walk, and calls crash when it comes to one of them: before and after
// each publish, confirm, ack, and each call for a lease or a window.
type faulty struct {
	queue.Broker
	crash func()
	age   int64 // how often a message is said to have been handed out when it was once; 0: 1

	mu    sync.Mutex
	steps int
	at    int // 0: never
}

func (f *faulty) step() {
	f.mu.Lock()
	f.steps++
	now := f.steps == f.at
	f.mu.Unlock()
	if now {
		f.crash()
	}
}

func (f *faulty) reached() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at != 0 && f.steps >= f.at
}

func (f *faulty) Publisher(name string) queue.Publisher {
	return &faultyPublisher{f.Broker.Publisher(name), f}
}

type faultyPublisher struct {
	queue.Publisher
	f *faulty
}

func (p *faultyPublisher) Publish(ctx context.Context, name string, m queue.Message, done func(error)) {
	p.f.step()
	p.Publisher.Publish(ctx, name, m, func(err error) { p.f.step(); done(err) })
	p.f.step()
}

func (f *faulty) Lease(ctx context.Context, name string) (queue.Lease, error) {
	f.step()
	l, err := f.Broker.Lease(ctx, name)
	f.step()
	if err != nil {
		return nil, err
	}
	return &faultyLease{l, f}, nil
}

type faultyLease struct {
	queue.Lease
	f *faulty
}

func (l *faultyLease) Window(ctx context.Context, most, maxBytes int) (queue.Window, error) {
	w, err := l.Lease.Window(ctx, most, maxBytes)
	l.f.step()
	if err != nil {
		return nil, err
	}
	return newFaultyWindow(w, l.f), nil
}

func (l *faultyLease) On(spec queue.Spec) queue.Lease { return &faultyLease{l.Lease.On(spec), l.f} }

func (l *faultyLease) Release() { l.Lease.Release(); l.f.step() }

type faultyWindow struct {
	queue.Window
	f         *faulty
	out       chan queue.Delivery
	forwarder sync.WaitGroup
	closed    chan struct{}
}

func newFaultyWindow(of queue.Window, f *faulty) *faultyWindow {
	w := &faultyWindow{Window: of, f: f, out: make(chan queue.Delivery), closed: make(chan struct{})}
	w.forwarder.Go(func() {
		defer close(w.out)
		for d := range of.Deliveries() {
			d.Session = &faultySession{d.Session, f}
			d.Returns *= max(f.age, 1)
			select {
			case w.out <- d:
			case <-w.closed:
				return
			}
		}
	})
	return w
}

func (w *faultyWindow) Deliveries() <-chan queue.Delivery { return w.out }

func (w *faultyWindow) Close(ctx context.Context) (int, error) {
	w.f.step()
	close(w.closed)
	depth, err := w.Window.Close(ctx)
	w.forwarder.Wait()
	w.f.step()
	return depth, err
}

type faultySession struct {
	queue.Session
	f *faulty
}

func (s *faultySession) Ack(tag uint64) { s.f.step(); s.Session.Ack(tag); s.f.step() }
