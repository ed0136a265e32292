package deadset_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// keep is for how long the trash of a test keeps what is in it.
const keep = 72 * time.Hour

// thrown is a dead set whose trash may have so many pages, of three of the messages that bury
// makes.
func thrown(b queue.Broker, most int) *deadset.Set {
	return deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: b, WalkBytes: 900, Pages: 64, TrashPages: most})
}

// throw deletes what is chosen, to the trash, turn by turn.
func throw(t *testing.T, s *deadset.Set, sel deadset.Selection) (done int, err error) {
	t.Helper()
	var last any
	for range 200 {
		r, err := choose(t, s, sel).Trash(t.Context(), s.Trash(keep), nil, everything)
		done += r.Done
		last = fmt.Sprintf("%+v, %v", r, err)
		if err != nil && !errors.Is(err, queue.ErrUnavailable) || err == nil && !r.More && r.Done == 0 {
			return done, err
		}
	}
	t.Fatalf("a delete has no end: %d done, %v", done, last)
	return done, nil
}

// restore restores what is chosen, turn by turn.
func restore(t *testing.T, s *deadset.Set, sel deadset.Selection) (done int) {
	t.Helper()
	sel.Undated, sel.CrashLoops = true, true
	what, err := s.Trash(keep).Choose(sel)
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		r, err := what.Restore(t.Context(), nil, everything)
		if err != nil && !errors.Is(err, queue.ErrUnavailable) {
			t.Fatal(err)
		}
		done += r.Done
		if err == nil && !r.More && r.Done == 0 {
			return done
		}
	}
	t.Fatal("a restore has no end")
	return done
}

// trashed are the ids of what is in the trash, as a look shows them.
func trashed(t *testing.T, s *deadset.Set) (all []string) {
	t.Helper()
	for after := ""; ; {
		list, err := s.Trash(keep).Find(t.Context(), deadset.Query{Limit: 1000, After: after})
		if err != nil || !list.Complete {
			t.Fatalf("%d listed, %+v, %v", len(list.Messages), list.Span, err)
		}
		for _, e := range list.Messages {
			all = append(all, e.ID)
		}
		if after = list.Next; after == "" {
			if len(all) != list.Matched {
				t.Fatalf("%d listed, %d there", len(all), list.Matched)
			}
			return all
		}
	}
}

// everythingOf is a selection of all that is dead by now.
func everythingOf(operation string) deadset.Selection {
	return deadset.Selection{Filter: filter.All(), Before: time.Now(), Operation: operation}
}

func TestWhatIsDeletedIsInTheTrashAndComesBackAsItWas(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		buryKinds(t, b, dead, 30)
		before := take(t, b, dead)
		for _, d := range before {
			put(t, b, dead, d.Message)
		}
		s := roomy(b)
		sel := of(t, map[string]string{"error": "cause b"})
		if done, err := throw(t, s, sel); done != 10 || err != nil {
			t.Fatalf("%d deleted, %v", done, err)
		}
		if got := listed(t, s); !slices.Equal(got, kinds(30, 0, 2)) {
			t.Errorf("left: %v", got)
		}
		synctest.Wait()
		if got := trashed(t, s); !slices.Equal(got, kinds(30, 1)) {
			t.Errorf("in the trash: %v", got)
		}
		list, err := s.Trash(keep).Find(t.Context(), deadset.Query{Limit: 1, MovedBy: "op_1"})
		if err != nil || list.Matched != 10 {
			t.Fatalf("%+v, %v", list.Span, err)
		}
		if e := list.Messages[0]; e.DeletedBy != "op_1" || e.ExpiresAt == nil || time.Until(*e.ExpiresAt) > keep || time.Until(*e.ExpiresAt) < keep-time.Minute || e.DiedAt == nil {
			t.Errorf("%+v", e)
		}
		if none, err := s.Trash(keep).Find(t.Context(), deadset.Query{Limit: 1, MovedBy: "op_2"}); err != nil || none.Matched != 0 || none.Depth != 10 {
			t.Errorf("of another: %+v, %v", none.Span, err)
		}
		synctest.Wait()
		back := everythingOf("op_2")
		back.MovedBy = "op_1"
		if done := restore(t, s, back); done != 10 {
			t.Fatalf("%d restored", done)
		}
		synctest.Wait()
		if got := trashed(t, s); len(got) > 0 {
			t.Errorf("still in the trash: %v", got)
		}
		synctest.Wait()
		if got := listed(t, s); !slices.Equal(got, append(kinds(30, 0, 2), kinds(30, 1)...)) {
			t.Errorf("restored: %v", got)
		}
		synctest.Wait()
		for _, d := range take(t, b, dead) {
			i := slices.IndexFunc(before, func(of queue.Delivery) bool { return of.ID == d.ID })
			if fmt.Sprint(before[i].Headers) != fmt.Sprint(d.Headers) || string(before[i].Body) != string(d.Body) {
				t.Errorf("%s was %v and is %v", d.ID, before[i].Headers, d.Headers)
			}
		}
	})
}

func TestADeleteByCountGoesToTheTrashInTheOrderOfTheDeadSetAlsoOutOfPages(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 10)
		s := thrown(b, 64)
		sorted(t, s, "op")
		buryMore(t, b, 10, 4)
		if r, err := s.Trash(keep).Delete(t.Context(), "op_1", 12); err != nil || r != (deadset.Result{Requested: 12, Done: 12, Left: 2}) {
			t.Fatalf("%+v, %v", r, err)
		}
		if got := listed(t, s); !slices.Equal(got, from(12, 2)) {
			t.Errorf("left: %v", got)
		}
		synctest.Wait()
		if got := trashed(t, s); !slices.Equal(got, from(0, 12)) {
			t.Errorf("in the trash: %v", got)
		}
		synctest.Wait()
		if all, _, err := s.Pages().Depth(t.Context()); all != 2 || err != nil {
			t.Errorf("the depth of the dead set is %d, %v", all, err)
		}
		// More than there are.
		if r, err := s.Trash(keep).Delete(t.Context(), "op_2", 12); err != nil || r != (deadset.Result{Requested: 12, Done: 2, Left: 0}) {
			t.Fatalf("%+v, %v", r, err)
		}
	})
}

func TestWhatIsInTheTrashForSoLongIsGoneAndItsPagesGoToo(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 9)
		s := thrown(b, 64)
		if _, err := throw(t, s, everythingOf("op_1")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(keep - time.Hour)
		if got := trashed(t, s); len(got) != 9 {
			t.Errorf("before: %v", got)
		}
		time.Sleep(2 * time.Hour)
		if got := trashed(t, s); len(got) != 0 {
			t.Errorf("after: %v", got)
		}
		for range 6 {
			time.Sleep(6 * time.Minute)
			if err := s.Pages().Tidy(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.Depth(t.Context(), deadset.TrashOf(dead, keep, 0)); !errors.Is(err, queue.ErrMissing) {
			t.Errorf("its first page is still there: %v", err)
		}
	})
}

func TestAFullTrashTakesNothingMoreAndSaysWhatToDo(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 12)
		s := thrown(b, 2)
		done, err := throw(t, s, everythingOf("op_1"))
		if !errors.Is(err, deadset.ErrNoPage) || !strings.Contains(err.Error(), "raise dead_set.trash_pages, up to 256") || done == 0 {
			t.Fatalf("%d deleted, %v", done, err)
		}
		if got := listed(t, s); !slices.Equal(got, from(done, 12-done)) {
			t.Errorf("left: %v", got)
		}
		synctest.Wait()
		if r, err := s.Trash(keep).Delete(t.Context(), "op_2", 12); !errors.Is(err, deadset.ErrNoPage) || r.Done != 0 || r.Stopped == "" {
			t.Errorf("by count: %+v, %v", r, err)
		}
		if room, err := s.Trash(keep).Room(t.Context()); err != nil || room >= queue.WindowSize {
			t.Errorf("room for %d, %v", room, err)
		}
		if got := trashed(t, s); !slices.Equal(got, from(0, done)) {
			t.Errorf("in the trash: %v", got)
		}
	})
}

// For months each day something is deleted, more than the numbers of pages go: there is always some
// in the trash, and it is never full. What is in it is shown, and comes back, in the order in which
// it was deleted.
func TestTheNumbersOfATrashThatIsNeverEmptyDoNotComeToAnEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		const days, each = 56, 40 // ten pages each day
		s := thrown(b, 64)
		for day := range days {
			first := day * each
			buryMore(t, b, first, each)
			if done, err := throw(t, s, everythingOf(fmt.Sprint("op_", day))); done != each || err != nil {
				t.Fatalf("day %d: %d deleted, %v", day, done, err)
			}
			if day%3 == 2 {
				s = thrown(b, 64) // another process, which knows nothing
				if room, err := s.Trash(keep).Room(t.Context()); err != nil || room < 10*queue.WindowSize {
					t.Fatalf("day %d: room for %d, %v", day, room, err)
				}
			}
			if oldest := max(0, first-3*each); day%5 == 4 {
				if got := trashed(t, s); !slices.Equal(got, from(oldest, first+each-oldest)) {
					t.Fatalf("day %d: in the trash %v, from %d on", day, got, oldest)
				}
			}
			synctest.Wait()
			time.Sleep(24*time.Hour - time.Minute)
		}
		all := restore(t, s, everythingOf("op"))
		synctest.Wait()
		if got := listed(t, roomy(b)); all != 3*each || !slices.Equal(got, from((days-3)*each, 3*each)) {
			t.Errorf("%d restored: %v", all, got)
		}
	})
}

func TestADeleteToTheTrashThatIsCutOffAtAnyStepLosesNothingAndMovesNothingTwice(t *testing.T) {
	for name, cut := range ways() {
		over := false
		for at := 1; !over; at++ {
			inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
				bury(t, b, 7)
				sorted(t, thrown(b, 8), "op") // out of pages
				buryMore(t, b, 7, 3)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				f := &faulty{Broker: b, at: at, crash: func() { cut(b, cancel) }}
				dying := thrown(f, 8)
				var err error
				for range 3 { // the last looks once more
					if _, err = choose(t, dying, everythingOf("op_1")).Trash(ctx, dying.Trash(keep), nil, everything); err != nil {
						break
					}
				}
				if over = !f.reached(); !over {
					mend(b)
				} else if err != nil {
					t.Error(err)
				}
				// Another process goes on: it knows nothing of the first.
				s := thrown(b, 8)
				if _, err := throw(t, s, everythingOf("op_1")); err != nil {
					t.Error(err)
				}
				if got := trashed(t, s); !slices.Equal(got, from(0, 10)) {
					t.Errorf("in the trash: %v", got)
				}
				synctest.Wait()
				if got := listed(t, s); len(got) > 0 {
					t.Errorf("left: %v", got)
				}
				if t.Failed() {
					t.Fatalf("%s at step %d", name, at)
				}
			})
			if at > 400 {
				t.Fatal("this delete has no end")
			}
		}
	}
}

func TestARestoreThatIsCutOffAtAnyStepLosesNothingAndBringsNothingBackTwice(t *testing.T) {
	for name, cut := range ways() {
		over := false
		for at := 1; !over; at++ {
			inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
				bury(t, b, 7)
				if done, err := throw(t, roomy(b), everythingOf("op_1")); done != 7 || err != nil {
					t.Fatalf("%d deleted, %v", done, err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				f := &faulty{Broker: b, at: at, crash: func() { cut(b, cancel) }}
				what, err := roomy(f).Trash(keep).Choose(everythingOf("op_2"))
				for range 3 {
					if err == nil {
						_, err = what.Restore(ctx, nil, everything)
					}
				}
				if over = !f.reached(); !over {
					mend(b)
				} else if err != nil {
					t.Error(err)
				}
				s := roomy(b)
				restore(t, s, everythingOf("op_2"))
				if got := ids(t, b, dead); !slices.Equal(got, from(0, 7)) {
					t.Errorf("restored: %v", got)
				}
				if got := trashed(t, s); len(got) > 0 {
					t.Errorf("in the trash: %v", got)
				}
				if t.Failed() {
					t.Fatalf("%s at step %d", name, at)
				}
			})
			if at > 400 {
				t.Fatal("this restore has no end")
			}
		}
	}
}

// roomy is a dead set of which one window shows all.
func roomy(b queue.Broker) *deadset.Set {
	return deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: b, TrashPages: 8})
}

// What one operation deleted, another deletes once more while the restore between them is cut off:
// each has its own.
func TestWhatIsDeletedAgainIsInTheTrashOfTheOperationThatDidIt(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 2)
		s := roomy(b)
		if _, err := throw(t, s, everythingOf("op_1")); err != nil {
			t.Fatal(err)
		}
		for _, d := range take(t, b, deadset.TrashOf(dead, keep, 0)) { // restored, and still in the trash
			put(t, b, deadset.TrashOf(dead, keep, 0), d.Message)
			d.Headers = maps.Clone(d.Headers)
			delete(d.Headers, "x-stepwell-moved")
			delete(d.Headers, "x-stepwell-place")
			put(t, b, dead, d.Message)
		}
		if done, err := throw(t, s, everythingOf("op_2")); done != 2 || err != nil {
			t.Fatalf("%d deleted, %v", done, err)
		}
		back := everythingOf("op_3")
		back.MovedBy = "op_2"
		if done := restore(t, s, back); done != 2 {
			t.Errorf("%d restored", done)
		}
		if got := ids(t, b, dead); !slices.Equal(got, from(0, 2)) {
			t.Errorf("restored: %v", got)
		}
	})
}

// Who finds only with the next message that a page of the trash is full has read that message's
// page for nothing.
func TestADeleteOfFullPagesReadsEachOfThemOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		const pages = 3
		bury(t, b, pages*queue.WindowSize)
		r := &reading{Broker: b, read: map[string]int{}}
		s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: r, Pages: 8, TrashPages: 8})
		if n := sorted(t, s, "op_1"); n != pages*queue.WindowSize {
			t.Fatalf("%d sorted", n)
		}
		clear(r.read)
		if done, err := throw(t, s, everythingOf("op_2")); done != pages*queue.WindowSize || err != nil {
			t.Fatalf("%d deleted, %v", done, err)
		}
		for k := range pages {
			if n := r.read[deadset.PageOf(dead, k)]; n != 1 {
				t.Errorf("page %d was read %d times", k, n)
			}
		}
	})
}
