package deadset_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

// ids are the messages of a queue, oldest first.
func ids(t *testing.T, b queue.Broker, name string) (all []string) {
	t.Helper()
	l, err := b.Lease(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	w, err := l.Window(t.Context(), 2000, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	for d := range w.Deliveries() {
		all = append(all, d.ID)
	}
	if _, err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return all
}

// ways are how a walk can be cut off.
func ways() map[string]func(b *memory.Broker, cancel func()) {
	return map[string]func(b *memory.Broker, cancel func()){
		"the process ends":        func(b *memory.Broker, cancel func()) { b.SetUp(false); cancel() },
		"whoever asked goes away": func(_ *memory.Broker, cancel func()) { cancel() },
		"the connection is lost": func(b *memory.Broker, _ func()) {
			b.SetUp(false)
			time.AfterFunc(time.Second, func() { b.SetUp(true) })
		},
		"the broker takes nothing": func(b *memory.Broker, _ func()) { b.Block(true) },
		"the broker takes nothing a bit": func(b *memory.Broker, _ func()) {
			b.Block(true)
			time.AfterFunc(time.Second, func() { b.Block(false) })
		},
	}
}

// crashes calls the test with a crash at each step in turn, until a walk ends before its crash.
func crashes(t *testing.T, test func(t *testing.T, ctx context.Context, b *memory.Broker, s *deadset.Set, crashed func() bool)) {
	for name, cut := range ways() {
		over := false
		for at := 1; !over; at++ {
			inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
				bury(t, b, 4)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				f := &faulty{Broker: b, at: at, crash: func() { cut(b, cancel) }}
				s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: f, TrashPages: 8})
				test(t, ctx, b, s, f.reached)
				over = !f.reached()
				if t.Failed() {
					t.Fatalf("%s at step %d", name, at)
				}
			})
			if at > 100 {
				t.Fatal("this walk has no end")
			}
		}
	}
}

// mend ends every trouble.
func mend(b *memory.Broker) {
	time.Sleep(2 * time.Second)
	b.SetUp(true)
	b.Block(false)
	synctest.Wait()
}

func TestACrashAtAnyStepOfAReplayLeavesEachMessageWhereItWasOrInBothPlaces(t *testing.T) {
	crashes(t, func(t *testing.T, ctx context.Context, b *memory.Broker, s *deadset.Set, crashed func() bool) {
		r, err := s.Replay(ctx, 3)
		if crashed() {
			mend(b)
		} else if err != nil || r != (deadset.Result{Requested: 3, Done: 3, Left: 1}) {
			t.Errorf("without a crash: %+v, %v", r, err)
		}
		left, moved := ids(t, b, dead), ids(t, b, ready)
		for i := range 4 {
			id := fmt.Sprint("t:0:", i)
			if !slices.Contains(left, id) && !slices.Contains(moved, id) {
				t.Errorf("%s is nowhere", id)
			}
		}
		if slices.Contains(moved, "t:0:3") {
			t.Error("one more was moved than was asked for")
		}
		if goneFrom := 4 - len(left); r.Done > goneFrom {
			t.Errorf("%d said to be done, %d gone", r.Done, goneFrom)
		}
		if !slices.IsSorted(left) || !slices.IsSorted(moved) {
			t.Errorf("out of order: %v, %v", left, moved)
		}
		if err != nil && r.Done > 0 && r.Stopped == "" {
			t.Errorf("stopped without saying why: %+v", r)
		}
	})
}

func TestACrashAtAnyStepOfADeleteDeletesNoMoreThanWasAskedForAndCountsNoMoreThanIsGone(t *testing.T) {
	crashes(t, func(t *testing.T, ctx context.Context, b *memory.Broker, s *deadset.Set, crashed func() bool) {
		r, err := s.Delete(ctx, 3)
		if crashed() {
			mend(b)
		} else if err != nil || r != (deadset.Result{Requested: 3, Done: 3, Left: 1}) {
			t.Errorf("without a crash: %+v, %v", r, err)
		}
		left := ids(t, b, dead)
		if !slices.Contains(left, "t:0:3") || !slices.IsSorted(left) {
			t.Errorf("left: %v", left)
		}
		if goneFrom := 4 - len(left); r.Done > goneFrom {
			t.Errorf("%d said to be done, %d gone", r.Done, goneFrom)
		}
	})
}

func TestAPeekThatIsCutOffAtAnyStepChangesNothing(t *testing.T) {
	crashes(t, func(t *testing.T, ctx context.Context, b *memory.Broker, s *deadset.Set, crashed func() bool) {
		page, err := s.Peek(ctx, 10)
		if err == nil && len(page.Messages) != 4 {
			t.Errorf("no error beside %d messages", len(page.Messages))
		}
		synctest.Wait() // it gives back what it held
		if crashed() {
			mend(b)
		}
		if left := ids(t, b, dead); len(left) != 4 || !slices.IsSorted(left) {
			t.Errorf("left: %v", left)
		}
	})
}

func TestAReplayGivesUpOnABrokerThatStopsConfirming(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		bury(t, b, 3)
		b.Delete(ready) // publishes wait for their queue
		began := time.Now()
		r, err := s.Replay(t.Context(), 3)
		if !errors.Is(err, queue.ErrUnavailable) || r.Done != 0 || r.Left != 3 || r.Stopped == "" {
			t.Errorf("%+v, %v", r, err)
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("after %v", took)
		}
		if left := ids(t, b, dead); len(left) != 3 {
			t.Errorf("left: %v", left)
		}
	})
}

func TestMessagesThatWereLookedAtTooOftenAreRenewedInTheirOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: &faulty{Broker: b, age: 50_000}})
		bury(t, b, 3)
		l, err := b.Lease(t.Context(), dead)
		if err != nil {
			t.Fatal(err)
		}
		for range 11 {
			w, err := l.Window(t.Context(), 2, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		l.Release()
		// All of them are published anew. What a peek shows is what a delete acts on.
		if got := peek(t, s, 2); got != "0 1" {
			t.Errorf("peek shows %s", got)
		}
		if r, err := s.Delete(t.Context(), 2); err != nil || r.Done != 2 || r.Left != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		l, err = b.Lease(t.Context(), dead)
		if err != nil {
			t.Fatal(err)
		}
		w, err := l.Window(t.Context(), 10, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := queue.Gather(t.Context(), w); err != nil || len(d) != 1 || d[0].ID != "t:0:2" || d[0].Returns > 10 {
			t.Errorf("left: %+v", d)
		}
	})
}

func TestAPageThatADeleteOvertookIsNotShownAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		e := envelope.Envelope{Failure: envelope.Failure{Reason: stepwell.ReasonTooLarge}, Message: stepwell.Message{ID: "t:0:0", Attempt: 1, Value: []byte("large")}}
		e.Point()
		put(t, b, dead, e.Encode())
		put(t, b, dead, e.Encode())
		var s *deadset.Set
		deletes := sync.OnceFunc(func() {
			if r, err := s.Delete(t.Context(), 1); err != nil || r.Done != 1 {
				t.Errorf("%+v, %v", r, err)
			}
		})
		s = deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: b, Source: source(
			func(context.Context, int64) (string, bool, error) { deletes(); return "large", true, nil }, // what it saw is known, and not yet told
		)})
		for _, want := range []int{2, 1} {
			page, err := s.Peek(t.Context(), 2)
			if err != nil || len(page.Messages) != want {
				t.Errorf("%d messages, not %d; %v", len(page.Messages), want, err)
			}
		}
	})
}

func TestPeeksWithinASecondShareAWalk(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 5)
		f := &faulty{Broker: b}
		s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: f})
		const walk = 6 // steps
		tests := []struct{ count, seen, steps int }{{3, 3, walk}, {2, 2, walk}, {4, 4, 2 * walk}, {100, 5, 3 * walk}, {2000, 5, 3 * walk}}
		for _, test := range tests {
			page, err := s.Peek(t.Context(), test.count)
			synctest.Wait() // all is given back
			if err != nil || len(page.Messages) != test.seen || page.Depth != 5 || f.steps != test.steps {
				t.Errorf("peek of %d: %d messages, depth %d, %d steps, %v", test.count, len(page.Messages), page.Depth, f.steps, err)
			}
		}
		var peeks sync.WaitGroup
		time.Sleep(2 * time.Second)
		for range 50 {
			peeks.Go(func() {
				if page, err := s.Peek(t.Context(), 5); err != nil || len(page.Messages) != 5 {
					t.Errorf("%d messages, %v", len(page.Messages), err)
				}
			})
		}
		peeks.Wait()
		synctest.Wait()
		if f.steps != 4*walk {
			t.Errorf("%d steps", f.steps)
		}
	})
}

func TestMessagesThatDieDuringAWalkAreNotPartOfIt(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 3)
		f := &faulty{Broker: b, at: 12}
		f.crash = func() { put(t, b, dead, queue.Message{ID: "u:0:1"}) }
		s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: f, WalkBytes: 1}) // a window for each message
		r, err := s.Replay(t.Context(), 100)
		if err != nil || r != (deadset.Result{Requested: 100, Done: 3, Left: 0}) || !f.reached() {
			t.Errorf("%+v, %v", r, err)
		}
		if left := ids(t, b, dead); !slices.Equal(left, []string{"u:0:1"}) {
			t.Errorf("left: %v", left)
		}
	})
}

func TestMessagesThatDieBetweenTheWindowsOfAWalkAreNotPartOfIt(t *testing.T) {
	const inTheFirstWindow = 3
	for name, walk := range map[string]func(*deadset.Set, context.Context, int) (deadset.Result, error){
		"replay": (*deadset.Set).Replay, "delete": (*deadset.Set).Delete,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
				put(t, b, dead, queue.Message{ID: "large", Body: make([]byte, 1000)}) // fills the first window; the second has room
				bury(t, b, 2)
				f := &faulty{Broker: b, at: inTheFirstWindow, crash: func() { put(t, b, dead, queue.Message{ID: "late"}) }}
				s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: f, WalkBytes: 1000})
				r, err := walk(s, t.Context(), 100)
				if err != nil || r != (deadset.Result{Requested: 100, Done: 3}) || !f.reached() {
					t.Errorf("%+v, %v", r, err)
				}
				if left := ids(t, b, dead); !slices.Equal(left, []string{"late"}) {
					t.Errorf("left: %v", left)
				}
			})
		})
	}
}

func TestAWalkThatStopsHalfWaySaysHowManyAreDoneAndLeft(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 4)
		const afterTheFirstWindow = 10
		f := &faulty{Broker: b, at: afterTheFirstWindow, crash: func() { b.SetUp(false) }}
		s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: f, WalkBytes: 1}) // a window for each message
		r, err := s.Replay(t.Context(), 4)
		if !errors.Is(err, queue.ErrUnavailable) || r.Done != 1 || r.Left != 3 || r.Stopped == "" {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
