package rabbit

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
)

func TestQueueWithOtherArgumentsIsNamed(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		raw(t, url, func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(n.instant, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
			return err
		})
		b, _ := run(t, Config{URLs: []string{url}})
		err := b.Declare(t.Context(), n.specs())
		if err == nil || !strings.Contains(err.Error(), n.instant) || !strings.Contains(err.Error(), "inequivalent") {
			t.Fatalf("Declare: %v", err)
		}
		t.Log(err)
	})
}

func TestNewQueuesAreLeftAloneUntilAKillCannotUndoThem(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		b, _ := run(t, Config{URLs: []string{url}})
		since := time.Now()
		declare(t, b, n.specs())
		if took := time.Since(since); took < settleTime {
			t.Errorf("new queues were said to be ready after %s", took)
		}
		since = time.Now()
		declare(t, b, n.specs())
		if took := time.Since(since); took >= settleTime {
			t.Errorf("queues that were there took %s", took)
		}
	})
}

func TestCheckingCreatesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		b, _ := run(t, Config{URLs: []string{url}, DeclareOnlyCheck: true})
		err := b.Declare(t.Context(), n.specs())
		if err == nil || !strings.Contains(err.Error(), "RABBITMQ_DECLARE") || !strings.Contains(err.Error(), n.dead) {
			t.Errorf("Declare: %v", err)
		}
		if _, err := b.Depth(t.Context(), n.dead); code(err) != amqp.NotFound {
			t.Errorf("the queue afterwards: %v", err)
		}
		creator, _ := run(t, Config{URLs: []string{url}})
		declare(t, creator, n.specs())
		declare(t, b, n.specs())
	})
}

// Each argument is there for a trap: at-least-once is nothing without reject-publish, no delivery limit is 20 on 4.x and none on 3.10, and a
// changed one is another layout, which brokers refuse.
func TestQueuesHaveTheArgumentsOfTheirLayoutAndNoOthers(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		moved := func(to string, more amqp.Table) amqp.Table {
			args := amqp.Table{
				"x-queue-type": "quorum", "x-delivery-limit": int64(1_000_000), "x-overflow": "reject-publish",
				"x-dead-letter-exchange": "", "x-dead-letter-routing-key": to, "x-dead-letter-strategy": "at-least-once",
			}
			maps.Copy(args, more)
			return args
		}
		want := map[string]amqp.Table{
			n.delay:   moved(n.instant, amqp.Table{"x-message-ttl": int64(300)}),
			n.instant: moved(n.dead, nil),
			n.dead:    {"x-queue-type": "quorum", "x-delivery-limit": int64(1_000_000), "x-single-active-consumer": true},
		}
		b, _ := run(t, Config{URLs: []string{url}})
		declare(t, b, n.specs())
		for _, spec := range n.specs() {
			if got, err := arguments(spec); err != nil || !maps.Equal(got, want[spec.Name]) {
				t.Errorf("%s: %v, %v", spec.Name, got, err)
			}
			raw(t, url, func(ch *amqp.Channel) error { // the broker refuses this where it has others
				_, err := ch.QueueDeclare(spec.Name, true, false, false, false, want[spec.Name])
				return err
			})
		}
	})
}

func TestAQueueIsDeclaredAfterTheOneItPointsTo(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		b, _ := run(t, Config{URLs: []string{url}, BackoffMin: time.Millisecond, BackoffMax: 5 * time.Millisecond})
		blockInstant := func() {
			for _, name := range []string{n.delay, n.instant, n.dead} {
				deleteQueue(t, url, name)
			}
			raw(t, url, func(ch *amqp.Channel) error {
				_, err := ch.QueueDeclare(n.instant, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
				return err
			})
		}
		onlyTargetsAreThere := func(when string) {
			t.Helper()
			if _, err := b.Depth(t.Context(), n.dead); err != nil {
				t.Errorf("%s the dead set, to which the instant queue points, is not there: %v", when, err)
			}
			if _, err := b.Depth(t.Context(), n.delay); code(err) != amqp.NotFound {
				t.Errorf("%s the delay queue is there before the instant queue, to which it points: %v", when, err)
			}
		}
		blockInstant()
		if err := b.Declare(t.Context(), n.specs()); code(err) != amqp.PreconditionFailed {
			t.Fatalf("Declare: %v", err)
		}
		onlyTargetsAreThere("declared:")
		blockInstant()
		b.topology.remember(n.specs()[:1])
		b.topology.remember(n.specs()[1:])
		b.topology.missing()
		eventually(t, 10*time.Second, "the repair to meet the instant queue", func() bool {
			return strings.Contains(b.Status().Detail, n.instant+" exists with other arguments")
		})
		onlyTargetsAreThere("repaired:")
	})
}

func TestDeclareOfASpecThatCannotBeIsRefused(t *testing.T) {
	for _, spec := range []queue.Spec{{Name: "q"}, {Name: "q", Kind: queue.Delay}, {Name: "q", Kind: queue.Instant}} {
		if _, err := arguments(spec); err == nil || !strings.Contains(err.Error(), "q") {
			t.Errorf("%+v: %v", spec, err)
		}
	}
}

// text is a buffer for logs.
type text struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (w *text) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.Write(p)
}

func (w *text) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.String()
}

func TestQueueThatVanishedIsDeclaredAgainAndReported(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		var log text
		proxy := newProxy(t, url)
		b, _ := run(t, Config{URLs: []string{proxy.url}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		declare(t, b, n.specs())
		deleteQueue(t, url, n.delay)
		proxy.cut() // the next session looks at all of them
		eventually(t, 10*time.Second, "the queue to be back", func() bool {
			_, err := b.Depth(t.Context(), n.delay)
			return err == nil
		})
		eventually(t, time.Second, "a line in the log", func() bool {
			return strings.Contains(log.String(), "queue was missing and has been declared again") && strings.Contains(log.String(), n.delay)
		})
	})
}

func TestAQueueWhoseDeclarationWasNotAnsweredCountsAsDeclaredAgain(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		var log text
		var deleted, missed, stolen atomic.Bool
		proxy := newThief(t, url, func(class, method uint16) bool {
			channelClose, declareOK := class == 20 && method == 40, class == 50 && method == 11
			if channelClose && deleted.Load() { // the queue is not found
				missed.Store(true)
			}
			return declareOK && missed.Load() && stolen.CompareAndSwap(false, true)
		})
		b, _ := run(t, Config{URLs: []string{proxy.url}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		declare(t, b, n.specs())
		deleted.Store(true)
		deleteQueue(t, url, n.delay)
		b.topology.missing()
		eventually(t, callLimit+10*time.Second, "a line in the log", func() bool {
			return strings.Contains(log.String(), "queue was missing and has been declared again") && strings.Contains(log.String(), n.delay)
		})
		if got := b.topology.creations(n.delay); got != 2 || !stolen.Load() {
			t.Errorf("the queue was created %d times, an answer stolen: %v", got, stolen.Load())
		}
	})
}

func TestAQueueMadeAnewIsNotPublishedToUntilAKillCannotUndoIt(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		b, _ := run(t, Config{URLs: []string{url}})
		declare(t, b, n.specs())
		publish(t, b, n.delay, 0, 1)
		deleteQueue(t, url, n.delay)
		since := time.Now()
		publish(t, b, n.delay, 1, 50) // comes back, has the queue declared, and waits
		if took := time.Since(since); took < settleTime {
			t.Errorf("stored %s after the queue before was deleted: a node that is killed then forgets it", took)
		}
		if got := b.topology.creations(n.delay); got != 2 {
			t.Errorf("the queue was created %d times", got)
		}
	})
}

func TestOutageIsLoggedOnceNotWithEachAttempt(t *testing.T) {
	var log text
	b, stop := run(t, Config{
		URLs: []string{"amqp://127.0.0.1:1"}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		BackoffMin: time.Millisecond, BackoffMax: 2 * time.Millisecond,
	})
	eventually(t, 5*time.Second, "a reason", func() bool { return strings.Contains(b.Status().Detail, "refused") })
	sleep(t.Context(), 100*time.Millisecond)
	stop()
	if lines := strings.Count(log.String(), "\n"); lines != 1 {
		t.Errorf("%d lines:\n%s", lines, log.String())
	}
}

func TestEverythingEndsWithRun(t *testing.T) {
	b, stop := run(t, Config{URLs: []string{"amqp://127.0.0.1:1"}})
	stop()
	if err := b.Declare(t.Context(), nil); !errors.Is(err, queue.ErrClosed) {
		t.Errorf("Declare: %v", err)
	}
	if err := b.Consume(t.Context(), t.Context(), queue.Consumption{Queue: "q"}); !errors.Is(err, queue.ErrClosed) {
		t.Errorf("Consume: %v", err)
	}
	if _, err := b.Depth(t.Context(), "q"); !errors.Is(err, queue.ErrClosed) {
		t.Errorf("Depth: %v", err)
	}
	if _, err := b.Lease(t.Context(), "q"); !errors.Is(err, queue.ErrClosed) {
		t.Errorf("Lease: %v", err)
	}
	if err := b.Run(context.Background()); err == nil {
		t.Error("Run twice: no error")
	}
}

func TestCutsWhileQueuesAreDeclaredAreNoError(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		proxy := newProxy(t, url)
		b, _ := run(t, Config{URLs: []string{proxy.url}, BackoffMin: time.Millisecond, BackoffMax: 5 * time.Millisecond})
		declare(t, b, n.specs())
		for round := range 80 {
			done := make(chan error, 1)
			go func() { done <- b.Declare(t.Context(), n.specs()) }()
			select { // at another moment of the declaration in each round
			case err := <-done:
				done <- err
			case <-time.After(time.Duration(round%40) * 100 * time.Microsecond):
			}
			proxy.cut()
			if err := <-done; err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
	})
}
