package deadset_test

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/rabbit"
)

// withPages is a dead set on RabbitMQ whose pages go when the test is over.
func withPages(t *testing.T, url string, cfg deadset.Config, most int) *deadset.Set {
	t.Helper()
	var names []string
	for k := range most {
		names = append(names, deadset.PageOf(cfg.Queue, k))
	}
	t.Cleanup(func() { deleteQueues(t, url, names...) })
	cfg.Pages, cfg.Index = most, deadset.NewIndex(64<<20)
	return deadset.New(cfg)
}

func TestSortedPagesOnRabbitMQAreSeenReplayedAndDeletedInTheirOrder(t *testing.T) {
	onRabbitMQ(t, 4500, func(t *testing.T, url string, b queue.Broker, cfg deadset.Config) {
		s := withPages(t, url, cfg, 8)
		if got := sorted(t, s, "op"); got != 4500 {
			t.Fatalf("%d moved", got)
		}
		// Another process looks, and acts, whatever the first one remembers.
		another := cfg
		another.Broker, _ = runRabbit(t, url)
		another.Index = deadset.NewIndex(64 << 20)
		s = deadset.New(another)
		defer s.Close(t.Context())
		if got := listed(t, s); !slices.Equal(got, from(0, 4500)) {
			t.Fatalf("%d listed", len(got))
		}
		if r, err := s.Delete(t.Context(), 2100); err != nil || r != (deadset.Result{Requested: 2100, Done: 2100, Left: 2400}) {
			t.Fatalf("%+v, %v", r, err)
		}
		if r, err := s.Replay(t.Context(), 100); err != nil || r != (deadset.Result{Requested: 100, Done: 100, Left: 2300}) {
			t.Fatalf("%+v, %v", r, err)
		}
		if moved := idsWhenFree(t, b, cfg.Instant); !slices.Equal(moved, from(2100, 100)) {
			t.Errorf("%d moved, from %s", len(moved), moved[0])
		}
		if got := listed(t, s); !slices.Equal(got, from(2200, 2300)) {
			t.Errorf("%d left", len(got))
		}
		for more := true; more; {
			r, err := s.Pages().Back(t.Context(), nil, everything)
			if err != nil {
				t.Fatal(err)
			}
			more = r.More
		}
		if left := idsWhenFree(t, b, cfg.Queue); !slices.Equal(left, from(2200, 2000)) { // a window
			t.Errorf("%d back", len(left))
		}
	})
}

func TestAProcessThatDiesDuringASortOnRabbitMQLosesNothingAndMovesNothingTwice(t *testing.T) {
	t.Parallel()
	const count = 300
	for _, at := range []int{2, 5, 350, 800, 1200, 5*(count-10) + 4} {
		t.Run(fmt.Sprint("at step ", at), func(t *testing.T) {
			onRabbitMQ(t, count, func(t *testing.T, url string, b queue.Broker, cfg deadset.Config) {
				another := withPages(t, url, cfg, 2)
				dies, die := runRabbit(t, url)
				f := &faulty{Broker: dies, at: at, crash: die}
				dying := cfg
				dying.Broker, dying.Pages = f, 2
				r, err := deadset.New(dying).Pages().Sort(t.Context(), nil, "op_1", count-10)
				left := idsWhenFree(t, b, cfg.Queue)
				t.Logf("%+v, %v; %d left", r, err, len(left))
				if !f.reached() {
					t.Error("it did not die")
				}
				if r.Done > count-len(left) {
					t.Errorf("%d said to be done, %d gone", r.Done, count-len(left))
				}
				if len(left) < 10 {
					t.Errorf("more was moved than was asked for: %d are left", len(left))
				}
				if got := listed(t, another); !slices.Equal(got, from(0, count)) {
					t.Errorf("%d listed: %v", len(got), got)
				}
				sorted(t, another, "op_2")
				if got := listed(t, another); !slices.Equal(got, from(0, count)) {
					t.Errorf("%d listed after another sort: %v", len(got), got)
				}
			})
		})
	}
}

// Two processes sort and delete at the same time: the lease keeps them apart, turn by turn.
func TestTwoProcessesWorkOnPagesAtOnceAndActOnEachMessageOnce(t *testing.T) {
	onRabbitMQ(t, 3000, func(t *testing.T, url string, b queue.Broker, cfg deadset.Config) {
		first := withPages(t, url, cfg, 8)
		another := cfg
		another.Broker, _ = runRabbit(t, url)
		another.Pages = 8
		second := deadset.New(another)
		var running sync.WaitGroup
		running.Go(func() {
			for done := 0; done < 3000; {
				r, err := first.Pages().Sort(t.Context(), nil, "op", 700)
				if done += r.Done; err != nil {
					t.Log(err) // the other has the lease
				}
				if n, _ := b.Depth(t.Context(), cfg.Queue); n == 0 && err == nil {
					return
				}
			}
		})
		deleted := 0
		for deleted < 300 {
			r, err := second.Delete(t.Context(), 50)
			deleted += r.Done
			if err != nil {
				t.Log(err)
			}
		}
		running.Wait()
		sorted(t, first, "op")
		if got := listed(t, first); !slices.Equal(got, from(deleted, 3000-deleted)) {
			t.Errorf("%d listed, %d deleted; from %s", len(got), deleted, got[0])
		}
	})
}

// Who has not the right to make queues still looks at and empties what is there.
func TestWithoutTheRightToMakePagesASortSaysSoAndMovesNothing(t *testing.T) {
	onRabbitMQ(t, 2300, func(t *testing.T, url string, b queue.Broker, cfg deadset.Config) {
		checks := rabbit.New(rabbit.Config{URLs: []string{url}, DeclareOnlyCheck: true, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
		run(t, checks)
		s := cfg
		s.Broker, s.Pages = checks, 8
		set := deadset.New(s)
		if r, err := set.Pages().Sort(t.Context(), nil, "op", everything); err == nil || r.Done != 0 {
			t.Errorf("%+v, %v", r, err)
		}
		causes, err := set.Groups(t.Context(), filter.All())
		if err != nil || causes.Complete || causes.Unsorted != 300 {
			t.Errorf("%+v, %v", causes.Span, err)
		}
		if err := set.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, err := b.Depth(t.Context(), cfg.Queue); n != 2300 || err != nil {
			t.Errorf("%d are left, %v", n, err)
		}
	})
}
