package operations

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/records"
)

// inRecords calls test with a store of an app of which no process runs operations.
func inRecords(t *testing.T, test func(t *testing.T, b *memory.Broker, s *Shared, r *records.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := memory.New()
		background(t, b.Run)
		store := records.New(records.Config{Broker: b, Log: "app.records", Logger: slog.New(slog.DiscardHandler), Large: Large()})
		background(t, store.Run)
		if err := store.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		test(t, b, NewShared(store), store)
	})
}

// long is a request of 300 kB and a bit, of which 27 fit beside one another.
func long(n int) Request {
	time.Sleep(time.Second)
	return Request{ID: fmt.Sprintf("op_%03d", n), Action: Replay, Target: orders, CreatedAt: time.Now().UTC(), Note: strings.Repeat("n", 300<<10)}
}

const longFit = 27

// becomes makes it a state of that phase.
func becomes(t *testing.T, s Store, id string, p Phase) {
	t.Helper()
	if _, err := s.Change(t.Context(), id, func(s State) (State, error) { return s.ending(p, "", time.Now().UTC()), nil }); err != nil {
		t.Fatal(err)
	}
}

func TestLargeRequestsThatWaitTakeAllRoomUntilOneIsOver(t *testing.T) {
	inRecords(t, func(t *testing.T, _ *memory.Broker, s *Shared, _ *records.Store) {
		for n := range longFit {
			if err := s.Create(t.Context(), long(n), State{Phase: Queued}); err != nil {
				t.Fatalf("%d: %v", n, err)
			}
		}
		if err := s.Create(t.Context(), long(100), State{Phase: Queued}); !errors.Is(err, ErrFull) {
			t.Errorf("%v", err)
		}
		becomes(t, s, "op_005", Cancelled)
		if err := s.Create(t.Context(), long(101), State{Phase: Queued}); err != nil {
			t.Errorf("in place of one that is over: %v", err)
		}
		for id, there := range map[string]bool{"op_004": true, "op_005": false, "op_100": false, "op_101": true} {
			if _, err := s.Load(t.Context(), id); (err == nil) != there {
				t.Errorf("%s: %v", id, err)
			}
		}
	})
}

func TestOfLargeRequestsThatAreOverTheOldestAreForgottenWithTheirStates(t *testing.T) {
	inRecords(t, func(t *testing.T, _ *memory.Broker, s *Shared, r *records.Store) {
		const all = longFit + 10
		for n := range all {
			o := long(n)
			if err := s.Create(t.Context(), o, State{Phase: Queued}); err != nil {
				t.Fatal(err)
			}
			becomes(t, s, o.ID, Done)
		}
		list, err := s.List()
		if err != nil || len(list) != longFit || list[0].ID != "op_036" || list[longFit-1].ID != "op_010" {
			t.Errorf("%d are kept, %v", len(list), err)
		}
		if kept, err := r.All(kind); err != nil || len(kept) != 2*longFit {
			t.Errorf("%d records are kept, %v", len(kept), err)
		}
	})
}

func TestWhatIsOverForAMonthIsForgottenWithTheNextThatIsAskedFor(t *testing.T) {
	inRecords(t, func(t *testing.T, _ *memory.Broker, s *Shared, r *records.Store) {
		for n := range 3 {
			o := long(n)
			if err := s.Create(t.Context(), o, State{Phase: Queued}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * 24 * time.Hour)
			becomes(t, s, o.ID, Done)
		}
		time.Sleep(15 * 24 * time.Hour) // the first ended 35 days ago
		if err := s.Create(t.Context(), long(3), State{Phase: Queued}); err != nil {
			t.Fatal(err)
		}
		kept, err := r.All(kind)
		if _, unknown := s.Load(t.Context(), "op_000"); err != nil || len(kept) != 5 || !errors.Is(unknown, ErrUnknown) {
			t.Errorf("%d records are kept, %v, %v", len(kept), unknown, err)
		}
	})
}

func TestALongReasonIsCutBetweenTwoCharacters(t *testing.T) {
	inRecords(t, func(t *testing.T, _ *memory.Broker, s *Shared, _ *records.Store) {
		if err := s.Create(t.Context(), long(0), State{Phase: Running}); err != nil {
			t.Fatal(err)
		}
		for why, want := range map[string]string{
			strings.Repeat("x", 1024):       strings.Repeat("x", 1024),
			strings.Repeat("x", 1025):       strings.Repeat("x", 1024) + "…",
			"x" + strings.Repeat("é", 1000): "x" + strings.Repeat("é", 511) + "…",
		} {
			now, err := s.Change(t.Context(), "op_000", func(s State) (State, error) { s.Why = why; return s, nil })
			if err != nil || now.Why != want || !utf8.ValidString(now.Why) {
				t.Errorf("%d bytes became %d, %v", len(why), len(now.Why), err)
			}
			if o, err := s.Load(t.Context(), "op_000"); err != nil || o.Why != want {
				t.Errorf("%d bytes are kept as %d, %v", len(why), len(o.Why), err)
			}
		}
	})
}

// Its request was forgotten, and its state was still to be as the key was used again.
func TestAStateOfAnOperationBeforeItOfTheSameKeyIsNotItsOwn(t *testing.T) {
	inRecords(t, func(t *testing.T, _ *memory.Broker, s *Shared, r *records.Store) {
		const id = "op_key"
		for name, value := range map[string]string{
			id:               `{"request":{"id":"op_key","action":"replay","stream":"orders","select":{"all":true},"created_at":"2026-01-01T00:00:00Z"},"state":{"state":"queued"}}`,
			id + stateSuffix: `{"of":"2020-01-01T00:00:00Z","state":{"state":"done","done":77,"matched":77}}`,
		} {
			if err := r.Change(t.Context(), kind, name, func(r records.Record) (records.Record, error) {
				r.Value = []byte(value)
				return r, nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := s.Load(t.Context(), id)
		if err != nil || got.Phase != Queued || got.Done != 0 || got.Foreign {
			t.Errorf("%+v, %v", got.State, err)
		}
		if list, err := s.List(); err != nil || len(list) != 1 || list[0].Phase != Queued {
			t.Errorf("%+v, %v", list, err)
		}
		now, err := s.Change(t.Context(), id, func(s State) (State, error) { s.Done++; return s, nil })
		if err != nil || now.Done != 1 || now.Phase != Queued {
			t.Errorf("%+v, %v", now, err)
		}
		if got, err := s.Load(t.Context(), id); err != nil || got.Done != 1 {
			t.Errorf("%+v, %v", got.State, err)
		}
		if _, err := s.Load(t.Context(), id+stateSuffix); !errors.Is(err, ErrUnknown) {
			t.Errorf("a state passes for an operation: %v", err)
		}
	})
}

func TestUnderAnAlarmNothingPassesForStoredAndThatIsSaidInTime(t *testing.T) {
	inRecords(t, func(t *testing.T, b *memory.Broker, s *Shared, _ *records.Store) {
		o := long(0)
		if err := s.Create(t.Context(), o, State{Phase: Queued}); err != nil {
			t.Fatal(err)
		}
		b.Block(true)
		for what, do := range map[string]func() error{
			"Create": func() error { return s.Create(t.Context(), long(1), State{Phase: Queued}) },
			"Change": func() error {
				_, err := s.Change(t.Context(), o.ID, func(s State) (State, error) { s.Done = 9; return s, nil })
				return err
			},
		} {
			began := time.Now()
			err := do()
			if took := time.Since(began); !errors.Is(err, ErrAway) || took > 12*time.Second {
				t.Errorf("%s: %v after %s", what, err, took)
			}
		}
		b.Block(false)
		time.Sleep(time.Minute)
		if got, err := s.Load(t.Context(), o.ID); err != nil || got.Phase != Queued {
			t.Errorf("%+v, %v", got.State, err)
		}
	})
}

func TestOneThatIsThereIsNotMadeAgainWhateverItsStateIs(t *testing.T) {
	onEachStore(t, func(t *testing.T, s Store) {
		r := Request{ID: "op_a", Action: Replay, Target: orders, CreatedAt: time.Now().UTC()}
		for _, p := range []Phase{Queued, Running, Paused, Done} {
			if err := s.Create(t.Context(), r, State{Phase: Queued}); p != Queued && !errors.Is(err, ErrExists) || p == Queued && err != nil {
				t.Errorf("%s: %v", p, err)
			}
			if _, err := s.Change(t.Context(), r.ID, func(s State) (State, error) { s.Phase, s.EndedAt = p, time.Now().UTC(); return s, nil }); err != nil {
				t.Error(err)
			}
			if o, err := s.Load(t.Context(), r.ID); err != nil || o.Phase != p {
				t.Errorf("%s: %+v, %v", p, o.State, err)
			}
		}
	})
}

// Room that is made for what does not fit all the same is history lost for nothing.
func TestARequestThatDoesNotFitBesideThoseThatWaitForgetsNoneThatIsOver(t *testing.T) {
	inRecords(t, func(t *testing.T, _ *memory.Broker, s *Shared, _ *records.Store) {
		for n := range 20 {
			over := Request{ID: NewID(time.Now()), Action: Replay, Target: orders, CreatedAt: time.Now().UTC()}
			if err := s.Create(t.Context(), over, State{Phase: Queued}); err != nil {
				t.Fatalf("%d: %v", n, err)
			}
			becomes(t, s, over.ID, Done)
		}
		for n := range longFit {
			if err := s.Create(t.Context(), long(n), State{Phase: Queued}); err != nil {
				t.Fatalf("%d: %v", n, err)
			}
		}
		if list, err := s.List(); err != nil || len(list) != longFit+20 {
			t.Errorf("before: %d are kept, %v", len(list), err)
		}
		if err := s.Create(t.Context(), long(100), State{Phase: Queued}); !errors.Is(err, ErrFull) {
			t.Errorf("%v", err)
		}
		if list, err := s.List(); err != nil || len(list) != longFit+20 {
			t.Errorf("%d are kept, not %d, %v", len(list), longFit+20, err)
		}
	})
}
