package operations

import (
	"context"
	"errors"
	"log/slog"
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
