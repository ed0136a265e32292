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
	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/queue"
)

// paged is a dead set that may have pages, of which each takes some messages only: three of those
// that bury makes.
func paged(b queue.Broker, most int) *deadset.Set {
	return deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: b, WalkBytes: 900, Pages: most, Index: deadset.NewIndex(1 << 20)})
}

// sorted sorts all that has arrived, and returns how many messages it moved.
func sorted(t *testing.T, s *deadset.Set, operation string) (done int) {
	t.Helper()
	for range 100 {
		r, err := s.Pages().Sort(t.Context(), nil, operation, everything)
		if err != nil && !errors.Is(err, queue.ErrUnavailable) { // a busy broker's answer is waited for
			t.Fatal(err)
		}
		done += r.Done
		if err == nil && !r.More {
			return done
		}
	}
	t.Fatal("a sort has no end")
	return done
}

// listed are the ids of all messages of the dead set, as a look shows them.
func listed(t *testing.T, s *deadset.Set) (all []string) {
	t.Helper()
	x, err := s.Export(t.Context(), filter.All())
	if err == nil {
		err = x.Each(t.Context(), func(e deadset.Entry) error {
			all = append(all, e.ID)
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	if !x.Complete || x.Depth != len(all) || x.Matched != len(all) {
		t.Errorf("%+v, and %d listed", x.Span, len(all))
	}
	return all
}

// inPages are how many messages each page has; below 0: it is not there.
func inPages(t *testing.T, b *memory.Broker) (depths []int) {
	t.Helper()
	for k := range 20 {
		n, err := b.Depth(t.Context(), deadset.PageOf(dead, k))
		if errors.Is(err, queue.ErrMissing) {
			n = -1
		} else if err != nil {
			t.Fatal(err)
		}
		depths = append(depths, n)
	}
	for len(depths) > 0 && depths[len(depths)-1] == -1 {
		depths = depths[:len(depths)-1]
	}
	return depths
}

func TestWhatIsSortedIsAllSeenInItsOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 4500)
		s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: b, Pages: 64})
		before := peek(t, s, 100)
		causes, err := s.Groups(t.Context(), filter.All())
		if err != nil || causes.Complete || causes.Unsorted != 2500 || causes.Depth != 4500 {
			t.Fatalf("before: %+v, %v", causes.Span, err)
		}
		if got := sorted(t, s, "op"); got != 4500 {
			t.Fatalf("%d moved", got)
		}
		if got := inPages(t, b); !slices.Equal(got, []int{2000, 2000, 500}) || depth(t, b, dead) != 0 {
			t.Fatalf("in pages %v, arrived %d", got, depth(t, b, dead))
		}
		buryMore(t, b, 4500, 20)
		if got := listed(t, s); !slices.Equal(got, from(0, 4520)) {
			t.Errorf("%d listed: %.20v", len(got), got)
		}
		if after := peek(t, s, 100); after != before {
			t.Errorf("a peek shows %.60s, and before %.60s", after, before)
		}
		causes, err = s.Groups(t.Context(), filter.All())
		if err != nil || !causes.Complete || causes.Depth != 4520 || causes.Groups[0].Count != 4520 {
			t.Errorf("after: %+v, %v", causes, err)
		}
		synctest.Wait() // all is given back
		one, err := s.Message(t.Context(), "t:0:4100")
		if err != nil || one.ID != "t:0:4100" || one.Copies != 1 {
			t.Errorf("by id: %+v, %v", one.ID, err)
		}
		synctest.Wait() // likewise
		if all, paged, err := s.Pages().Depth(t.Context()); all != 4520 || paged != 4500 || err != nil {
			t.Errorf("depth %d, in pages %d, %v", all, paged, err)
		}
	})
}

func TestReplayAndDeleteBeginWithTheOldestWhereverTheyLie(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 10)
		s := paged(b, 8)
		sorted(t, s, "op")
		buryMore(t, b, 10, 4)
		for _, n := range []int{1, 4} {
			if r, err := s.Delete(t.Context(), n); err != nil || r.Done != n || r.Left != 14-n && r.Left != 9 {
				t.Fatalf("%+v, %v", r, err)
			}
		}
		if r, err := s.Replay(t.Context(), 7); err != nil || r != (deadset.Result{Requested: 7, Done: 7, Left: 2}) {
			t.Fatalf("%+v, %v", r, err)
		}
		if got := listed(t, s); !slices.Equal(got, from(12, 2)) {
			t.Errorf("left: %v", got)
		}
		moved := take(t, b, ready)
		for i, d := range moved {
			for name := range d.Headers {
				if strings.HasPrefix(name, "x-stepwell-") {
					t.Errorf("%s is replayed with %s", d.ID, name)
				}
			}
			if d.ID != fmt.Sprint("t:0:", 5+i) {
				t.Errorf("replayed at place %d: %s", i, d.ID)
			}
		}
		if len(moved) != 7 {
			t.Errorf("%d replayed", len(moved))
		}
	})
}

func TestAnOperationActsOnWhatItChoseInAllPagesAndNeverTwice(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		buryKinds(t, b, dead, 30)
		s := paged(b, 16)
		sorted(t, s, "op")
		buryKinds(t, b, dead, 3)
		sel := of(t, map[string]string{"error": "cause b"})
		sel.Operation = "op_1"
		done := 0
		for range 40 {
			r, err := choose(t, s, sel).Replay(t.Context(), nil, 2)
			if err != nil || r.Done > 2 {
				t.Fatalf("%+v, %v", r, err)
			}
			done += r.Done
			if !r.More && r.Done == 0 {
				break
			}
		}
		if moved := ids(t, b, ready); done != 11 || len(moved) != 11 {
			t.Errorf("%d done, %d moved", done, len(moved))
		}
		if got := listed(t, s); !slices.Equal(got, append(kinds(30, 0, 2), kinds(3, 0, 2)...)) {
			t.Errorf("left: %v", got)
		}
	})
}

// One page after another is crossed out by turns that have no time: each goes on where the last one
// ended, so that what matches in the last page is reached.
func TestTurnsThatHaveNoTimeComeToTheLastPageAllTheSame(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 12)
		f := &faulty{Broker: b}
		s := paged(f, 16)
		sorted(t, s, "op")
		sel := deadset.Selection{Filter: filter.IDs([]string{"t:0:11"}), Before: time.Now(), Operation: "op_1"}
		turns := 0
		for done := 0; done == 0; turns++ {
			enough := make(chan struct{})
			// After the first page that it reads.
			f.steps, f.at, f.crash = 0, 4, func() { close(enough) }
			r, err := choose(t, s, sel).Delete(t.Context(), enough, everything)
			if err != nil || turns > 20 {
				t.Fatalf("turn %d: %+v, %v", turns, r, err)
			}
			done += r.Done
		}
		if turns < 3 {
			t.Errorf("%d turns: they had time", turns)
		}
		if got := listed(t, s); !slices.Equal(got, from(0, 11)) {
			t.Errorf("left: %v", got)
		}
	})
}

func TestASortThatIsKilledAtAnyStepLosesNothingAndMovesNothingTwice(t *testing.T) {
	for name, cut := range ways() {
		over := false
		for at := 1; !over; at++ {
			inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
				bury(t, b, 7)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				f := &faulty{Broker: b, at: at, crash: func() { cut(b, cancel) }}
				r, err := paged(f, 8).Pages().Sort(ctx, nil, "op_1", everything)
				if over = !f.reached(); !over {
					mend(b)
				} else if err != nil || r.Done == 0 {
					t.Errorf("without a crash: %+v, %v", r, err)
				}
				gone := 7 - depth(t, b, dead)
				if r.Done > gone {
					t.Errorf("%d said to be done, %d gone", r.Done, gone)
				}
				// Another process sorts anew: it knows nothing of the first.
				if at%2 == 0 {
					sorted(t, paged(b, 8), "op_2")
				}
				s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: b, Pages: 8})
				if got := listed(t, s); !slices.Equal(got, from(0, 7)) {
					t.Errorf("a look shows %v, pages %v", got, inPages(t, b))
				}
				if r, err := s.Replay(t.Context(), 100); err != nil || r.Done != 7 {
					t.Errorf("%+v, %v", r, err)
				}
				if got := ids(t, b, ready); !slices.Equal(got, from(0, 7)) {
					t.Errorf("replayed: %v", got)
				}
				if t.Failed() {
					t.Fatalf("%s at step %d", name, at)
				}
			})
			if at > 200 {
				t.Fatal("this sort has no end")
			}
		}
	}
}

func TestAWayBackThatIsKilledAtAnyStepLosesNothing(t *testing.T) {
	for name, cut := range ways() {
		over := false
		for at := 1; !over; at++ {
			inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
				bury(t, b, 7)
				sorted(t, paged(b, 8), "op_1")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				f := &faulty{Broker: b, at: at, crash: func() { cut(b, cancel) }}
				_, err := paged(f, 0).Pages().Back(ctx, nil, everything)
				if over = !f.reached(); !over {
					mend(b)
				} else if err != nil {
					t.Error(err)
				}
				for range 10 {
					if r, err := paged(b, 0).Pages().Back(t.Context(), nil, everything); err != nil {
						t.Fatal(err)
					} else if !r.More {
						break
					}
				}
				got := ids(t, b, dead)
				slices.Sort(got)
				if !slices.Equal(slices.Compact(got), from(0, 7)) || len(inPages(t, b)) > 0 {
					t.Fatalf("%s at step %d: %v, pages %v", name, at, got, inPages(t, b))
				}
			})
			if at > 300 {
				t.Fatal("this has no end")
			}
		}
	}
}

func TestAPageWhoseArgumentsNobodyComparedIsNeverFilled(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 7)
		// Page 0 is as it must be, page 1 somebody made otherwise.
		if err := b.Declare(t.Context(), []queue.Spec{{Name: deadset.PageOf(dead, 1), Kind: queue.Instant, Target: ready}}); err != nil {
			t.Fatal(err)
		}
		s := paged(b, 8)
		var err error
		for range 5 {
			if _, err = s.Pages().Sort(t.Context(), nil, "op", everything); err != nil {
				break
			}
		}
		if err == nil || !strings.Contains(err.Error(), deadset.PageOf(dead, 1)) {
			t.Errorf("the error names no page: %v", err)
		}
		if got := inPages(t, b); got[0] == 0 || got[1] != 0 {
			t.Errorf("in pages: %v", got)
		}
		if got := ids(t, b, dead); len(got) == 0 || got[len(got)-1] != "t:0:6" {
			t.Errorf("arrived: %v", got)
		}
	})
}

func TestPagesThatEmptiedAreFilledAgainAndTheOrderIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		s := paged(b, 4)
		bury(t, b, 12)
		done := 0
		for range 10 {
			r, err := s.Pages().Sort(t.Context(), nil, "op_1", everything)
			if done += r.Done; errors.Is(err, deadset.ErrNoPage) {
				break
			}
			if err != nil || !r.More {
				break
			}
		}
		before := inPages(t, b)
		// Of the second page all goes, of the third all but one.
		var gone []string
		for i := before[0]; i < before[0]+before[1]+before[2]-1; i++ {
			gone = append(gone, fmt.Sprint("t:0:", i))
		}
		sel := deadset.Selection{Filter: filter.IDs(gone), Before: time.Now(), Operation: "op_2"}
		if r, err := choose(t, s, sel).Delete(t.Context(), nil, everything); err != nil || r.Done != len(gone) {
			t.Fatalf("%+v, %v", r, err)
		}
		buryMore(t, b, 12, 3)
		want := slices.DeleteFunc(from(0, 15), func(id string) bool { return slices.Contains(gone, id) })
		sorted(t, s, "op_3")
		if got := listed(t, s); !slices.Equal(got, want) || depth(t, b, dead) > 0 {
			t.Errorf("%v, not %v; pages before %v, now %v, arrived %d", got, want, before, inPages(t, b), depth(t, b, dead))
		}
	})
}

// Two messages that somebody put there by hand, the same in all, are two.
func TestTwoThatAreTheSameAndThatNobodyBuriedAreNotTakenForOne(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		for range 2 {
			put(t, b, dead, queue.Message{Body: []byte("junk")})
		}
		s := paged(b, 4)
		if r, err := s.Pages().Sort(t.Context(), nil, "op_1", 1); err != nil || r.Done != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		if got := listed(t, s); len(got) != 2 {
			t.Errorf("one is in a page, one has arrived: %v", got)
		}
		sorted(t, s, "op_1")
		if got := listed(t, s); len(got) != 2 {
			t.Errorf("both are in a page: %v", got)
		}
	})
}

// What is in a page is no double of itself, however often a walk reads it.
func TestAWalkThatOpensAPageAgainAndAgainRemovesNothingElse(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 6)
		s := paged(b, 4)
		sorted(t, s, "op")
		time.Sleep(2 * time.Second)
		sel := deadset.Selection{Filter: filter.All(), Before: time.Now(), Operation: "op_1"}
		for i := range 6 {
			if r, err := choose(t, s, sel).Delete(t.Context(), nil, 1); err != nil || r.Done != 1 {
				t.Fatalf("%+v, %v", r, err)
			}
			time.Sleep(2 * time.Second)
			if got := listed(t, s); !slices.Equal(got, from(i+1, 5-i)) {
				t.Fatalf("after %d: %v", i+1, got)
			}
		}
	})
}

func TestAnEmptyPageGoesAfterAWhileAndOneWithAMessageStays(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 9)
		s := paged(b, 8)
		sorted(t, s, "op")
		before := inPages(t, b)
		if r, err := s.Delete(t.Context(), before[0]); err != nil || r.Done != before[0] {
			t.Fatalf("%+v, %v", r, err)
		}
		tidy := func() {
			time.Sleep(6 * time.Minute)
			if _, _, err := s.Pages().Depth(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := s.Pages().Tidy(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		tidy()
		tidy()
		tidy()
		if got := inPages(t, b); len(got) != len(before) {
			t.Errorf("a page before one with messages is gone: %v, and before %v", got, before)
		}
		if r, err := s.Delete(t.Context(), 100); err != nil || r.Left != 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		tidy()
		if got := inPages(t, b); len(got) != len(before) {
			t.Errorf("too early: %v", got)
		}
		tidy() // since when they are empty is known from the first look on
		tidy()
		if got := inPages(t, b); len(got) != 0 {
			t.Errorf("they are still there: %v", got)
		}
	})
}

// An operation rests behind a page that a sort fills meanwhile: wherever it rests, it finds that.
func TestAnOperationFindsWhatWasSortedWhileItRested(t *testing.T) {
	for at := 1; at <= 24; at++ {
		inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
			bury(t, b, 10) // pages of 4, 4 and 2
			enough := make(chan struct{})
			f := &faulty{Broker: b, crash: func() { close(enough) }}
			s := paged(f, 16)
			sorted(t, s, "op")
			buryMore(t, b, 10, 1)
			sel := deadset.Selection{Filter: filter.IDs([]string{"t:0:10"}), Before: time.Now(), Operation: "op_1"}
			f.steps, f.at = 0, at
			r, err := choose(t, s, sel).Delete(t.Context(), enough, everything)
			if err != nil {
				t.Fatal(err)
			}
			done := r.Done
			sorted(t, paged(b, 16), "op_2") // another process
			for range 20 {
				if r, err = choose(t, s, sel).Delete(t.Context(), nil, everything); err != nil {
					t.Fatal(err)
				}
				if done += r.Done; !r.More && r.Done == 0 {
					break
				}
			}
			if done != 1 {
				t.Errorf("rested at step %d: %d deleted, and it is over, %+v; left: %v, pages %v", at, done, r, listed(t, s), inPages(t, b))
			}
		})
	}
}

func TestASortThatHasComeToTheEndOfTheNumbersOfPagesSaysSoAndNotThatAllAreInUse(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		for k := range deadset.MaxPages {
			if err := b.Declare(t.Context(), []queue.Spec{{Name: deadset.PageOf(dead, k), Kind: queue.DeadSet}}); err != nil {
				t.Fatal(err)
			}
		}
		buryIn(t, b, deadset.PageOf(dead, deadset.MaxPages-1), 6) // it is full
		bury(t, b, 3)
		r, err := paged(b, 64).Pages().Sort(t.Context(), nil, "op_1", everything)
		if !errors.Is(err, deadset.ErrNoPage) || r.Done != 0 || !strings.Contains(err.Error(), "1 of 64 are in use, up to the last number, 511") ||
			!strings.Contains(err.Error(), "unsort") || strings.Contains(err.Error(), "dead_set.pages") {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
