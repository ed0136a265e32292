package operations

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"
)

// taking is a process that knows the dead set of orders, and is called here.
func taking(s Store) *Runner {
	return New(Config{Store: s, Sets: map[Target]DeadSet{orders: &pile{}}, Name: "here", Logger: slog.New(slog.DiscardHandler)})
}

func TestWhoTakesAnOperationOfItsOwnTermOrAnEarlierOneAndNoOther(t *testing.T) {
	before, now := time.Unix(1000, 0).UTC(), time.Unix(2000, 0).UTC()
	known, foreign, other := Request{Action: Replay, Target: orders}, Request{Action: Replay, Target: orders, Foreign: true}, Request{Action: Replay, Target: slow}
	began := State{Phase: Running, Runner: "here", Term: 5, StartedAt: now, UpdatedAt: now}
	resumed := State{Phase: Running, Runner: "here", Term: 5, StartedAt: before, UpdatedAt: now}
	gone := func(term int64, wanted Phase) State {
		return State{Phase: Running, Runner: "gone", Term: term, Wanted: wanted, StartedAt: before, Why: "it is away"}
	}
	taken := func(change func(*State)) State { s := resumed; change(&s); return s }
	for _, c := range []struct {
		what    string
		request Request
		at      State
		want    State
		lost    bool
	}{
		{"it waits", known, State{Phase: Queued}, began, false},
		{"it was let go on", known, State{Phase: Queued, StartedAt: before}, resumed, false},
		{"it ran in an earlier term", known, gone(4, ""), taken(func(s *State) { s.Resumed = 1 }), false},
		{"its beginning was stored, and nobody told", known, gone(5, ""), resumed, false},
		{"it runs in a later term", known, gone(6, ""), State{}, true},
		{"it was to be cancelled", known, gone(4, Cancelled), taken(func(s *State) { s.Wanted = Cancelled }), false},
		{"it rests", known, State{Phase: Paused, Term: 4}, State{}, true},
		{"it is over", known, State{Phase: Done, Term: 4}, State{}, true},
		{"it waits for a newer release", foreign, State{Phase: Queued}, State{}, true},
		{"it waits for a process of other streams", other, State{Phase: Queued}, State{}, true},
		{"it ran where a newer release is", foreign, gone(4, ""), State{Phase: Queued, Runner: "gone", Term: 4, StartedAt: before, UpdatedAt: now}, false},
		{"it runs where a newer release is", foreign, gone(6, ""), State{}, true},
		{"it was to be cancelled where a newer release is", foreign, gone(4, Cancelled), State{Phase: Cancelled, Runner: "gone", Term: 4, StartedAt: before, Why: notCounted, UpdatedAt: now, EndedAt: now}, false},
		{"it was to rest where other streams are", other, gone(4, Paused), State{Phase: Paused, Runner: "gone", Term: 4, StartedAt: before, Why: notCounted, UpdatedAt: now}, false},
	} {
		got, err := taking(nil).taken(c.request, c.at, 5, now)
		if errors.Is(err, errLost) != c.lost || !c.lost && (err != nil || !same(got, c.want)) {
			t.Errorf("%s: %+v, %v", c.what, got, err)
		}
	}
}

// same says whether two states without counts are.
func same(a, b State) bool {
	return a.Phase == b.Phase && a.Why == b.Why && a.Runner == b.Runner && a.Term == b.Term && a.Wanted == b.Wanted && a.Resumed == b.Resumed &&
		a.StartedAt.Equal(b.StartedAt) && a.UpdatedAt.Equal(b.UpdatedAt) && a.EndedAt.Equal(b.EndedAt)
}

func TestWhatARunSavesIsStoredOnlyWhileItIsItsOperationBesideWhatPeopleWant(t *testing.T) {
	fast, slower := Rate{100, time.Second}, Rate{1, time.Second}
	for _, c := range []struct {
		what     string
		at, save State
		want     State
		lost     bool
	}{
		{"it goes on", State{Phase: Running, Term: 5}, State{Phase: Running, Term: 5, Done: 7}, State{Phase: Running, Term: 5, Done: 7}, false},
		{"somebody made it slower", State{Phase: Running, Term: 5, Rate: slower}, State{Phase: Running, Term: 5, Rate: fast}, State{Phase: Running, Term: 5, Rate: slower}, false},
		{"somebody wants it to rest", State{Phase: Running, Term: 5, Wanted: Paused}, State{Phase: Running, Term: 5}, State{Phase: Running, Term: 5, Wanted: Paused}, false},
		{"a wish was withdrawn", State{Phase: Running, Term: 5}, State{Phase: Running, Term: 5, Wanted: Paused}, State{Phase: Running, Term: 5}, false},
		{"it is done though it was to rest", State{Phase: Running, Term: 5, Wanted: Paused}, State{Phase: Done, Term: 5}, State{Phase: Done, Term: 5}, false},
		{"it rests though it was to be cancelled", State{Phase: Running, Term: 5, Wanted: Cancelled}, State{Phase: Paused, Term: 5}, State{Phase: Cancelled, Term: 5}, false},
		{"it rests", State{Phase: Running, Term: 5, Wanted: Paused}, State{Phase: Paused, Term: 5}, State{Phase: Paused, Term: 5}, false},
		{"it runs in a later term", State{Phase: Running, Term: 6, Done: 3}, State{Phase: Running, Term: 5}, State{Phase: Running, Term: 6, Done: 3}, true},
		{"it runs in an earlier term, by the clock of a store that was set back", State{Phase: Running, Term: 4, Done: 3}, State{Phase: Running, Term: 5}, State{Phase: Running, Term: 4, Done: 3}, true},
		{"another put it back", State{Phase: Queued, Term: 5}, State{Phase: Done, Term: 5}, State{Phase: Queued, Term: 5}, true},
		{"another cancelled it", State{Phase: Cancelled, Term: 5}, State{Phase: Running, Term: 5}, State{Phase: Cancelled, Term: 5}, true},
	} {
		store := NewMemory()
		r := Request{ID: "op_a", Action: Replay, Target: orders}
		if err := store.Create(t.Context(), r, c.at); err != nil {
			t.Fatal(err)
		}
		w := worker{r: taking(store), l: &live{request: r, term: 5}}
		_, err := w.save(t.Context(), c.save)
		stored, loaded := store.Load(t.Context(), r.ID)
		if errors.Is(err, errLost) != c.lost || w.l.lost != c.lost || !c.lost && err != nil {
			t.Errorf("%s: lost %v, %v", c.what, w.l.lost, err)
		}
		if got := stored.State; loaded != nil || got.Phase != c.want.Phase || got.Term != c.want.Term || got.Wanted != c.want.Wanted || got.Rate != c.want.Rate || got.Done != c.want.Done {
			t.Errorf("%s: stored is %+v, %v", c.what, got, loaded)
		}
	}
}

func TestARunWhoseOperationIsForgottenIsLostAndOneWhoseStoreIsAwayIsNot(t *testing.T) {
	for what, c := range map[string]struct {
		err  error
		lost bool
	}{"forgotten": {ErrUnknown, true}, "away": {ErrAway, false}} {
		w := worker{r: taking(failing{c.err}), l: &live{request: Request{ID: "op_a"}, term: 5}}
		if _, err := w.save(t.Context(), State{Phase: Running, Term: 5}); err == nil || errors.Is(err, errLost) != c.lost || w.l.lost != c.lost {
			t.Errorf("%s: lost %v, %v", what, w.l.lost, err)
		}
		if !w.l.saved.IsZero() {
			t.Errorf("%s: it passes for stored", what)
		}
	}
}

// failing is a store that changes nothing.
type failing struct{ err error }

func (f failing) Create(context.Context, Request, State) error { return f.err }

func (f failing) Change(context.Context, string, func(State) (State, error)) (State, error) {
	return State{}, f.err
}

func (f failing) Load(context.Context, string) (Operation, error) { return Operation{}, f.err }

func (f failing) List() ([]Operation, error) { return nil, f.err }

func (f failing) Changed() <-chan struct{} { return nil }

func TestWhatRunsHereHearsWhatTheStoreSaysOfIt(t *testing.T) {
	at := State{Phase: Running, Term: 5, Rate: Rate{1, time.Second}}
	with := func(change func(*State)) State { s := at; change(&s); return s }
	for _, c := range []struct {
		what         string
		says         State
		lost, looks  bool
		wanted       Phase
		wantMessages int
	}{
		{"nothing new", with(func(s *State) { s.Done = 3 }), false, false, "", 1},
		{"it is to rest", with(func(s *State) { s.Wanted = Paused }), false, true, Paused, 1},
		{"it is to be faster", with(func(s *State) { s.Rate.Messages = 9 }), false, true, "", 9},
		{"another runs it", with(func(s *State) { s.Term = 6 }), true, true, "", 1},
		{"it was put back", with(func(s *State) { s.Phase = Queued }), true, true, "", 1},
	} {
		r, request := taking(NewMemory()), Request{ID: "op_a", Action: Replay, Target: orders}
		l := &live{request: request, term: 5, at: at, poked: make(chan struct{}, 1)}
		r.live[request.ID] = l
		r.hear([]Operation{{Request{ID: "op_b"}, State{Phase: Running, Term: 7}}, {request, c.says}})
		if l.lost != c.lost || len(l.poked) == 1 != c.looks || l.at.Wanted != c.wanted || l.at.Rate.Messages != c.wantMessages {
			t.Errorf("%s: lost %v, looks %d, %+v", c.what, l.lost, len(l.poked), l.at)
		}
	}
}
