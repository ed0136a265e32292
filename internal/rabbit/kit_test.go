package rabbit

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/testbroker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// onEach runs the test on every RabbitMQ there is, at the same time, and beside other tests: it
// calls t.Parallel.
func onEach(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	t.Parallel()
	inTurn(t, func(t *testing.T, url string) {
		t.Parallel()
		test(t, url)
	})
}

// inTurn runs the test on one RabbitMQ after the other.
func inTurn(t *testing.T, test func(t *testing.T, url string)) {
	for _, node := range testbroker.RabbitMQs(t) {
		t.Run(node.Version, func(t *testing.T) { test(t, node.URL) })
	}
}

// onOwn runs the test on nodes of its own, the oldest and the newest, at the same time, and beside
// other tests.
func onOwn(t *testing.T, o testbroker.RabbitOptions, test func(t *testing.T, node *testbroker.Rabbit)) {
	t.Helper()
	t.Parallel()
	for _, version := range testbroker.Releases() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			test(t, testbroker.StartRabbitMQ(t, version, o))
		})
	}
}

// run runs a broker until the test ends, or the returned function is called.
func run(t *testing.T, config Config) (*Broker, func()) {
	t.Helper()
	if config.Logger == nil {
		config.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	b := New(config)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := b.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	stop := func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return b, stop
}

// names are a stream's queues with names of this test's own; they are deleted afterwards.
type names struct{ instant, delay, dead string }

func newNames(t *testing.T, url string) names {
	t.Helper()
	base := fmt.Sprintf("rabbit-test-%d", rand.Uint64())
	n := names{base + ".instant", base + ".delay.300", base + ".dead_set"}
	if url != "" {
		t.Cleanup(func() {
			for _, name := range []string{n.delay, n.instant, n.dead} {
				deleteQueue(t, url, name)
			}
		})
	}
	return n
}

func (n names) specs() []queue.Spec {
	return []queue.Spec{
		{Name: n.delay, Kind: queue.Delay, TTL: 300 * time.Millisecond, Target: n.instant},
		{Name: n.instant, Kind: queue.Instant, Target: n.dead},
		{Name: n.dead, Kind: queue.DeadSet},
	}
}

func declare(t *testing.T, b *Broker, specs []queue.Spec) {
	t.Helper()
	if err := b.Declare(within(t, 30*time.Second), specs); err != nil {
		t.Fatalf("Declare: %v", err)
	}
}

// within is a context of the test that ends after d.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// raw gives f a channel that our code knows nothing of.
func raw(t *testing.T, url string, f func(ch *amqp.Channel) error) {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err == nil {
		err = f(ch)
	}
	if err != nil {
		t.Fatalf("on a channel of the test's own: %v", err)
	}
}

func deleteQueue(t *testing.T, url, name string) {
	t.Helper()
	raw(t, url, func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(name, false, false, false)
		return err
	})
}

// tally gathers what done was told.
type tally struct {
	mu    sync.Mutex
	ok    int
	errs  []error
	all   chan struct{}
	await int
}

func newTally(n int) *tally { return &tally{all: make(chan struct{}), await: n} }

func (c *tally) done(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.ok++
	} else {
		c.errs = append(c.errs, err)
	}
	if c.ok+len(c.errs) == c.await {
		close(c.all)
	}
}

func (c *tally) told() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ok + len(c.errs)
}

// wait returns when all were told, and fails the test when that takes too long or any was told an
// error.
func (c *tally) wait(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-c.all:
	case <-time.After(d):
		t.Fatalf("after %s only %d of %d publishes were told what became of them", d, c.told(), c.await)
	}
	if len(c.errs) > 0 {
		t.Fatalf("%d publishes failed, the first with: %v", len(c.errs), c.errs[0])
	}
}

// publish publishes messages with the ids from … to-1 and waits for their confirms.
func publish(t *testing.T, b *Broker, name string, from, to int) {
	t.Helper()
	c := newTally(to - from)
	p := b.Publisher("test")
	for i := from; i < to; i++ {
		p.Publish(t.Context(), name, numbered(i), c.done)
	}
	c.wait(t, time.Minute)
}

func numbered(i int) queue.Message {
	return queue.Message{ID: fmt.Sprintf("m-%06d", i), Body: []byte("x")}
}

// eventually waits until what is asked for is so.
func eventually(t *testing.T, d time.Duration, what string, is func() bool) {
	t.Helper()
	ctx := within(t, d)
	for !is() {
		if !sleep(ctx, 5*time.Millisecond) {
			t.Fatalf("not within %s: %s", d, what)
		}
	}
}

func depthIs(t *testing.T, b *Broker, name string, want int) {
	t.Helper()
	var got int
	eventually(t, 15*time.Second, fmt.Sprintf("%d messages in %s", want, name), func() bool {
		var err error
		got, err = b.Depth(t.Context(), name)
		return err == nil && got == want
	})
}
