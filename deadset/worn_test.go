package deadset_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// starts is how many processes may look at what cannot be published anew, one after the other,
// before the queue might drop it.
const starts = 4

// limit is how often a message comes back before the queue drops it.
const limit = 20

// untilRefused peeks as a process that has just started would, until it is refused; from then on
// all is. It returns how many peeks were not.
func untilRefused(t *testing.T, s *deadset.Set, peek func(n int) error) (peeks int) {
	t.Helper()
	for peek(peeks) == nil {
		if peeks++; peeks == 2*limit {
			t.Fatalf("%d peeks, and none is refused", peeks)
		}
	}
	for _, again := range []func() error{
		func() error { return peek(peeks) },
		func() error { _, err := s.Replay(t.Context(), 1); return err },
		func() error { _, err := s.ReplayAll(t.Context(), 1); return err },
		func() error { _, err := s.Delete(t.Context(), 1); return err },
	} {
		if err := again(); !errors.Is(err, deadset.ErrRefused) || !strings.Contains(err.Error(), "rabbitmq.max_message_size") {
			t.Fatalf("not refused: %v", err)
		}
	}
	return peeks
}

func TestWhatIsTooLargeToBePublishedAnewIsNotLookedAtUntilTheQueueDropsIt(t *testing.T) {
	const count = 2 * limit
	onPlainQueues(t, func(t *testing.T, node *testbroker.Rabbit, b queue.Broker, cfg deadset.Config) {
		for i := range count {
			put(t, b, cfg.Queue, queue.Message{ID: fmt.Sprint("t:0:", i), Headers: map[string]any{}, Body: make([]byte, 100<<10)})
		}
		lowered := cfg
		lowered.Broker = asWorker(t, node.URL, 80<<10)
		for range starts {
			s := deadset.New(lowered)
			untilRefused(t, s, func(n int) error {
				_, err := s.Peek(t.Context(), 1+n) // more than before: no page is shared
				return err
			})
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		raised := deadset.New(cfg)
		if page, err := raised.Peek(t.Context(), 1); err != nil || page.Depth != count {
			t.Errorf("when the setting is raised: %d of %d are there, %v", page.Depth, count, err)
		}
		if err := raised.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := ids(t, b, cfg.Queue); len(left) != count || len(slices.Compact(slices.Sorted(slices.Values(left)))) != count {
			t.Errorf("left: %v", left)
		}
		deleteUntilRefused(t, deadset.New(lowered), count)
	})
}

// deleteUntilRefused deletes one of so many messages after the other, none of which can be
// published anew.
func deleteUntilRefused(t *testing.T, s *deadset.Set, count int) {
	t.Helper()
	for n := 1; ; n++ {
		r, err := s.Delete(t.Context(), 1)
		if r.Done != 1 || r.Left != count-n || (err == nil) != (r.Stopped == "") {
			t.Fatalf("delete %d: %+v, %v", n, r, err)
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, deadset.ErrRefused) {
			t.Errorf("delete %d: %v", n, err)
		}
		if r, err := s.Delete(t.Context(), 1); !errors.Is(err, deadset.ErrRefused) || r != (deadset.Result{Requested: 1, Left: deadset.Unknown, Stopped: r.Stopped}) {
			t.Errorf("delete %d: %+v, %v", n+1, r, err)
		}
		return
	}
}

// plain is a broker whose queues drop what came back too often, and that takes no bodies above a
// byte.
type plain struct{ limited }

func (plain) ReturnLimit(string) int64 { return limit }

func TestARefusedWalkHandsNothingOutAndThoseThatCanBeAreRenewed(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		for i, body := range []string{"x", "too large", "x", "too large", "x"} {
			put(t, b, dead, queue.Message{ID: fmt.Sprint(i), Headers: map[string]any{}, Body: []byte(body)})
		}
		var peeks []int
		for range starts {
			s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: plain{limited{b}}})
			peeks = append(peeks, untilRefused(t, s, func(int) error {
				time.Sleep(2 * time.Second) // no page of an earlier peek
				_, err := s.Peek(t.Context(), 10)
				return err
			}))
		}
		if want := []int{limit/2 + 1, 0, 0, 0}; !slices.Equal(peeks, want) {
			t.Errorf("the processes peeked so often: %v, want %v", peeks, want)
		}
		lease, err := b.Lease(t.Context(), dead)
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release()
		w, err := lease.Window(t.Context(), 10, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		all, err := queue.Gather(t.Context(), w)
		var returned []string
		for _, d := range all {
			returned = append(returned, fmt.Sprint(d.ID, ":", d.Returns))
		}
		const most = limit/2 + 1 + 2*starts
		if want := []string{fmt.Sprint("1:", most), fmt.Sprint("3:", most), "0:0", "2:0", "4:0"}; err != nil || !slices.Equal(returned, want) {
			t.Errorf("they came back so often: %v, want %v; %v", returned, want, err)
		}
	})
}

// worn is a broker whose queues drop what came back too often; one that was handed out once seems
// to have come back a little too often, and what is published ends with an error, if there is one.
type worn struct {
	faulty
	err error
}

func newWorn(b queue.Broker) *worn { return &worn{faulty: faulty{Broker: b, age: limit/2 + 1}} }

func (*worn) ReturnLimit(string) int64 { return limit }

func (w *worn) Publisher(name string) queue.Publisher {
	if w.err != nil {
		return refusing{w.err}
	}
	return w.faulty.Publisher(name)
}

// refusing publishes nothing.
type refusing struct{ err error }

func (r refusing) Publish(_ context.Context, _ string, _ queue.Message, done func(error)) {
	go done(r.err)
}

// handOut has each message come back once.
func handOut(t *testing.T, b queue.Broker) {
	t.Helper()
	ids(t, b, dead)
}

// returnsOf are the messages of the dead set, each with the number of times it came back since it
// was published.
func returnsOf(t *testing.T, b queue.Broker) (all []string) {
	t.Helper()
	lease, err := b.Lease(t.Context(), dead)
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	w, err := lease.Window(t.Context(), 3*limit, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	held, err := queue.Gather(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range held {
		all = append(all, fmt.Sprint(d.ID, ":", d.Returns))
	}
	return all
}

func TestARenewalOfWhatDoesNotFitIntoAWalkTakesAllOnceAndKeepsTheirOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		var want []string
		for i := range 2 * limit {
			put(t, b, dead, queue.Message{ID: fmt.Sprint(i), Headers: map[string]any{}, Body: make([]byte, 100)})
			want = append(want, fmt.Sprint(i, ":0"))
		}
		want[0] = "0:1" // is looked at after that
		handOut(t, b)
		s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: newWorn(b), WalkBytes: 1000})
		if _, err := s.Peek(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := returnsOf(t, b); !slices.Equal(got, want) {
			t.Errorf("they came back so often: %v", got)
		}
	})
}

func TestADeleteRenewsWhatItLeaves(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 4)
		handOut(t, b)
		s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: newWorn(b)})
		if r, err := s.Delete(t.Context(), 2); err != nil || r != (deadset.Result{Requested: 2, Done: 2, Left: 2}) {
			t.Errorf("%+v, %v", r, err)
		}
		if got := returnsOf(t, b); !slices.Equal(got, []string{"t:0:2:0", "t:0:3:0"}) {
			t.Errorf("they came back so often: %v", got)
		}
	})
}

func TestARenewalThatFailsIsSaid(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 4)
		handOut(t, b)
		broken := newWorn(b)
		broken.err = errors.New("it is broken")
		s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: broken})
		if page, err := s.Peek(t.Context(), 2); !errors.Is(err, broken.err) {
			t.Errorf("%+v, %v", page, err)
		}
		if r, err := s.Delete(t.Context(), 2); !errors.Is(err, broken.err) || r != (deadset.Result{Requested: 2, Done: 2, Left: 2, Stopped: broken.err.Error()}) {
			t.Errorf("%+v, %v", r, err)
		}
		if left := ids(t, b, dead); !slices.Equal(left, from(2, 2)) {
			t.Errorf("left: %v", left)
		}
	})
}

func TestAWalkThatMeetsWhatIsWornStopsAfterItsWindowAndSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		for i := range 5 {
			put(t, b, dead, queue.Message{ID: fmt.Sprint(i), Headers: map[string]any{}, Body: make([]byte, 100)})
		}
		handOut(t, b)
		s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: newWorn(b), WalkBytes: 1})
		if r, err := s.Replay(t.Context(), 5); err != nil || r.Done == 0 || r.Done == 5 || r.Left != 5-r.Done || !strings.Contains(r.Stopped, "ask again") {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// fragile is a broker whose queues drop what came back too often.
type fragile struct{ *memory.Broker }

func (fragile) ReturnLimit(string) int64 { return limit }

// A slow operation has many turns, and each looks where the dead arrive.
func TestASlowSortAndASlowRestoreWearNothingOut(t *testing.T) {
	const turns = 2 * limit
	for name, turn := range map[string]func(ctx context.Context, s *deadset.Set, back deadset.Restoration) error{
		"sort": func(ctx context.Context, s *deadset.Set, _ deadset.Restoration) error {
			_, err := s.Pages().Sort(ctx, nil, "op_1", 1)
			return err
		},
		"restore": func(ctx context.Context, _ *deadset.Set, back deadset.Restoration) error {
			_, err := back.Restore(ctx, nil, 1)
			return err
		},
	} {
		inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
			bury(t, b, turns)
			s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: fragile{b}, Pages: 8, TrashPages: 8})
			if done, err := throw(t, s, everythingOf("op_0")); done != turns || err != nil {
				t.Fatalf("%d deleted, %v", done, err)
			}
			buryMore(t, b, turns, turns+1)
			back, err := s.Trash(keep).Choose(everythingOf("op_2"))
			if err != nil {
				t.Fatal(err)
			}
			for range turns {
				if err := turn(t.Context(), s, back); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			for _, d := range take(t, b, dead) {
				if d.Returns >= limit {
					t.Errorf("%s: %s came back %d times", name, d.ID, d.Returns)
				}
			}
		})
	}
}
