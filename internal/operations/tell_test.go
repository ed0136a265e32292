package operations

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// telling is a run of an operation that the store has as running in term 5, stored just now.
func telling(t *testing.T, s Store) *worker {
	t.Helper()
	r := Request{ID: "op_a", Action: Replay, Target: orders}
	at := State{Phase: Running, Term: 5}
	if err := s.Create(t.Context(), r, at); err != nil {
		t.Fatal(err)
	}
	return &worker{r: taking(s), l: &live{request: r, term: 5, at: at, saved: time.Now()}}
}

func TestWhatARunTellsIsStoredOnceWhatIsStoredIsFiveSecondsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		w := telling(t, s)
		for second, want := range []int{0, 0, 0, 0, 0, 5, 5, 5, 5, 5, 10} {
			at, err := w.tell(t.Context(), func(s *State) { s.Done = second })
			if err != nil || at.Done != second || !at.UpdatedAt.Equal(time.Now()) {
				t.Errorf("second %d: %+v, %v", second, at, err)
			}
			if o, err := s.Load(t.Context(), "op_a"); err != nil || o.Done != want {
				t.Errorf("second %d: %d are stored, not %d, %v", second, o.Done, want, err)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestWhoTellsOfAnOperationThatAnotherRunsLearnsThat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory()
		w := telling(t, s)
		if _, err := s.Change(t.Context(), "op_a", func(s State) (State, error) { s.Term = 6; return s, nil }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if _, err := w.tell(t.Context(), func(s *State) { s.Done = 9 }); !errors.Is(err, errLost) || !w.obeys(t.Context()) {
			t.Errorf("%v, and it goes on", err)
		}
		if o, err := s.Load(t.Context(), "op_a"); err != nil || o.Done != 0 || o.Term != 6 {
			t.Errorf("%+v, %v", o.State, err)
		}
	})
}

// The brokers are away, say: what was told goes with the next.
func TestWhoTellsWhileNothingCanBeStoredGoesOn(t *testing.T) {
	w := &worker{r: taking(failing{ErrAway}), l: &live{request: Request{ID: "op_a"}, term: 5, at: State{Phase: Running}}}
	if at, err := w.tell(t.Context(), func(s *State) { s.Done = 9 }); err != nil || at.Done != 9 || w.now().Done != 9 {
		t.Errorf("%+v, %v", at, err)
	}
	if w.obeys(t.Context()) {
		t.Error("it does not go on")
	}
}

// refuses is a store that is away, and counts who asks.
type refuses struct {
	failing
	asked *int
}

func (s refuses) Change(ctx context.Context, id string, change func(State) (State, error)) (State, error) {
	*s.asked++
	return s.failing.Change(ctx, id, change)
}

func TestTheEndOfARunIsTriedAgainMoreAndMoreSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		w := &worker{r: taking(refuses{failing{ErrAway}, &asked}), l: &live{request: Request{ID: "op_a"}, term: 5, at: State{Phase: Running}}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		w.end(ctx, Done, "")
		if asked < 3600/5 || asked > 3600/5+10 {
			t.Errorf("it asked %d times in an hour", asked)
		}
	})
}
