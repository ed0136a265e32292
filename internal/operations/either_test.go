package operations

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/records"
)

func TestWithoutRecordsAnOperationLivesInTheProcessThatIsAskedUntilThereAreSome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p, log := memory.New(), &pile{match: 10}, slog.New(slog.DiscardHandler)
		background(t, b.Run)
		store := records.New(records.Config{Broker: b, Log: "app.records", Logger: log, Large: Large()})
		missing := errors.New("queue app.records is missing")
		sets := map[Target]DeadSet{orders: p}
		e := &Either{
			Alone: New(Config{Store: NewMemory(), Sets: sets, Logger: log}),
			Shared: New(Config{Store: NewShared(store), Sets: sets, Logger: log, Election: &Election{
				Records: store, Broker: b, Lease: "app.operations", Logger: log,
			}}),
			Missing: func() error { return missing },
		}
		background(t, e.Run)
		asked := request(orders)
		ask := func(key string) Operation {
			o, _, err := e.Ask(t.Context(), asked, Rate{1, time.Minute}, key)
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		here := ask("key")
		time.Sleep(time.Second)
		if here.Alone != missing.Error() || e.RunningOn(orders) != here.ID {
			t.Errorf("%+v, %s runs", here, e.RunningOn(orders))
		}
		if o, err := e.Note(t.Context(), noted(), func(context.Context, string) (Phase, error) { return Done, nil }); err != nil || o.Alone != missing.Error() {
			t.Errorf("at once: %+v, %v", o, err)
		}
		if all, err := e.List(t.Context()); err != nil || len(all) != 2 {
			t.Errorf("%v, %v", all, err)
		}
		missing = nil
		if _, err := e.List(t.Context()); !errors.Is(err, ErrAway) { // they may come in a moment
			t.Errorf("%v", err)
		}
		background(t, store.Run)
		time.Sleep(time.Second)
		if o := ask("key"); o.ID != here.ID || o.Alone == "" {
			t.Errorf("asked for once more: %+v", o)
		}
		there := ask("")
		if all, err := e.List(t.Context()); err != nil || there.Alone != "" || len(all) != 3 {
			t.Errorf("%+v, %v, %v", there, all, err)
		}
		for _, o := range []Operation{here, there} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if o, err := e.Change(ctx, o.ID, Change{Phase: Cancelled}); err != nil || o.Phase != Cancelled {
				t.Errorf("%+v, %v", o, err)
			}
			cancel()
			if o, err := e.Find(t.Context(), o.ID); err != nil || o.Phase != Cancelled {
				t.Errorf("%+v, %v", o, err)
			}
		}
		if found, err := e.Sample(t.Context(), asked); err != nil || found.Matched == 0 {
			t.Errorf("%+v, %v", found, err)
		}
	})
}

// alone has operations in records and in this process, and which of them are to be is said by why.
func alone(t *testing.T, why *error, test func(t *testing.T, e *Either, p *pile, stop func())) {
	t.Helper()
	inRecords(t, func(t *testing.T, b *memory.Broker, s *Shared, store *records.Store) {
		p, log := &pile{match: 10}, slog.New(slog.DiscardHandler)
		sets := map[Target]DeadSet{orders: p, slow: &pile{match: 10}}
		e := &Either{
			Alone: New(Config{Store: NewMemory(), Sets: sets, Logger: log}),
			Shared: New(Config{Store: s, Sets: sets, Logger: log, Election: &Election{
				Records: store, Broker: b, Lease: "app.operations", Logger: log,
			}}),
			Missing: func() error { return *why },
		}
		test(t, e, p, background(t, e.Run))
	})
}

func TestAllOperationsAreOneListWhereverTheyAreKept(t *testing.T) {
	var why error
	alone(t, &why, func(t *testing.T, e *Either, _ *pile, _ func()) {
		var want []string
		for i := range 6 {
			why = nil
			if i%2 == 0 {
				why = errors.New("records are missing")
			}
			wish := request(orders)
			wish.Action = Delete
			o, _, err := e.Ask(t.Context(), wish, Rate{1, time.Minute}, "")
			if err != nil || (o.Alone == "") != (why == nil) {
				t.Fatalf("%+v, %v", o.State, err)
			}
			want = append([]string{o.ID}, want...)
		}
		var got []string
		all, err := e.List(t.Context())
		for _, o := range all {
			got = append(got, o.ID)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, not %v, %v", got, want, err)
		}
	})
}

func TestWhatRunsIsFoundWhereverItIsKept(t *testing.T) {
	var why error
	alone(t, &why, func(t *testing.T, e *Either, _ *pile, _ func()) {
		for at, missing := range map[Target]error{orders: nil, slow: errors.New("records are missing")} {
			why = missing
			o, _, err := e.Ask(t.Context(), request(at), Rate{1, time.Minute}, "")
			time.Sleep(time.Minute)
			if on := e.RunningOn(at); err != nil || on != o.ID {
				t.Errorf("on %s runs %q, not %q, %v", at.words(), on, o.ID, err)
			}
		}
	})
}

func TestAStopWaitsForTheTurnsOfWhatIsKeptInThisProcess(t *testing.T) {
	why := errors.New("records are missing")
	alone(t, &why, func(t *testing.T, e *Either, p *pile, stop func()) {
		p.set(func(p *pile) { p.held = true })
		if _, _, err := e.Ask(t.Context(), request(orders), Rate{}, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // in its turn
		began := time.Now()
		stop()
		p.set(func(p *pile) {
			if p.busy > 0 || len(p.turns) != 1 || time.Since(began) != stopTime {
				t.Errorf("stopped after %s, %d of %d turns go on", time.Since(began), p.busy, len(p.turns))
			}
		})
	})
}
