package rabbit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/testbroker"
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
		if err == nil || !strings.Contains(err.Error(), "rabbitmq.declare") || !strings.Contains(err.Error(), n.dead) {
			t.Errorf("Declare: %v", err)
		}
		if _, err := b.Depth(t.Context(), n.dead); code(err) != amqp.NotFound {
			t.Errorf("the queue afterwards: %v", err)
		}
		creator, _ := run(t, Config{URLs: []string{url}})
		declare(t, creator, n.specs())
		declare(t, b, n.specs())
		if got := b.ReturnLimit(n.dead); got != 1_000_000 {
			t.Errorf("a queue whose arguments were compared is taken to bear %d returns", got)
		}
	})
}

// With the queues' own arguments only: a delivery limit of 20, which 4.x has by default, drops what
// was looked at 21 times, and a delay queue without a strategy loses what is due when its node
// dies.
func TestCheckingRefusesAQueueWithOtherArgumentsAndNamesQueueAndArgument(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		b, _ := run(t, Config{URLs: []string{url}, DeclareOnlyCheck: true})
		for _, spec := range n.specs() {
			for argument := range mustArguments(t, spec) {
				args := amqp.Table(mustArguments(t, spec))
				delete(args, argument)
				switch argument {
				case "x-queue-type", "x-dead-letter-exchange": // without these others cannot be there
					args = amqp.Table{"x-queue-type": "quorum"}
				}
				made := queue.Spec{Name: fmt.Sprintf("%s.%d", spec.Name, rand.Uint64()), Kind: spec.Kind, TTL: spec.TTL, Target: spec.Target}
				raw(t, url, func(ch *amqp.Channel) error {
					_, err := ch.QueueDeclare(made.Name, true, false, false, false, args)
					return err
				})
				t.Cleanup(func() { deleteQueue(t, url, made.Name) })
				err := b.Declare(t.Context(), []queue.Spec{made})
				if err == nil || !strings.Contains(err.Error(), made.Name) || !strings.Contains(err.Error(), "inequivalent arg 'x-") {
					t.Errorf("%s without %s: %v", made.Name, argument, err)
				}
				if got := b.ReturnLimit(made.Name); got != 20 {
					t.Errorf("%s is taken to bear %d returns", made.Name, got)
				}
			}
		}
	})
}

func mustArguments(t *testing.T, spec queue.Spec) map[string]any {
	t.Helper()
	args, err := Arguments(spec)
	if err != nil {
		t.Fatal(err)
	}
	return args
}

func TestAQueueThatALimitOfTheVhostForbidsIsNotTakenForOneWithOtherArguments(t *testing.T) {
	onOwn(t, testbroker.RabbitOptions{}, func(t *testing.T, node *testbroker.Rabbit) {
		n := newNames(t, "")
		b, _ := run(t, Config{URLs: []string{node.URL}})
		node.Ctl("set_vhost_limits", `{"max-queues":0}`)
		err := b.Declare(within(t, 30*time.Second), n.specs())
		if err == nil || !strings.Contains(err.Error(), "refuses to create queue "+n.dead) || !strings.Contains(err.Error(), "queue limit") {
			t.Errorf("Declare: %v", err)
		}
		node.Ctl("clear_vhost_limits")
		declare(t, b, n.specs())
	})
}

func TestWithoutTheRightToConfigureCheckingSaysAtEachStartThatArgumentsAreNotCompared(t *testing.T) {
	onOwn(t, testbroker.RabbitOptions{}, func(t *testing.T, node *testbroker.Rabbit) {
		n := newNames(t, "")
		raw(t, node.URL, func(ch *amqp.Channel) error {
			for _, spec := range n.specs() {
				if _, err := ch.QueueDeclare(spec.Name, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
					return err
				}
			}
			return nil
		})
		node.Ctl("add_user", "worker", "secret")
		node.Ctl("set_permissions", "worker", `^.*\.lease$`, `^amq\.default$`, ".*")
		for _, start := range []string{"first", "second"} {
			var log text
			b, stop := run(t, Config{
				URLs: []string{node.URL}, Username: "worker", Password: "secret", DeclareOnlyCheck: true,
				Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			declare(t, b, n.specs())
			for _, name := range []string{n.delay, n.instant, n.dead} {
				if got := b.ReturnLimit(name); got != 20 {
					t.Errorf("%s is taken to bear %d returns", name, got)
				}
				if said := log.String(); strings.Count(said, "could not be compared") != 1 || !strings.Contains(said, name) {
					t.Errorf("the log of the %s start: %s", start, said)
				}
			}
			stop()
		}
		node.Ctl("set_permissions", "worker", ".*", `^amq\.default$`, ".*")
		b, _ := run(t, Config{URLs: []string{node.URL}, Username: "worker", Password: "secret", DeclareOnlyCheck: true})
		if err := b.Declare(within(t, 30*time.Second), n.specs()); err == nil || !strings.Contains(err.Error(), "inequivalent arg") {
			t.Errorf("with the right to configure: %v", err)
		}
	})
}

// Each argument is there for a trap: at-least-once is nothing without reject-publish, no delivery
// limit is 20 on 4.x and none on 3.10, and a changed one is another layout, which brokers refuse.
func TestQueuesHaveTheArgumentsOfTheirLayoutAndNoOthers(t *testing.T) {
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
			if got, err := Arguments(spec); err != nil || !maps.Equal(got, want[spec.Name]) {
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
			if _, err := b.Depth(t.Context(), n.dead); code(err) == amqp.NotFound {
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
		b.topology.missing(n.instant)
		eventually(t, 10*time.Second, "the repair to meet the instant queue", func() bool {
			return strings.Contains(b.Status().Detail, n.instant+" exists with other arguments")
		})
		onlyTargetsAreThere("repaired:")
	})
}

func TestDeclareOfASpecThatCannotBeIsRefused(t *testing.T) {
	for _, spec := range []queue.Spec{{Name: "q"}, {Name: "q", Kind: queue.Delay}, {Name: "q", Kind: queue.Instant}} {
		if _, err := Arguments(spec); err == nil || !strings.Contains(err.Error(), "q") {
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

func TestAQueueThatIsRefusedKeepsOnlyThoseThatNeedItFromBeingDeclaredAgain(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		bad, well := newNames(t, url), newNames(t, url)
		b, _ := run(t, Config{URLs: []string{url}})
		declare(t, b, append(bad.specs(), well.specs()...))
		for _, name := range []string{bad.dead, bad.instant, bad.delay, well.dead, well.instant, well.delay} {
			deleteQueue(t, url, name)
		}
		raw(t, url, func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(bad.dead, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
			return err
		})
		b.topology.missing(bad.dead)
		eventually(t, 10*time.Second, "the repair to meet the queue", func() bool {
			return strings.Contains(b.Status().Detail, bad.dead+" exists with other arguments")
		})
		for _, name := range []string{well.dead, well.instant, well.delay} {
			if _, err := b.Depth(t.Context(), name); err != nil {
				t.Errorf("%s of another stream is not declared again: %v", name, err)
			}
		}
		for _, name := range []string{bad.instant, bad.delay} {
			if _, err := b.Depth(t.Context(), name); code(err) != amqp.NotFound {
				t.Errorf("%s is there, whose messages end in a queue that is not ours: %v", name, err)
			}
		}
	})
}

func TestAQueueThatALookFindsMissingIsDeclaredAgainAndReported(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		var log text
		b, _ := run(t, Config{URLs: []string{url}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		declare(t, b, n.specs())
		deleteQueue(t, url, n.dead)
		// Nothing is published to it, and nothing consumes from it.
		if _, err := b.Depth(t.Context(), n.dead); !errors.Is(err, queue.ErrMissing) {
			t.Fatalf("the depth of a queue that is gone: %v", err)
		}
		eventually(t, 10*time.Second, "a line in the log", func() bool {
			return strings.Contains(log.String(), "queue was missing and has been declared again") && strings.Contains(log.String(), n.dead)
		})
		if _, err := b.Depth(t.Context(), n.dead); err != nil {
			t.Errorf("the depth of the queue that was declared again: %v", err)
		}
	})
}

func TestAQueueWhoseDeclarationWasNotAnsweredCountsAsDeclaredAgain(t *testing.T) {
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
		b.topology.missing(n.delay)
		eventually(t, callLimit+10*time.Second, "a line in the log", func() bool {
			return strings.Contains(log.String(), "queue was missing and has been declared again") && strings.Contains(log.String(), n.delay)
		})
		if got := b.topology.creations(n.delay); got != 2 || !stolen.Load() {
			t.Errorf("the queue was created %d times, an answer stolen: %v", got, stolen.Load())
		}
	})
}

func TestAQueueMadeAnewIsNotPublishedToUntilAKillCannotUndoIt(t *testing.T) {
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
