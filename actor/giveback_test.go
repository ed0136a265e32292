package actor_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// slowBack are brokers that take nothing back before free is closed.
type slowBack struct {
	shared
	free        chan struct{}
	back, ended atomic.Bool // all was taken back; the brokers ended
}

func (b *slowBack) Run(ctx context.Context) error {
	<-ctx.Done()
	b.ended.Store(true)
	return nil
}

func (b *slowBack) Queues() queue.Broker { return slowQueues{b.shared.Queues(), b} }

type slowQueues struct {
	queue.Broker
	of *slowBack
}

func (q slowQueues) Lease(ctx context.Context, name string) (queue.Lease, error) {
	l, err := q.Broker.Lease(ctx, name)
	if err != nil {
		return nil, err
	}
	return slowLease{l, q.of}, nil
}

type slowLease struct {
	queue.Lease
	of *slowBack
}

func (l slowLease) Window(ctx context.Context, most, maxBytes int) (queue.Window, error) {
	w, err := l.Lease.Window(ctx, most, maxBytes)
	return slowWindow{w, l.of}, err
}

type slowWindow struct {
	queue.Window
	of *slowBack
}

func (w slowWindow) Close(ctx context.Context) (int, error) {
	<-w.of.free
	depth, err := w.Window.Close(ctx)
	w.of.back.Store(true)
	return depth, err
}

// peekSlowly starts an actor on such brokers and has it peek once.
func peekSlowly(t *testing.T, env settings) (*running, *slowBack, *book) {
	t.Helper()
	w := embeddedWorld(t)
	brokers := &slowBack{shared: shared{w.brokers}, free: make(chan struct{})}
	app, log := logged(dying(new(atomic.Bool)))
	app.Brokers = brokers
	r := w.start(app, env)
	w.produce(numbered(2)...)
	eventually(t, "both are dead", func() bool { return r.depths()[w.queue("orders", "dead_set")] == 2 })
	if shown := valuesOf(r.dead(2)); shown != "0 1" || brokers.back.Load() {
		t.Fatalf("it shows %s; all is back: %t", shown, brokers.back.Load())
	}
	return r, brokers, log
}

func TestAStopKeepsTheBrokersUntilAPeekHasGivenBackWhatItHeld(t *testing.T) {
	t.Parallel()
	r, brokers, log := peekSlowly(t, nil)
	r.stop()
	always(t, "the brokers run", time.Second, func() bool { return !brokers.ended.Load() })
	close(brokers.free)
	r.end()
	if !brokers.back.Load() || log.said("WARN", "peek") {
		t.Errorf("all is back: %t; the log says\n%s", brokers.back.Load(), log)
	}
}

func TestAStopThatHasNoTimeLeftForWhatAPeekHoldsSaysSoAndIsDone(t *testing.T) {
	t.Parallel()
	r, brokers, log := peekSlowly(t, settings{"SHUTDOWN_TIMEOUT": "10s"})
	t.Cleanup(func() { close(brokers.free) })
	began := time.Now()
	r.end()
	if took := time.Since(began); took > 18*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if brokers.back.Load() || !log.said("WARN", "peek has not given back") {
		t.Errorf("all is back: %t; the log says\n%s", brokers.back.Load(), log)
	}
}
