package deadset_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/rabbit"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// runRabbit runs a broker until the test ends, or the returned function is called, which does not
// wait.
func runRabbit(t *testing.T, url string) (*rabbit.Broker, context.CancelFunc) {
	b := rabbit.New(rabbit.Config{URLs: []string{url}, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	return b, run(t, b)
}

// run runs a broker until the test ends, or the returned function is called, which does not wait.
func run(t *testing.T, b queue.Broker) context.CancelFunc {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = b.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return cancel
}

// onRabbitMQ runs the test on each RabbitMQ with n messages in a dead set of its own: each release
// gives back in another order.
func onRabbitMQ(t *testing.T, n int, test func(t *testing.T, url string, b queue.Broker, cfg deadset.Config)) {
	t.Helper()
	t.Parallel()
	for _, node := range testbroker.RabbitMQs(t) {
		t.Run(node.Version, func(t *testing.T) {
			t.Parallel()
			base := fmt.Sprintf("deadset-test-%d", rand.Uint64())
			cfg := deadset.Config{App: "a", Stream: "s", Queue: base + ".dead_set", Instant: base + ".instant"}
			t.Cleanup(func() { deleteQueues(t, node.URL, cfg.Instant, cfg.Queue) })
			b, _ := runRabbit(t, node.URL)
			cfg.Broker = b
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			specs := []queue.Spec{{Name: cfg.Queue, Kind: queue.DeadSet}, {Name: cfg.Instant, Kind: queue.Instant, Target: cfg.Queue}}
			if err := b.Declare(ctx, specs); err != nil {
				t.Fatal(err)
			}
			buryIn(t, b, cfg.Queue, n)
			test(t, node.URL, b, cfg)
		})
	}
}

func deleteQueues(t *testing.T, url string, names ...string) {
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Errorf("dial: %v", err)
		return
	}
	defer conn.Close()
	ch, err := conn.Channel()
	for _, name := range names {
		if err == nil {
			_, err = ch.QueueDelete(name, false, false, false)
		}
	}
	if err != nil {
		t.Errorf("delete queues: %v", err)
	}
}

// idsWhenFree is ids for a queue whose walker died: the broker frees its lease some moments later.
func idsWhenFree(t *testing.T, b queue.Broker, name string) []string {
	t.Helper()
	for {
		l, err := b.Lease(t.Context(), name)
		if err == nil {
			l.Release()
			return ids(t, b, name)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(err)
		}
	}
}

func from(first, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint("t:0:", first+i))
	}
	return all
}

func TestPeekReplayAndDeleteOnRabbitMQ(t *testing.T) {
	onRabbitMQ(t, 2500, func(t *testing.T, _ string, b queue.Broker, cfg deadset.Config) {
		for range 5 {
			s := deadset.New(cfg) // a new one: no page is shared
			page, err := s.Peek(t.Context(), 10)
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err != nil || len(page.Messages) != 10 || page.Depth != 2500 || page.Messages[0].ID != "t:0:0" || page.Messages[9].ID != "t:0:9" {
				t.Fatalf("%+v, %v", page, err)
			}
		}
		s := deadset.New(cfg)
		if r, err := s.Delete(t.Context(), 8); err != nil || r != (deadset.Result{Requested: 8, Done: 8, Left: 2492}) {
			t.Fatalf("%+v, %v", r, err)
		}
		if r, err := s.Replay(t.Context(), 2100); err != nil || r != (deadset.Result{Requested: 2100, Done: 2100, Left: 392}) {
			t.Fatalf("%+v, %v", r, err)
		}
		if left := idsWhenFree(t, b, cfg.Queue); !slices.Equal(left, from(2108, 392)) {
			t.Errorf("%d left, from %s", len(left), left[0])
		}
		if moved := idsWhenFree(t, b, cfg.Instant); !slices.Equal(moved, from(8, 2000)) { // a window
			t.Errorf("%d moved, from %s", len(moved), moved[0])
		}
		l, err := b.Lease(t.Context(), cfg.Instant)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release()
		w, err := l.Window(t.Context(), 1, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		e, err := envelope.Decode((<-w.Deliveries()).Message)
		if err != nil || e.Message.Attempt != 1 || e.Message.Replays != 1 || e.AttemptsTotal != 4 || !e.DiedAt.IsZero() || e.Message.Origin.Offset != 8 {
			t.Errorf("%+v, %v", e, err)
		}
	})
}

func TestAProcessThatDiesDuringAReplayOnRabbitMQLosesNothing(t *testing.T) {
	t.Parallel()
	const count = 300
	for _, at := range []int{2, 5, 350, 800, 1200, 5*count + 4} {
		t.Run(fmt.Sprint("at step ", at), func(t *testing.T) {
			onRabbitMQ(t, count, func(t *testing.T, url string, b queue.Broker, cfg deadset.Config) {
				dies, die := runRabbit(t, url)
				f := &faulty{Broker: dies, at: at, crash: die}
				cfg.Broker = f
				r, err := deadset.New(cfg).Replay(t.Context(), count-1)
				if err == nil && r.Done != count-1 {
					t.Errorf("%+v without an error", r)
				}
				left, moved := idsWhenFree(t, b, cfg.Queue), idsWhenFree(t, b, cfg.Instant)
				t.Logf("%+v, %v; %d left, %d moved", r, err, len(left), len(moved))
				for _, id := range from(0, count) {
					if !slices.Contains(left, id) && !slices.Contains(moved, id) {
						t.Errorf("%s is nowhere", id)
					}
				}
				if r.Done > count-len(left) {
					t.Errorf("%d said to be done, %d gone", r.Done, count-len(left))
				}
			})
		})
	}
}

func TestWhatAPeekShowsIsWhatTheNextDeleteOfAnotherProcessTakes(t *testing.T) {
	onRabbitMQ(t, 2500, func(t *testing.T, url string, b queue.Broker, cfg deadset.Config) {
		another := cfg
		another.Broker, _ = runRabbit(t, url)
		for i := range 5 {
			peeks := deadset.New(cfg)
			page, err := peeks.Peek(t.Context(), 10)
			if err != nil || len(page.Messages) != 10 || page.Messages[0].ID != from(10*i, 1)[0] {
				t.Fatalf("%+v, %v", page, err)
			}
			deletes := deadset.New(another)
			r, err := deletes.Delete(t.Context(), 10)
			for errors.Is(err, queue.ErrLeased) { // a machine under load may take more than two seconds to give back
				r, err = deletes.Delete(t.Context(), 10)
			}
			if err != nil || r != (deadset.Result{Requested: 10, Done: 10, Left: 2490 - 10*i}) {
				t.Fatalf("%+v, %v", r, err)
			}
		}
		if left := idsWhenFree(t, b, cfg.Queue); !slices.Equal(left, from(50, 2000)) { // a window
			t.Errorf("%d left, from %s", len(left), left[0])
		}
	})
}

func TestAProcessThatDiesWhileItsPeekGivesBackLosesNothing(t *testing.T) {
	t.Parallel()
	const count = 300
	for step, at := range map[string]int{"before": 4, "after": 5} {
		t.Run(step, func(t *testing.T) {
			onRabbitMQ(t, count, func(t *testing.T, url string, b queue.Broker, cfg deadset.Config) {
				dies, die := runRabbit(t, url)
				f := &faulty{Broker: dies, at: at, crash: die}
				cfg.Broker = f
				s := deadset.New(cfg)
				if page, err := s.Peek(t.Context(), 10); err != nil || len(page.Messages) != 10 {
					t.Errorf("%d messages, %v", len(page.Messages), err)
				}
				if err := s.Close(t.Context()); err != nil || !f.reached() {
					t.Errorf("died %t, %v", f.reached(), err)
				}
				if left := idsWhenFree(t, b, cfg.Queue); !slices.Equal(left, from(0, count)) {
					t.Errorf("%d left: %v", len(left), left)
				}
			})
		})
	}
}

func TestASelectionOnRabbitMQTakesWhatItHasAndLeavesTheRestInItsOrder(t *testing.T) {
	onRabbitMQ(t, 0, func(t *testing.T, _ string, b queue.Broker, cfg deadset.Config) {
		const n = 1800
		buryKinds(t, b, cfg.Queue, n)
		s := deadset.New(cfg)
		replay, remove := of(t, map[string]string{"error": "cause b"}), of(t, map[string]string{"error": "cause c"})
		// In many turns, each of which gives back what it leaves.
		for done := 0; done < n/3; {
			r, err := choose(t, s, replay).Replay(t.Context(), nil, 50)
			if err != nil || r.Done != 50 {
				t.Fatalf("%+v, %v", r, err)
			}
			done += r.Done
		}
		if left := idsWhenFree(t, b, cfg.Queue); !slices.Equal(left, kinds(n, 0, 2)) {
			t.Errorf("%d left: %.20v", len(left), left)
		}
		if r, err := choose(t, s, remove).Delete(t.Context(), nil, everything); err != nil || r.Done != n/3 || r.Unseen != 0 {
			t.Errorf("%+v, %v", r, err)
		}
		if left := idsWhenFree(t, b, cfg.Queue); !slices.Equal(left, kinds(n, 0)) {
			t.Errorf("%d left: %.20v", len(left), left)
		}
		if moved := idsWhenFree(t, b, cfg.Instant); !slices.Equal(moved, kinds(n, 1)) {
			t.Errorf("%d moved: %.20v", len(moved), moved)
		}
	})
}

func TestAProcessThatDiesDuringATurnOnRabbitMQLosesNothingAndMovesNothingElse(t *testing.T) {
	t.Parallel()
	const count, chosen = 300, 100
	for _, at := range []int{2, 5, 150, 300, 450, 5*chosen + 4} {
		t.Run(fmt.Sprint("at step ", at), func(t *testing.T) {
			onRabbitMQ(t, 0, func(t *testing.T, url string, b queue.Broker, cfg deadset.Config) {
				buryKinds(t, b, cfg.Queue, count)
				dies, die := runRabbit(t, url)
				f := &faulty{Broker: dies, at: at, crash: die}
				cfg.Broker = f
				r, err := choose(t, deadset.New(cfg), of(t, map[string]string{"error": "cause b"})).Replay(t.Context(), nil, everything)
				left, moved := idsWhenFree(t, b, cfg.Queue), idsWhenFree(t, b, cfg.Instant)
				t.Logf("%+v, %v; %d left, %d moved", r, err, len(left), len(moved))
				if !f.reached() {
					t.Error("it did not die")
				}
				for _, id := range kinds(count, 1) {
					if !slices.Contains(left, id) && !slices.Contains(moved, id) {
						t.Errorf("%s is nowhere", id)
					}
				}
				chosen := kinds(count, 1)
				others := slices.DeleteFunc(left, func(id string) bool { return slices.Contains(chosen, id) })
				if !slices.Equal(others, kinds(count, 0, 2)) || slices.ContainsFunc(moved, func(id string) bool { return !slices.Contains(chosen, id) }) {
					t.Errorf("moved what is not chosen, or out of order: left %v, moved %v", others, moved)
				}
			})
		})
	}
}

// Nobody can tell them apart: those that are on their way when a window is closed must not be taken
// for some whose acks were lost.
func TestADeleteTakesNoMoreThanAskedOfMessagesThatAreTheSame(t *testing.T) {
	onRabbitMQ(t, 0, func(t *testing.T, _ string, b queue.Broker, cfg deadset.Config) {
		p := b.Publisher("test")
		put := func(body string, n int) {
			var all sync.WaitGroup
			for range n {
				all.Add(1)
				p.Publish(t.Context(), cfg.Queue, queue.Message{Body: []byte(body)}, func(err error) {
					defer all.Done()
					if err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		}
		put(strings.Repeat("x", 20<<10), 2500)
		arriving, stop := context.WithCancel(t.Context())
		var others sync.WaitGroup
		arrived := 0
		others.Go(func() {
			for arriving.Err() == nil {
				put("another", 1)
				arrived++
			}
		})
		s := deadset.New(cfg)
		r, err := s.Delete(t.Context(), 100)
		stop()
		others.Wait()
		// The broker counts some moments later.
		depth, want := 0, 2400+arrived
		for end := time.Now().Add(20 * time.Second); depth != want && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			var err error
			if depth, _, err = s.Pages().Count(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if depth != want {
			t.Errorf("%d messages are there, want %d: %+v, %v", depth, want, r, err)
		}
	})
}
