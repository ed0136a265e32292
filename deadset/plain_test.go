package deadset_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/rabbit"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// onPlainQueues runs the test on queues that somebody else made as quorum queues that drop what
// came back 21 times, as plain ones do on 4.x, as a user who may not configure them.
func onPlainQueues(t *testing.T, test func(t *testing.T, node *testbroker.Rabbit, b queue.Broker, cfg deadset.Config)) {
	t.Helper()
	t.Parallel()
	for _, version := range testbroker.Releases() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			node := testbroker.StartRabbitMQ(t, version, testbroker.RabbitOptions{})
			makePlain(t, node.URL, dead, ready)
			node.Ctl("add_user", "worker", "secret")
			node.Ctl("set_permissions", "worker", `^a\..*\.lease$`, `^amq\.default$`, `^a\..*$`)
			b := asWorker(t, node.URL, 0)
			test(t, node, b, deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: b})
		})
	}
}

// asWorker runs a broker whose user may not configure the queues, and that sends no message above
// maxSize (0: the default) until the test ends.
func asWorker(t *testing.T, url string, maxSize int) queue.Broker {
	t.Helper()
	b := rabbit.New(rabbit.Config{
		URLs: []string{url}, Username: "worker", Password: "secret", DeclareOnlyCheck: true, MaxMessageSize: maxSize,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = b.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	if err := b.Declare(t.Context(), []queue.Spec{{Name: dead, Kind: queue.DeadSet}, {Name: ready, Kind: queue.Instant, Target: dead}}); err != nil {
		t.Fatal(err)
	}
	return b
}

func makePlain(t *testing.T, url string, names ...string) {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	for _, name := range names {
		if err == nil {
			_, err = ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(20)})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestPeeksLoseNothingWhereNobodyCouldCompareTheArguments(t *testing.T) {
	onPlainQueues(t, func(t *testing.T, _ *testbroker.Rabbit, b queue.Broker, cfg deadset.Config) {
		buryIn(t, b, cfg.Queue, 3)
		for i := range 50 {
			s := deadset.New(cfg) // a new one: no page is shared
			page, err := s.Peek(t.Context(), 1)
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err != nil || page.Depth != 3 || len(page.Messages) != 1 || page.Messages[0].ID != "t:0:0" {
				t.Fatalf("peek %d: %+v, %v", i, page, err)
			}
		}
		if left := ids(t, b, cfg.Queue); !slices.Equal(left, from(0, 3)) {
			t.Errorf("left: %v", left)
		}
	})
}

func TestUnderAnAlarmPeeksLoseNothingWhereNobodyCouldCompareTheArguments(t *testing.T) {
	onPlainQueues(t, func(t *testing.T, node *testbroker.Rabbit, b queue.Broker, cfg deadset.Config) {
		buryIn(t, b, cfg.Queue, 3)
		node.Ctl("set_vm_memory_high_watermark", "0.00000001")
		failed := make(chan error, 1) // who publishes is told of the alarm
		b.Publisher("test").Publish(t.Context(), ready, queue.Message{ID: "1", Headers: map[string]any{}}, func(err error) { failed <- err })
		awaitBlocked(t, b, true)
		peek := func() error {
			s := deadset.New(cfg) // as another process would
			_, err := s.Peek(t.Context(), 1)
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			return err
		}
		for range 2 {
			if err := peek(); !errors.Is(err, queue.ErrUnavailable) {
				t.Fatalf("a look, though each brings messages back once more: %v", err)
			}
		}
		node.Ctl("set_vm_memory_high_watermark", "0.6")
		awaitBlocked(t, b, false)
		if err := <-failed; err != nil {
			t.Errorf("what was published under the alarm: %v", err)
		}
		if err := peek(); err != nil {
			t.Error(err)
		}
		if left := ids(t, b, cfg.Queue); !slices.Equal(left, from(0, 3)) {
			t.Errorf("left: %v", left)
		}
	})
}

// awaitBlocked waits until the broker knows of an alarm, or of its end.
func awaitBlocked(t *testing.T, b queue.Broker, blocked bool) {
	t.Helper()
	for over := time.Now().Add(30 * time.Second); b.Status().Blocked != blocked; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(over) {
			t.Fatalf("not within 30 seconds: blocked %v", blocked)
		}
	}
}

func TestPeeksLoseNoLargeMessagesWhereNobodyCouldCompareTheArguments(t *testing.T) {
	t.Parallel()
	const count = 60
	for name, size := range map[string]int{"some fit into a walk": 8 << 10, "one fits into a walk": 30 << 10} {
		t.Run(name, func(t *testing.T) {
			onPlainQueues(t, func(t *testing.T, _ *testbroker.Rabbit, b queue.Broker, cfg deadset.Config) {
				for i := range count {
					put(t, b, cfg.Queue, queue.Message{ID: fmt.Sprint("t:0:", i), Headers: map[string]any{}, Body: make([]byte, size)})
				}
				cfg.WalkBytes = 32 << 10
				for i := range 50 {
					s := deadset.New(cfg)
					page, err := s.Peek(t.Context(), 1)
					if err := s.Close(t.Context()); err != nil {
						t.Fatal(err)
					}
					if err != nil || page.Depth != count {
						t.Fatalf("peek %d: %d of %d messages are there, %v", i, page.Depth, count, err)
					}
				}
				left := ids(t, b, cfg.Queue)
				slices.Sort(left)
				want := from(0, count)
				slices.Sort(want)
				if !slices.Equal(left, want) {
					t.Errorf("left: %v", left)
				}
			})
		})
	}
}

func TestDeletesOfOneAfterTheOtherLoseNothingElseWhereNobodyCouldCompareTheArguments(t *testing.T) {
	const count, deleted = 60, 45
	onPlainQueues(t, func(t *testing.T, _ *testbroker.Rabbit, b queue.Broker, cfg deadset.Config) {
		buryIn(t, b, cfg.Queue, count)
		s := deadset.New(cfg)
		for i := range deleted {
			if r, err := s.Delete(t.Context(), 1); err != nil || r != (deadset.Result{Requested: 1, Done: 1, Left: count - 1 - i}) {
				t.Fatalf("delete %d: %+v, %v; left: %v", i, r, err, ids(t, b, cfg.Queue))
			}
		}
		if left := ids(t, b, cfg.Queue); !slices.Equal(left, from(deleted, count-deleted)) {
			t.Errorf("left: %v", left)
		}
	})
}
